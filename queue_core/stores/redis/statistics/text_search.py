"""Pages of dead jobs in which a text is looked for."""

from __future__ import annotations

from collections.abc import Sequence

from queue_core.model.filters import Filter, Searched, Term, has_text
from queue_core.model.states import Status
from queue_core.stores.redis.records import Entry, Position, attempts_of, homes, microseconds_of
from queue_core.stores.redis.search import CUT_BYTES, PAYLOADS_PER_READ, FilterScan, allowed, listed
from queue_core.stores.redis.session import RedisLink, chunks

_DEAD = Term("status", "=", Status.DEAD.value)
JOBS_PER_READ = 200
"""Jobs in whose texts is looked at a time: their payloads and tracebacks are some megabytes."""


async def search(link: RedisLink, where: Filter, most: int, after: Position | None) -> Searched:
    """Look at the next dead jobs, newest first, whether they match or not, and return those that do."""
    where = where.having(_DEAD)
    if Status.DEAD not in where.statuses() or most <= 0:
        return Searched((), 0, None)
    words = [term.value for term in where.terms if term.field == "text"]
    queues, now = await link.queues_and_time()
    scan, total = FilterScan(link, where.without({"text"}), now), 0 if after else await _searchable(link, where)
    ids: list[str] = []
    looked_at = 0
    leading = where.having_only({"status", "queue", "died"})
    async for part in listed(link, leading, allowed(queues, where), "newest", after):
        page = part[: most - looked_at]
        for some in chunks(await scan.matching(page), JOBS_PER_READ):
            ids += await _with_texts(link, some, words)
        looked_at += len(page)
        if looked_at >= most:
            return Searched(tuple(ids), looked_at, f"{page[-1].at}.{page[-1].id}", total)
    return Searched(tuple(ids), looked_at, None, total)


async def _searchable(link: RedisLink, where: Filter) -> int:
    """Return how many jobs a search looks at."""
    queues, _ = await link.queues_and_time()
    since, until = (None, None) if where.trash else where.died
    first, last = (None if one is None else microseconds_of(one) for one in (since, until))
    commands = link.batch()
    names = allowed(queues, where)
    for queue in names:
        key = link.keys.of(queue, "trash" if where.trash else "dlq")
        commands.zcount(key, "-inf" if first is None else first, "+inf" if last is None else f"({last}")
    return sum(await link.send(commands)) if names else 0


async def _with_texts(link: RedisLink, entries: Sequence[Entry], words: Sequence[str]) -> list[str]:
    """Return the ids of the jobs that have all words, each in the error, the payload or the last traceback."""
    rows = await link.read(homes(entries), ["status", "error", "<payload"])
    there = [one for one in entries if (one.queue, one.id) in rows]
    long = [one for one in there if len((rows[one.queue, one.id][2] or "").encode()) >= CUT_BYTES]
    for some in chunks(long, PAYLOADS_PER_READ):
        for place, (status, payload) in (await link.read(homes(some), ["status", "payload"])).items():
            rows[place] = [status, rows[place][1], payload]
    found = {one.id for one in there if all(has_text(rows[one.queue, one.id][1:], word) for word in words)}
    left = [one for one in there if one.id not in found]
    commands = link.batch()
    for one in left:
        commands.lindex(link.keys.of(one.queue, f"attempts:{one.id}"), -1)
    for one, text in zip(left, await link.send(commands) if left else (), strict=True):
        last = attempts_of(one.id, [text] if text else [])
        texts = [*rows[one.queue, one.id][1:], *(attempt.traceback for attempt in last)]
        if all(has_text(texts, word) for word in words):
            found.add(one.id)
    return [one.id for one in entries if one.id in found]
