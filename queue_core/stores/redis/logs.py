"""The logs of jobs in Redis, and what workers announce of types."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from queue_core.errors import JobNotFound
from queue_core.model.job import LINES, LogEntry, LogLine
from queue_core.model.report import LogPage, TypeInfo
from queue_core.redis.scripts import Call
from queue_core.stores.redis.records import decoded, moment, whole
from queue_core.stores.redis.session import TOGETHER, RedisLink, chunks, portions

_Attempt = tuple[str, str, int]


async def append(link: RedisLink, lines: Sequence[LogLine]) -> list[bool]:
    """Append lines to the logs of jobs; return for each whether its token still holds."""
    groups: dict[str, dict[_Attempt, list[LogLine]]] = {}
    for line in lines:
        groups.setdefault(line.queue, {}).setdefault((line.queue, line.id, line.token), []).append(line)
    parts = [part for of in groups.values() for part in portions(list(of.items()), _weight)]
    held: dict[_Attempt, bool] = {}
    for some in chunks(parts, TOGETHER):
        calls = [_call(link, part) for part in some]
        for part, answers in zip(some, await link.run_many(calls), strict=True):
            held.update({attempt: bool(answer) for (attempt, _), answer in zip(part, answers, strict=True)})
    return [held[line.queue, line.id, line.token] for line in lines]


def _weight(group: tuple[_Attempt, list[LogLine]]) -> int:
    return sum(len(line.text) for line in group[1])


def _call(link: RedisLink, part: Sequence[tuple[_Attempt, list[LogLine]]]) -> Call:
    keys: list[str] = []
    args: list[Any] = [LINES]
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
    wanted = limit if after is None else min(newest - after, LINES)
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
