"""Everything that stands under a prefix, with times, ranks and tokens in a form that a test can spell out."""

from __future__ import annotations

import json
import re
from typing import Any

from redis.asyncio import Redis

State = dict[str, Any]

TIME_FIELDS = ("created_at", "updated_at", "run_at", "started_at", "completed_at", "trashed_at", "lease_expires_at")
MOMENTS = ("created_at", "updated_at", "started_at", "completed_at", "trashed_at")
TIME_SETS = (
    "scheduled", "retrying", "running", "unfinished", "completed", "cancelled", "dlq", "trash", "last_seen",
    "blocked",
)  # fmt: skip
RANK_SETS = ("pending", "offered")


class Look:
    """Reads everything that is stored. What it has seen once keeps its label, also when it is gone from the store."""

    def __init__(self, client: Redis, prefix: str, queue: str = "work") -> None:
        self._client = client
        self._prefix = prefix
        self._queue = queue
        self._moments: set[int] = set()

    async def __call__(self) -> State:
        """Return all keys with their values; those of the queue by their short names."""
        raw: State = {}
        async for key in self._client.scan_iter(f"{self._prefix}*", count=1000):
            if key.startswith(f"{self._prefix}hints:"):
                continue  # they may be lost, and are tested by themselves
            name = key.removeprefix(self._prefix).removeprefix(f"{{{self._queue}}}:")
            raw[name] = await _value(self._client, key)
        hashes = [value for key, value in raw.items() if key.startswith("job:")]
        self._moments |= {int(value[name]) for value in hashes for name in MOMENTS if name in value}
        return _Spelling(raw, self._moments).state()


async def _value(client: Redis, key: str) -> Any:
    kind = await client.type(key)
    if kind == "hash":
        return await client.hgetall(key)
    if kind == "zset":
        return {member: int(score) for member, score in await client.zrange(key, 0, -1, withscores=True)}
    if kind == "set":
        return sorted(await client.smembers(key))
    if kind == "list":
        return await client.lrange(key, 0, -1)
    return await client.get(key)


def changes(before: State, after: State) -> State:
    """Return what is different: the new values, None for what is gone; of hashes and sets only what changed in them."""
    found: State = {}
    for key in sorted(before.keys() | after.keys()):
        old, new = before.get(key), after.get(key)
        if old == new:
            continue
        found[key] = changes(old, new) if isinstance(old, dict) and isinstance(new, dict) else new
    return found


class _Spelling:
    """Moments become t1, t2, … in order, times after them t1+60s; tokens token1, …; ranks 5/1 (priority, arrival)."""

    def __init__(self, raw: State, moments: set[int]) -> None:
        self._raw = raw
        hashes = [value for key, value in raw.items() if key.startswith("job:")]
        self._moments = {at: f"t{number}" for number, at in enumerate(sorted(moments), 1)}
        # An operator's change gives a job a new one; that of its claim stands with its ended attempts still.
        tokens = {value["token"] for value in hashes if "token" in value}
        tokens |= {token for value in hashes for token in re.findall(r"\d{19}", value.get("ended", ""))}
        tokens |= {text.split(" ", 2)[1] for key, value in raw.items() if key.startswith("attempts") for text in value}
        self._tokens = {token: f"token{number}" for number, token in enumerate(sorted(tokens), 1)}

    def state(self) -> State:
        return {key: self._spelt(key, value) for key, value in self._raw.items()}

    def _spelt(self, key: str, value: Any) -> Any:
        name = key.partition(":")[0]
        if name == "job":
            return {field: self._field(field, text) for field, text in value.items()}
        if name in TIME_SETS:
            return {member: self._time(score) for member, score in value.items()}
        if name in RANK_SETS:
            return {member: _rank(score) for member, score in value.items()}
        if name in {"minutes", "deaths"}:
            return _in_minutes(value)
        if name == "attempts":
            return [self._attempt(text) for text in value]
        if name in {"signatures", "signature_releases", "type_releases"}:
            whole = name != "signatures"
            return {
                key: re.sub(r"\d{16}", "t", text) if whole else text.partition(" ")[2] for key, text in value.items()
            }
        if name == "tallies":
            return {field: value[field] for field in sorted(value) if re.search(r":(n|run):", field)}
        return "some" if name == "token" else value

    def _field(self, field: str, text: str) -> str:
        if field in TIME_FIELDS:
            return self._time(int(text))
        if field == "rank":
            return _rank(int(text))
        if field == "claim":
            return "some"
        if field in {"token", "ended"}:
            return re.sub(r"\d{19}", lambda match: self._tokens[match[0]], text).strip()
        return text

    def _time(self, at: int) -> str:
        if at in self._moments:
            return self._moments[at]
        for moment, label in self._moments.items():
            seconds, rest = divmod(at - moment, 1_000_000)
            if rest == 0 and 0 < seconds < 10**6:
                return f"{label}+{seconds}s"
        return "another time"

    def _attempt(self, text: str) -> tuple[str, ...]:
        head, _, worker = text.partition("\n")
        number, token, _, finished_at, failure = head.split(" ", 4)
        why = json.loads(failure)
        return number, self._tokens[token], self._time(int(finished_at)), why["kind"], why["message"], worker


def _rank(rank: int) -> str:
    return f"{127 - (rank >> 45)}/{rank & ((1 << 45) - 1)}"


def _in_minutes(value: dict[str, int]) -> dict[str, int]:
    """Return the numbers of all minutes: a test may run over the end of one."""
    numbers: dict[str, int] = {}
    for member, score in value.items():
        minute, _, name = member.partition(" ")
        assert score >> 27 == int(minute)
        numbers[name] = numbers.get(name, 0) + (score & ((1 << 27) - 1))
    return numbers
