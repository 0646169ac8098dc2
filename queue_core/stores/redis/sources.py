"""Which sets can hold the jobs that match a filter, and which of them alone say how many there are."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from queue_core.filters import Filter, Term
from queue_core.identifiers import parse_id
from queue_core.matching import holds
from queue_core.states import FINAL, UNFINISHED, Status
from queue_core.stores.redis.link import Link, chunks
from queue_core.stores.redis.records import job_of, moment
from queue_core.stores.redis.walking import Entry, Stream

SMALL = 5_000
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
"""Sets that are sorted by the last change, and the state of what is in them where they tell."""


async def streams(link: Link, where: Filter, queues: Sequence[str]) -> list[Stream]:
    """Return the sets that can hold matching jobs, or the few ids in them that can match."""
    sources = _sources(where)
    small = _small_sets(where)
    commands = link.batch()
    keys = [(queue, name) for queue in queues for name in small]
    for queue, name in keys:
        (commands.scard if name.startswith("by_type:") else commands.zcard)(link.keys.of(queue, name))
    sizes = dict(zip(keys, await link.send(commands) if keys else (), strict=True))
    found: list[Stream] = []
    for queue in queues:
        of_type = [name for name in small if name.startswith("by_type:") and sizes[queue, name] <= SMALL]
        waiting = [name for name in small if not name.startswith("by_type:")]
        if job_id := _whole_id(where):
            found.append(await _few(link, queue, sources, [job_id]))
        elif of_type:
            found.append(await _few(link, queue, sources, await _members(link, queue, of_type[0])))
        elif waiting and sum(sizes[queue, name] for name in waiting) <= SMALL:
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


def _whole_id(where: Filter) -> str | None:
    ids = [term.value for term in where.terms if term.field == "id" and not term.negated]
    return next((parse_id(value) for value in ids if re.fullmatch(r"[0-9a-f]{32}", value)), None)


def _whole(link: Link, queue: str, sources: _Sources) -> list[Stream]:
    return [Stream(link.keys.of(queue, name), queue, state) for name, state in sources.items()]


async def _members(link: Link, queue: str, name: str) -> list[str]:
    commands = link.batch()
    if name.startswith("by_type:"):
        commands.smembers(link.keys.of(queue, name))
    else:
        commands.zrange(link.keys.of(queue, name), 0, SMALL)
    (members,) = await link.send(commands)
    return sorted(members)


async def _few(link: Link, queue: str, sources: _Sources, ids: Sequence[str]) -> Stream:
    """Return a few jobs with the times at which they stand in these sets."""
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
    return Stream("", queue, None, entries)


def allowed(queues: Iterable[str], where: Filter) -> list[str]:
    """Return the queues that the filter allows."""
    terms = [term for term in where.terms if term.field == "queue"]
    return [queue for queue in queues if all(_holds(queue, term) for term in terms)]


def counted(where: Filter) -> list[str] | None:
    """Return the sets whose sizes make up the number of matching jobs; None: they do not tell."""
    if not {term.field for term in where.terms} <= {"status", "queue"}:
        return None
    states = where.statuses()
    if where.trash:
        return [name for name in _sources(where) if name == "trash"]
    return [name for state in states for name in SETS[state]]


def _holds(queue: str, term: Term) -> bool:
    return holds(job_of(queue, "", {"status": Status.QUEUED, "type": ""}), term, moment(0))
