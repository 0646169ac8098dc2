"""Lists by filter: sorted sets are walked, joined and sifted a bounded part at a time."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Any

from queue_core.model.filters import Filter, Term, holds, matches, members_of
from queue_core.model.filters.terms import SIGNATURE_DIGITS as WHOLE_SIGNATURE
from queue_core.model.job import parse_id
from queue_core.model.report import Order
from queue_core.model.states import FINAL, UNFINISHED, Status
from queue_core.stores.redis.records import Entry, Position, homes, job_of, microseconds_of, moment
from queue_core.stores.redis.session import RedisLink, chunks
from queue_core.stores.redis.statistics.cursors import SetCursor, SiftedCursor, causes, walk
from queue_core.stores.redis.statistics.releases import ReleaseNames

PAYLOADS_PER_READ = 20
"""Jobs whose whole payloads are read at a time; each may have a mebibyte."""
CUT_BYTES = 4_000
"""Bytes of a payload's beginning from which on there may be more of it."""
MAX_VERDICTS = 10_000
"""Verdicts remembered; jobs are of few kinds as far as most filters go."""

_BY_ENTRY = frozenset({"age", "id", "ids"})
_FIELDS = {
    "status": "status",
    "type": "type",
    "error": "error",
    "signature": "signature",
    "signatures": "signature",
    "tag": "tags",
    "priority": "priority",
    "retries": "retry_count",
    "worker": "worker",
    "host": "worker",
    "died": "completed_at",
    "release": "release",
}
_BY_CAUSE = frozenset({"status", "type", "signature", "signatures"})
"""Fields that the causes of deaths have."""
_SEARCHED = ("type", "error", "tags", "<payload")


class FilterScan:
    """One filter at one moment."""

    def __init__(self, link: RedisLink, where: Filter, now: int) -> None:
        self._link = link
        self._where = where
        self._now = moment(now)
        # outside the trash, lists of the dead are sorted by their deaths
        by_entry = _BY_ENTRY if where.trash or where.statuses() != {Status.DEAD} else _BY_ENTRY | {"died"}
        self._by_entry = [term for term in where.terms if term.field in by_entry]
        light = [term for term in where.terms if term.field in _FIELDS and term.field not in by_entry]
        self._light = Filter(tuple(light), where.trash)
        self._heavy = any(_of_payload(term.field) for term in where.terms)
        fields = ["status", "trashed_at", *(_FIELDS[term.field] for term in light), *(_SEARCHED if self._heavy else ())]
        # a waiting job has none of the worker that released it
        self._names = list(dict.fromkeys([*fields, *(["worker"] if "release" in fields else [])]))
        self._release_names = ReleaseNames(link)
        self._releases: Mapping[str, str] = {}
        # what the dead died of is in one hash of each queue, a tenth of the work of reading jobs
        self.by_cause = not self._heavy and not where.trash and {term.field for term in light} <= _BY_CAUSE
        self._verdicts: dict[tuple[Any, ...], bool] = {}

    def possible(self, entries: Sequence[Entry]) -> Sequence[Entry]:
        """Leave out what cannot match by its time or its id."""
        if not self._by_entry:
            return entries
        return [entry for entry in entries if all(_entry_holds(entry, term, self._now) for term in self._by_entry)]

    async def matching(self, entries: Sequence[Entry]) -> Sequence[Entry]:
        """Return those that match."""
        entries = self.possible(entries)
        if not entries or self._decided(entries):
            return entries
        kept: list[Entry] = []
        for some in chunks(entries):
            kept += await self._matching(some)
        return kept

    def _decided(self, entries: Sequence[Entry]) -> bool:
        """Return whether the sets that the entries come from decide the filter alone."""
        if self._heavy or any(term.field != "status" for term in self._light.terms):
            return False
        return not self._light.terms or all(entry.status is not None for entry in entries)

    async def _matching(self, entries: Sequence[Entry]) -> list[Entry]:
        if self.by_cause and all(one.status is Status.DEAD for one in entries):
            found = await causes(self._link, entries)
            named = ((one, found[one.queue, one.id]) for one in entries if (one.queue, one.id) in found)
            return [one for one, cause in named if self._caused(one.queue, cause)]
        rows = await self._link.read(homes(entries), self._names)
        if "release" in self._names:
            place = self._names.index("release")
            self._releases = await self._release_names.of(row[place] for row in rows.values())
        kept = [one for one in entries if (row := rows.get((one.queue, one.id))) and self._verdict(one.queue, row)]
        if not self._heavy:
            return kept
        payloads = await self._long_payloads(kept, rows)
        return [one for one in kept if self._search(one, rows[one.queue, one.id], payloads.get((one.queue, one.id)))]

    def _verdict(self, queue: str, row: Sequence[Any]) -> bool:
        key = (queue, *(value for name, value in zip(self._names, row, strict=True) if name != "<payload"))
        if key not in self._verdicts:
            if len(self._verdicts) >= MAX_VERDICTS:
                self._verdicts.clear()
            job = job_of(queue, "", self._found(row), releases=self._releases)
            self._verdicts[key] = matches(job, self._light, self._now)
        return self._verdicts[key]

    def _caused(self, queue: str, cause: str) -> bool:
        key = (queue, cause)
        if key not in self._verdicts:
            signature, _, type_ = cause.partition(" ")
            found = {"status": Status.DEAD.value, "signature": signature, "type": type_}
            self._verdicts[key] = matches(job_of(queue, "", found), self._light, self._now)
        return self._verdicts[key]

    def _found(self, row: Sequence[Any]) -> dict[str, Any]:
        return {"type": None} | {name.lstrip("<"): value for name, value in zip(self._names, row, strict=True)}

    async def _long_payloads(
        self, entries: Sequence[Entry], rows: Mapping[tuple[str, str], Sequence[Any]]
    ) -> dict[tuple[str, str], str]:
        """Return the whole payloads of those of which only the beginning was read."""
        place = self._names.index("<payload")
        long = [one for one in entries if len((rows[one.queue, one.id][place] or "").encode()) >= CUT_BYTES]
        found: dict[tuple[str, str], str] = {}
        for some in chunks(long, PAYLOADS_PER_READ):
            read = await self._link.read(homes(some), ["status", "payload"])
            found.update({key: payload or "" for key, (_, payload) in read.items()})
        return found

    def _search(self, entry: Entry, row: Sequence[Any], payload: str | None) -> bool:
        found = self._found(row)
        if payload is not None:
            found["payload"] = payload
        job = job_of(entry.queue, entry.id, found)
        return all(holds(job, term, self._now) for term in self._where.terms if _of_payload(term.field))


def _of_payload(field: str) -> bool:
    return field == "word" or field.startswith("payload")


def _entry_holds(entry: Entry, term: Term, now: Any) -> bool:
    status = entry.status or Status.QUEUED
    known = {"status": status, "type": "", "updated_at": str(entry.at), "completed_at": str(entry.at)}
    return holds(job_of(entry.queue, entry.id, known), term, now)


SMALL_SET = 5_000
"""A set up to this size is read at once where no others can match than those in it."""

SETS = {
    Status.QUEUED: ("pending", "blocked"),
    Status.SCHEDULED: ("scheduled",),
    Status.RETRYING: ("retrying",),
    Status.RUNNING: ("running",),
    Status.COMPLETED: ("completed",),
    Status.CANCELLED: ("cancelled",),
    Status.DEAD: ("dlq",),
}
"""The sets of each state."""

_Sources = Mapping[str, Status | None]
"""Sets that are sorted by the last change, and the state of their jobs where it is known."""


async def streams(link: RedisLink, where: Filter, queues: Sequence[str]) -> list[SetCursor]:
    """Return the sets that can hold matching jobs, or the few ids in them that can match."""
    sources = _sources(where)
    small = _small_sets(where)
    commands = link.batch()
    keys = [(queue, name) for queue in queues for name in small]
    for queue, name in keys:
        (commands.scard if name.startswith("by_type:") else commands.zcard)(link.keys.of(queue, name))
    sizes = dict(zip(keys, await link.send(commands) if keys else (), strict=True))
    found: list[SetCursor] = []
    for queue in queues:
        of_type = [name for name in small if name.startswith("by_type:") and sizes[queue, name] <= SMALL_SET]
        waiting = [name for name in small if not name.startswith("by_type:")]
        if (ids := _whole_ids(where)) is not None:
            found.append(await _few(link, queue, sources, ids))
        elif of_type:
            found.append(await _few(link, queue, sources, await _members(link, queue, of_type[0])))
        elif waiting and sum(sizes[queue, name] for name in waiting) <= SMALL_SET:
            for name in waiting:
                ids = await _members(link, queue, name)
                found.append(await _few(link, queue, {"unfinished": _STATES[name]}, ids))
            found += _whole(link, queue, {name: state for name, state in sources.items() if name != "unfinished"})
        else:
            found += _whole(link, queue, sources)
    return found


_STATES = {name: state for state, names in SETS.items() for name in names}


def _sources(where: Filter) -> _Sources:
    states = where.statuses()
    if where.trash:
        return {"trash": Status.DEAD} if Status.DEAD in states else {}
    sources: dict[str, Status | None] = {name: state for state in states & FINAL for name in SETS[state]}
    return sources | ({"unfinished": None} if states & UNFINISHED else {})


def _small_sets(where: Filter) -> list[str]:
    """Return the sets that alone hold what can match, if they are small."""
    waiting = where.statuses() & UNFINISHED
    names = [] if where.trash or waiting == UNFINISHED else [name for state in waiting for name in SETS[state]]
    types = [term.value for term in where.terms if term.field == "type" and term.operator == "=" and not term.negated]
    return names + [f"by_type:{type_}" for type_ in types[:1]]


def _whole_ids(where: Filter) -> list[str] | None:
    """Return the only ids that can match; None: the filter names none."""
    ids = [term.value for term in where.terms if term.field == "id" and not term.negated]
    found = [parse_id(value) for value in ids if re.fullmatch(r"[0-9a-f]{32}", value)]
    if found:
        return found[:1]
    named = [members_of(term) for term in where.terms if term.field == "ids" and not term.negated]
    return sorted(frozenset.intersection(*named)) if named else None


def _whole(link: RedisLink, queue: str, sources: _Sources) -> list[SetCursor]:
    return [SetCursor(link.keys.of(queue, name), queue, state) for name, state in sources.items()]


async def _members(link: RedisLink, queue: str, name: str) -> list[str]:
    commands = link.batch()
    if name.startswith("by_type:"):
        commands.smembers(link.keys.of(queue, name))
    else:
        commands.zrange(link.keys.of(queue, name), 0, SMALL_SET)
    (members,) = await link.send(commands)
    return sorted(members)


async def _few(link: RedisLink, queue: str, sources: _Sources, ids: Sequence[str]) -> SetCursor:
    """Return a few jobs with their times in these sets."""
    places = [(source, part) for source in sources for part in chunks(ids)]
    commands = link.batch()
    for source, part in places:
        commands.zmscore(link.keys.of(queue, source), list(part))
    found = await link.send(commands) if places else []
    entries = [
        Entry(int(score), job_id, queue, sources[source])
        for (source, part), scores in zip(places, found, strict=True)
        for job_id, score in zip(part, scores, strict=True)
        if score is not None
    ]
    return SetCursor("", queue, None, entries)


def allowed(queues: Iterable[str], where: Filter) -> list[str]:
    """Return the queues that the filter allows."""
    terms = [term for term in where.terms if term.field == "queue"]
    return [queue for queue in queues if all(_queue_holds(queue, term) for term in terms)]


def counted(where: Filter) -> list[str] | None:
    """Return the sets whose sizes make up the number of matching jobs; None: the sizes do not give it."""
    if not {term.field for term in where.terms} <= {"status", "queue"}:
        return None
    states = where.statuses()
    if where.trash:
        return [name for name in _sources(where) if name == "trash"]
    return [name for state in states for name in SETS[state]]


def _queue_holds(queue: str, term: Term) -> bool:
    return holds(job_of(queue, "", {"status": Status.QUEUED, "type": ""}), term, moment(0))


MAX_SIFTED = 1_000
"""Signatures at most in the arguments of a script."""


def sifted(where: Filter) -> frozenset[str] | None:
    """Return the signatures by which Redis itself can leave out dead jobs; None: the filter names no such, or others.

    Reading a part of the dead and what they died of takes Redis 1 us a job, a tenth of what it takes to send that.
    """
    named = [term for term in where.terms if term.field in _SIGNATURES]
    whole = all(term.field == "signatures" or len(term.value) == WHOLE_SIGNATURE for term in named)
    few = any(term.field in {"id", "ids", "type"} for term in where.terms)
    exact = whole and not any(term.negated or term.operator != "=" for term in named)
    if not named or not exact or few or where.trash or where.statuses() != {Status.DEAD}:
        return None
    found = frozenset.intersection(*(members_of(term) for term in named))
    return found if len(found) <= MAX_SIFTED else None


def unsifted(where: Filter) -> Filter:
    """Return what is left to decide of the jobs that were sifted."""
    return where if sifted(where) is None else where.without(_SIGNATURES).having(_DEAD)


_SIGNATURES = frozenset({"signature", "signatures"})
_DEAD = Term("status", "=", Status.DEAD.value)


async def listed(
    link: RedisLink, where: Filter, queues: Sequence[str], order: Order, after: Position | None, sift: bool = False
) -> AsyncIterator[Sequence[Entry]]:
    """Yield what is in the sets that can hold matching jobs, in parts, in order, from behind a place on.

    Outside the trash, lists of the dead are sorted by their deaths: there only the time that the filter names is read.
    `sift`: what died of other errors is left out where the filter allows it, however far that is.
    """
    since, until = (None, None) if where.trash else where.died
    first = 0 if since is None else microseconds_of(since)
    last = None if until is None else microseconds_of(until)
    if order == "newest" and last is not None:
        after = min(after or (last, ""), (last, ""))
    elif order == "oldest" and first:
        after = max(after or (first, ""), (first, ""))
    signatures = sifted(where) if sift else None
    if signatures is not None:
        begins = first if order == "newest" else 0
        cursors: list[SetCursor] = [SiftedCursor(link, queue, signatures, begins) for queue in queues if signatures]
    else:
        cursors = await streams(link, where, queues)
    async for part in walk(link, cursors, order, after):
        inside = [one for one in part if one.at >= first and (last is None or one.at < last)]
        yield inside
        if len(inside) < len(part):
            return
