"""The logs of jobs in Redis, and what workers announce of types."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import redis
from redis.exceptions import RedisError

from queue_core.errors import JobNotFound
from queue_core.model.job import MAX_LOG_LINES, LogEntry, LogLine
from queue_core.model.report import JobStack, LogPage, TypeInfo
from queue_core.model.settings import RedisSettings
from queue_core.model.states import Status
from queue_core.model.text import storable
from queue_core.ports.operations import STACKS_OF_A_JOB
from queue_core.ports.store import StackRequest
from queue_core.redis.client import keys_of, make_thread_client
from queue_core.redis.scripts import Call
from queue_core.stores.redis.delivery import ORDER
from queue_core.stores.redis.records import decoded, moment, whole
from queue_core.stores.redis.session import SCRIPTS_PER_TRIP, RedisLink, chunks, microseconds, portions, unavailable

_Attempt = tuple[str, str, int]


async def append(link: RedisLink, lines: Sequence[LogLine]) -> list[bool]:
    """Append lines to the logs of jobs; return for each whether its token still holds."""
    groups: dict[str, dict[_Attempt, list[LogLine]]] = {}
    for line in lines:
        groups.setdefault(line.queue, {}).setdefault((line.queue, line.id, line.token), []).append(line)
    parts = [part for of in groups.values() for part in portions(list(of.items()), _weight)]
    held: dict[_Attempt, bool] = {}
    for some in chunks(parts, SCRIPTS_PER_TRIP):
        calls = [_call(link, part) for part in some]
        for part, answers in zip(some, await link.run_many(calls), strict=True):
            held.update({attempt: bool(answer) for (attempt, _), answer in zip(part, answers, strict=True)})
    return [held[line.queue, line.id, line.token] for line in lines]


def _weight(group: tuple[_Attempt, list[LogLine]]) -> int:
    return sum(len(line.text) for line in group[1])


def _call(link: RedisLink, part: Sequence[tuple[_Attempt, list[LogLine]]]) -> Call:
    keys: list[str] = []
    args: list[Any] = [MAX_LOG_LINES]
    for (queue, job_id, token), lines in part:
        keys += link.of(queue, (f"job:{job_id}", f"log:{job_id}"))
        args += (token, len(lines))
        for line in lines:
            args += (line.line, round(line.age * 1e6), line.text)
    return Call("log", keys, args)


async def register_types(link: RedisLink, types: Mapping[str, Mapping[str, Any]]) -> None:
    """Write the JSON Schema of the payloads that each of these types takes, where it has changed."""
    known = await read_types(link)
    changed = {name: schema for name, schema in types.items() if name not in known or known[name].schema != schema}
    if not changed:
        return
    _, now = await link.queues_and_time()
    commands = link.batch()
    commands.hset(
        link.keys.announced, mapping={name: f"{now} {json.dumps(schema)}" for name, schema in changed.items()}
    )
    await link.send(commands)


async def read_types(link: RedisLink) -> dict[str, TypeInfo]:
    """Return the types that workers have announced."""
    commands = link.batch()
    commands.hgetall(link.keys.announced)
    (found,) = await link.send(commands)
    types: dict[str, TypeInfo] = {}
    for name, text in sorted(found.items()):
        at, _, schema = text.partition(" ")
        # A foreign value there is no schema.
        if isinstance(known := decoded(schema), dict):
            types[name] = TypeInfo(name, known, moment(whole(at)))
    return types


async def read_log(link: RedisLink, job_id: str, limit: int, after: int | None) -> LogPage:
    """Return lines of a job's log, oldest first.

    Raises:
        JobNotFound: no job has this id.
    """
    found = await link.find([job_id], ["status"])
    if job_id not in found:
        raise JobNotFound(job_id)
    key = link.keys.of(found[job_id][0], f"log:{job_id}")
    commands = link.batch()
    commands.lrange(key, -1, -1)
    commands.llen(key)
    texts, length = await link.send(commands)
    last = _entries(texts)
    if not last:
        return LogPage(())
    newest = last[0].number
    # Numbers only grow: no more entries than numbers can follow one.
    wanted = limit if after is None else min(newest - after, MAX_LOG_LINES)
    entries: list[LogEntry] = []
    if wanted > 0 and limit > 0:
        commands = link.batch()
        commands.lrange(key, -wanted, -1)
        entries = _entries((await link.send(commands))[0])
    if after is not None:
        entries = [entry for entry in entries if entry.number > after][:limit]
    return LogPage(tuple(entries), newest - length)


def _entries(texts: Sequence[str]) -> list[LogEntry]:
    parts = [text.split(" ", 4) for text in texts]
    return [
        LogEntry(int(part[0]), int(part[1]), moment(int(part[3])), part[4])
        for part in parts
        if len(part) == 5 and all(number.isdecimal() for number in part[:4])
    ]


class RedisStacks:
    """What a heartbeat's thread has a client for: answers to requests for stacks, and in `RedisHeartbeat` the rest."""

    def __init__(self, settings: RedisSettings) -> None:
        self._settings = settings
        self._keys = keys_of(settings)
        self._client: redis.Redis | None = None

    def stack_requests(self, worker: str) -> list[StackRequest]:
        """Return requests for stacks that a worker has not answered.

        Raises:
            StoreUnavailable: no connection or no answer in time.
        """
        try:
            found: Any = self._connected().hgetall(self._keys.stacks(f"asked:{worker}"))
        except (RedisError, OSError) as error:
            self.close()
            raise unavailable(error) from error
        return sorted(StackRequest(int(number), job_id) for number, job_id in found.items())[:10]

    def give_stack(self, request: StackRequest, text: str) -> None:
        """Keep the answer to a request.

        Raises:
            StoreUnavailable: no connection or no answer in time.
        """
        try:
            client, key = self._connected(), self._keys.stacks(request.job_id)
            asked: Any = client.hget(key, str(request.number))
            if asked is not None:
                worker, requested, taken, _ = json.loads(asked)
                answer = json.dumps([worker, requested, microseconds(client.time()), text])
                if taken is None:
                    client.hset(key, str(request.number), answer)
                client.hdel(self._keys.stacks(f"asked:{worker}"), str(request.number))
        except (RedisError, OSError) as error:
            self.close()
            raise unavailable(error) from error

    def _connected(self) -> redis.Redis:
        if self._client is None:
            self._client = make_thread_client(self._settings)
        return self._client

    def close(self) -> None:
        """Give the connection back; doing it twice is safe."""
        client, self._client = self._client, None
        if client is not None:
            client.close()


STACKS_SECONDS, ASKED_SECONDS = 7 * 86400, 60
"""How long the last stacks of a job are kept, and requests that are not answered."""


async def ask_stack(link: RedisLink, job_id: str) -> JobStack | None:
    """Ask the worker of a running job where that is; None: it does not run."""
    status, worker = (await link.find([job_id], ["status", "worker"])).get(job_id, ("", ("", "")))[1]
    if status != Status.RUNNING.value or not worker:
        return None
    commands = link.batch()
    commands.incr(link.keys.stacks("number"))
    commands.time()
    commands.hkeys(link.keys.stacks(job_id))
    number, time, kept = await link.send(commands)
    asked = JobStack(int(number), job_id, worker, moment(microseconds(time)), None, "")
    commands = link.batch()
    for old in sorted(kept, key=int)[: max(0, len(kept) - STACKS_OF_A_JOB + 1)]:
        commands.hdel(link.keys.stacks(job_id), old)
    commands.hset(link.keys.stacks(job_id), str(number), json.dumps([worker, microseconds(time), None, ""]))
    commands.expire(link.keys.stacks(job_id), STACKS_SECONDS)
    commands.hset(link.keys.stacks(f"asked:{worker}"), str(number), job_id)
    commands.expire(link.keys.stacks(f"asked:{worker}"), ASKED_SECONDS)
    commands.publish(link.keys.notifications, f"{ORDER} {worker}")
    await link.send(commands)
    return asked


async def read_stacks(link: RedisLink, job_id: str) -> list[JobStack]:
    """Return the stacks of a job that were taken, the newest first."""
    commands = link.batch()
    commands.hgetall(link.keys.stacks(storable(job_id)))
    (rows,) = await link.send(commands)
    found = [(int(number), *json.loads(text)) for number, text in rows.items()]
    taken = sorted((row for row in found if row[3] is not None), reverse=True)
    return [JobStack(row[0], job_id, row[1], moment(row[2]), moment(row[3]), row[4]) for row in taken]
