"""A failing payload beside the last one of its type that succeeded: which fields differ."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from queue_core.client.causes.breakdown import breakdown
from queue_core.client.causes.fields import bounded, scalar
from queue_core.model.filters import Filter, Term
from queue_core.model.job import Job
from queue_core.model.report import Breakdown, Dimension
from queue_core.model.states import Status
from queue_core.ports.inspector import Inspector

COMPLETED_READ = 20_000
"""Newest completed jobs among which one of the type is looked for."""
MAX_PAIRS = 50
"""Completed jobs that one can be compared with."""
MAX_FIELDS = 500
"""Fields that are compared; a payload may have a mebibyte of them."""
MAX_DEPTH = 8
"""Levels of a payload that are looked into; what is below is compared as a whole."""


@dataclass(frozen=True, slots=True)
class ComparedField:
    """One field of two payloads."""

    # such as to.0
    path: str
    # "=" equal, "~" different, "+" only the failing job has it, "-" only the completed one has it
    sign: Literal["=", "~", "+", "-"]
    # at most 200 characters each, as stored: not harmless to show; "" where it is absent
    failing: str
    completed: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """A failing job and a completed one of its type."""

    failing: Job
    # None: none of the newest 20,000 completed jobs is of this type
    completed: Job | None
    # those that distinguish dead jobs best come first, then what differs, then what is equal; within these in the order
    # of the failing payload, and what only the completed one has comes last
    fields: tuple[ComparedField, ...]
    # there is one that completed before this one
    older: bool
    # the fields of payloads that distinguish the dead jobs of its error, best first; () where it is not dead
    contrasts: tuple[Dimension, ...] = ()
    # how many dead and how many completed jobs their shares are of
    contrasted: int = 0
    contrasted_completed: int = 0

    @property
    def different(self) -> tuple[ComparedField, ...]:
        """The fields that differ."""
        return tuple(one for one in self.fields if one.sign != "=")

    @property
    def equal(self) -> int:
        """How many fields are equal."""
        return len(self.fields) - len(self.different)


async def compare(inspector: Inspector, job_id: str, back: int = 0) -> Comparison:
    """Compare a job with the last completed one of its type, or one so many places `back`.

    Raises:
        JobNotFound: no job has this id.
        StoreUnavailable: the store did not answer in time.
    """
    failing = await inspector.get(job_id)
    where = Filter((Term("status", "=", Status.COMPLETED.value), Term("type", "=", failing.type)))
    limit = min(back, MAX_PAIRS - 1) + 2
    sample, causes = await asyncio.gather(
        inspector.sample(where, limit + 1, among=COMPLETED_READ), _causes(inspector, failing)
    )
    found = [job for job in sample if job.id != failing.id][:limit]
    if not found:
        return Comparison(failing, None, (), older=False)
    place = min(back, len(found) - 1)
    older = place + 1 < min(len(found), MAX_PAIRS)
    # A sample has no long payloads.
    completed = found[place] if found[place].payload is not None else await inspector.get(found[place].id)
    fields = _fields(failing.payload, completed.payload)
    if causes is None:
        return Comparison(failing, completed, _in_order(fields, ()), older)
    fields = _in_order(fields, causes.fields)
    return Comparison(failing, completed, fields, older, causes.fields, causes.sampled, causes.completed)


async def _causes(inspector: Inspector, failing: Job) -> Breakdown | None:
    if failing.signature is None or failing.status is not Status.DEAD:
        return None
    return await breakdown(inspector, failing.signature)


def _in_order(fields: Sequence[ComparedField], contrasts: Sequence[Dimension]) -> tuple[ComparedField, ...]:
    """Return what differs first, and of that what distinguishes best; an array means all that is in it."""
    names = [one.name.removeprefix("payload.") for one in contrasts]

    def place(field: ComparedField) -> tuple[bool, int]:
        best = (rank for rank, name in enumerate(names) if field.path == name or field.path.startswith(f"{name}."))
        return field.sign == "=", next(best, len(names))

    return tuple(sorted(fields, key=place))


def _fields(failing: Any, completed: Any) -> tuple[ComparedField, ...]:
    if not isinstance(failing, dict) or not isinstance(completed, dict):
        return ()
    found: list[ComparedField] = []
    for one in _walk("", failing, completed, MAX_DEPTH):
        if len(found) == MAX_FIELDS:
            break
        found.append(one)
    return (*(one for one in found if one.sign != "-"), *(one for one in found if one.sign == "-"))


_ABSENT = object()


def _walk(path: str, failing: Any, completed: Any, depth: int) -> Iterator[ComparedField]:
    both = [failing, completed]
    if depth and all(isinstance(one, dict) for one in both):
        for key in dict.fromkeys((*failing, *completed)):
            below = f"{path}.{key}" if path else str(key)
            yield from _walk(below, failing.get(key, _ABSENT), completed.get(key, _ABSENT), depth - 1)
    elif depth and all(isinstance(one, list) for one in both) and all(both):
        for place in range(max(map(len, both))):
            here, there = (one[place] if place < len(one) else _ABSENT for one in both)
            yield from _walk(f"{path}.{place}", here, there, depth - 1)
    else:
        here, there = described(failing), described(completed)
        equal = failing == completed and type(failing) is type(completed)
        sign: Literal["=", "~", "+", "-"] = "=" if equal else "+" if there == "" else "-" if here == "" else "~"
        yield ComparedField(bounded(path), sign, here, there)


def described(value: Any) -> str:
    """Return a value in at most 200 characters; of an array or an object how many things are in it."""
    if value is _ABSENT:
        return ""
    if isinstance(value, list | dict):
        word = "item" if isinstance(value, list) else "field"
        return f"{len(value)} {word}{'' if len(value) == 1 else 's'}"
    return bounded(f'"{value}"') if isinstance(value, str) else scalar(value)
