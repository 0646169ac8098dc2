"""What the dead jobs of an error have in common, and what distinguishes them from completed jobs of their type.

Queue and type are counted; everything else is known of a sample: the newest dead jobs, and others from places that are
evenly spread over the time in which they died. A payload's fields are compared with those of the completed jobs of the
same type that ended last: first come those whose value is frequent among the dead and rare among the completed.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from math import sqrt
from typing import Any

from queue_core.model.filters import Filter, Term, host_of, render
from queue_core.model.job import Job
from queue_core.model.report import Breakdown, DeadCounts, Dimension, Share
from queue_core.model.states import Status
from queue_core.model.text import MARK, storable
from queue_core.ports.inspector import Inspector

SECONDS = 0.4
"""After which no more jobs are read."""
NEWEST = 1_000
"""Newest dead jobs that are looked at."""
PART = 250
"""Of them in one read."""
SEEKS = 20
"""Places in the time before at which others are looked at."""
EACH = 50
"""Jobs at such a place."""
TOGETHER = 5
"""Places that are read at a time."""
COMPLETED, AMONG = 400, 20_000
"""Completed jobs of the type that are compared with, and among how many of the newest completed ones."""
TOP = 3
"""Values of a property."""
FIELDS = 3
"""Fields of payloads."""

_STATUS = {status: Term("status", "=", status.value) for status in Status}


async def breakdown(inspector: Inspector, signature: str, seconds: float = SECONDS) -> Breakdown:
    """Return what the dead jobs of an error have in common; after so many `seconds` it reads no more.

    Raises:
        StoreUnavailable: the store did not answer in time.
    """
    began = time.monotonic()
    sample = _Sample(inspector, signature, began + seconds)
    await sample.read()
    # Thousands of payloads are taken apart, which no screen is to wait for.
    return await asyncio.to_thread(_broken_down, sample, began)


class _Sample:
    """The jobs that are looked at."""

    def __init__(self, inspector: Inspector, signature: str, deadline: float) -> None:
        self._inspector = inspector
        self._deadline = deadline
        self.signature = signature
        self.where = Filter((_STATUS[Status.DEAD], Term("signature", "=", signature)))
        # by id
        self.dead: dict[str, Job] = {}
        self.completed: Sequence[Job] = ()
        self.counts = DeadCounts((), None, None)

    @property
    def type(self) -> str:
        """The type that most of the dead have."""
        types = Counter(job.type for job in self.dead.values())
        return types.most_common(1)[0][0] if types else ""

    async def read(self) -> None:
        """Read the newest first, then what they are compared with, then more of them."""
        await self._take(None, PART)
        counting = asyncio.ensure_future(self._inspector.dead_counts(self.signature))
        try:
            if self.dead:
                where = Filter((_STATUS[Status.COMPLETED], Term("type", "=", self.type)))
                self.completed = await self._inspector.sample(where, COMPLETED, among=AMONG)
            await self._more()
            self.counts = await counting
            await self._seek(self.counts.first)
        finally:
            counting.cancel()

    async def _more(self) -> None:
        """Read the rest of the newest."""
        while PART <= len(self.dead) < NEWEST and time.monotonic() < self._deadline:
            before = len(self.dead)
            await self._take(min(job.updated_at for job in self.dead.values()), PART)
            if len(self.dead) < before + PART // 2:
                return

    async def _seek(self, first: datetime | None) -> None:
        """Read some from everywhere in the time before the newest."""
        if len(self.dead) < NEWEST or first is None:
            return
        last = min(job.updated_at for job in self.dead.values())
        step = (last - first) / SEEKS
        places = [last - step * number for number in range(1, SEEKS + 1)]
        for start in range(0, SEEKS, TOGETHER):
            if time.monotonic() >= self._deadline:
                return
            await asyncio.gather(*(self._take(place, EACH) for place in places[start : start + TOGETHER]))

    async def _take(self, before: datetime | None, limit: int) -> None:
        jobs = await self._inspector.sample(self.where, limit, before)
        self.dead.update({job.id: job for job in jobs})


def _broken_down(sample: _Sample, began: float) -> Breakdown:
    dead, completed, counts = list(sample.dead.values()), sample.completed, sample.counts
    ends = [job.updated_at for job in completed]
    of_type = [job for job in dead if job.type == sample.type]
    found, compared = _fields(of_type, completed)
    return Breakdown(
        signature=sample.signature,
        type=sample.type,
        count=counts.total,
        sampled=len(dead),
        completed=len(completed),
        since=min(ends, default=None),
        dimensions=tuple(_dimensions(dead, completed, counts)),
        fields=tuple(found),
        compared=compared,
        seconds=time.monotonic() - began,
    )


_PROPERTIES: Mapping[str, Any] = {
    "host": lambda job: [host_of(job.worker)] if job.worker else [],
    "worker": lambda job: [job.worker] if job.worker else [],
    "queue": lambda job: [job.queue],
    "type": lambda job: [job.type],
    "tag": lambda job: job.tags,
}


def _dimensions(dead: Sequence[Job], completed: Sequence[Job], counts: DeadCounts) -> Iterator[Dimension]:
    """Yield what is known of where the jobs ran and what they are, where any of them has that property."""
    exact = {"queue": Counter[str](), "type": Counter[str]()}
    for row in counts.rows:
        exact["queue"][row.queue] += row.count
        exact["type"][row.type] += row.count
    for name, values_of in _PROPERTIES.items():
        counted = name in exact and counts.counted >= len(dead)
        found = exact[name] if counted else Counter(value for job in dead for value in set(values_of(job)))
        total = sum(found.values()) if counted else len(dead)
        other = Counter(value for job in completed for value in set(values_of(job)))
        if not found:
            continue
        # Completed jobs were chosen by their type: their share means nothing.
        of = len(completed) if name != "type" else 0
        shares = [
            Share(bounded(value), number / total, other[value] / of if of else None, rendered(Term(name, "=", value)))
            for value, number in _most(found, TOP)
        ]
        known = total if counted else sum(1 for job in dead if values_of(job))
        yield Dimension(name, tuple(shares), len(found), known, counted and known == counts.total)


def _most(found: Counter[str], number: int) -> list[tuple[str, int]]:
    return sorted(found.items(), key=lambda pair: (-pair[1], pair[0]))[:number]


# -- fields of payloads

DEPTH = 6
"""Levels of a payload that are looked into."""
ITEMS = 3
"""Elements of an array that are looked into."""
PATHS = 100
"""Fields of one payload that are looked at."""
LONGEST = 200
"""Characters of a value that are compared."""
SHOWN = 60
"""Characters of a long text by which it is found again."""
KEY = 100
"""Characters of a path that are looked at."""
SPREAD = 8
"""Different numbers of a field from which on they are compared with a threshold."""
SURE = 1.64
"""Standard deviations by which a share may differ by chance: of 20 without meaning one or two seem to have some."""
LEAST = 0.05
"""Difference of shares from which on a field is worth a line."""
ABSENT = "absent"
_WORDS = {None: "null", True: "true", False: "false"}
_PLAIN_KEY = re.compile(r"[^\s:=~<>\".]+")


@dataclass(frozen=True, slots=True)
class Leaf:
    """A value in a payload: a text, a number, true, false or null, or how many items an array has."""

    text: str
    number: float | None = None
    # it can be searched for as it is
    plain: bool = True


def leaves(payload: Mapping[str, Any]) -> dict[str, Leaf]:
    """Return the values of a payload by their paths, such as `to.0`; of a large payload the first ones."""
    found: dict[str, Leaf] = {}
    _collect(payload, "", DEPTH, found)
    return found


def _collect(value: Any, path: str, depth: int, found: dict[str, Leaf]) -> None:
    if len(found) >= PATHS or len(path) > KEY:
        return
    if isinstance(value, dict | list):
        if isinstance(value, list) and path:
            found[path] = Leaf(f"{len(value)} items" if len(value) != 1 else "1 item", plain=False)
        children: Iterable[tuple[Any, Any]] = value.items() if isinstance(value, dict) else enumerate(value[:ITEMS])
        for key, child in children if depth else ():
            _collect(child, f"{path}.{key}" if path else str(key), depth - 1, found)
    elif path:
        found[path] = _leaf(value)


def _leaf(value: Any) -> Leaf:
    if isinstance(value, str):
        return Leaf(bounded(value))
    if value is None or isinstance(value, bool):
        return Leaf(_WORDS[value])
    try:
        return Leaf(bounded(repr(value)), float(value))
    except (OverflowError, ValueError):
        return Leaf("a very large number", plain=False)


def bounded(text: str) -> str:
    """Return a value as it is compared: one that is longer than `LONGEST` characters is cut, with a mark."""
    text = storable(text[: LONGEST + 1])
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + MARK


def rendered(term: Term) -> str:
    """Return a term of a filter as text; "" where the language cannot express it."""
    if len(term.value) > LONGEST or not term.value:
        return ""
    return render(Filter((term,)))


def _fields(dead: Sequence[Job], completed: Sequence[Job]) -> tuple[list[Dimension], int]:
    """Return the fields that distinguish best, and how many were compared."""
    here = [leaves(job.payload) for job in dead if job.payload is not None]
    there = [leaves(job.payload) for job in completed if job.payload is not None]
    paths = sorted({path for payload in (*here, *there) for path in payload})
    candidates: list[tuple[float, str, Dimension]] = []
    for path in paths if here else ():
        field = _Contrast(path, [payload.get(path) for payload in here], [payload.get(path) for payload in there])
        score, dimension = field.best()
        if score >= LEAST:
            candidates.append((score, path, dimension))
    chosen: list[Dimension] = []
    for _, path, dimension in sorted(candidates, key=lambda one: (-one[0], one[1].count("."), one[1])):
        names = [one.name.removeprefix("payload.") for one in chosen]
        # An array and its elements, an object and its fields mean the same.
        if not any(path.startswith(f"{name}.") or name.startswith(f"{path}.") for name in names):
            chosen.append(dimension)
    return chosen[:FIELDS], len(paths)


class _Contrast:
    """One field in the payloads of dead and of completed jobs; None: it is not there."""

    def __init__(self, path: str, dead: Sequence[Leaf | None], completed: Sequence[Leaf | None]) -> None:
        self._path = path
        self._dead = dead
        self._completed = completed
        self._filtered = all(_PLAIN_KEY.fullmatch(key) for key in path.split("."))

    def best(self) -> tuple[float, Dimension]:
        """Return how well it distinguishes, between 0 and 1, and its most telling values."""
        dead = Counter(leaf.text if leaf else "" for leaf in self._dead)
        completed = Counter(leaf.text if leaf else "" for leaf in self._completed)
        here, there = len(self._dead), len(self._completed)
        plain = {leaf.text: leaf for leaf in self._dead if leaf}

        def share(text: str) -> Share:
            where = self._where("=", plain[text]) if text in plain else ""
            return Share(
                text if text in plain else ABSENT, dead[text] / here, completed[text] / there if there else None, where
            )

        found = {text: _surely(number, here, completed[text], there) for text, number in _most(dead, 20)}
        order = sorted(found, key=lambda text: (-found[text], -dead[text], text))
        score = found[order[0]]
        shares = tuple(share(text) for text in order[:TOP] if found[text] >= LEAST or text == order[0])
        threshold = self._threshold() if len(dead) >= SPREAD else None
        if threshold and threshold[0] > score:
            score, shares = threshold[0], (threshold[1],)
        distinct = len([text for text in dead if text in plain])
        known = sum(1 for leaf in self._dead if leaf)
        return score, Dimension(f"payload.{self._path}", shares, distinct, known)

    def _threshold(self) -> tuple[float, Share] | None:
        """Return the number above or below which most of the dead and few of the completed are."""
        dead = sorted(leaf.number for leaf in self._dead if leaf and leaf.number is not None)
        completed = sorted(leaf.number for leaf in self._completed if leaf and leaf.number is not None)
        if len(dead) < len(self._dead) // 2 or not completed:
            return None
        best: tuple[float, Share] | None = None
        for bound in sorted({*completed[:: max(1, len(completed) // 50)], completed[-1], completed[0]}):
            here, there = bisect_right(dead, bound), bisect_right(completed, bound)
            for sign, n, m in (
                (">", len(dead) - here, len(completed) - there),
                ("<", bisect_left(dead, bound), bisect_left(completed, bound)),
            ):
                score = _surely(n, len(self._dead), m, len(self._completed))
                if best is None or score > best[0]:
                    text = json.dumps(int(bound) if bound.is_integer() and abs(bound) < 1e15 else bound)
                    where = self._where(sign, Leaf(text))
                    best = score, Share(f"{sign} {text}", n / len(self._dead), m / len(self._completed), where)
        return best

    def _where(self, sign: Any, leaf: Leaf) -> str:
        if not self._filtered or not leaf.plain:
            return ""
        if leaf.text.endswith(MARK):
            return rendered(Term(f"payload.{self._path}", "~", leaf.text[:SHOWN]))
        return rendered(Term(f"payload.{self._path}", sign, leaf.text))


def _surely(dead: int, of_dead: int, completed: int, of_completed: int) -> float:
    """Return by how much a value is more frequent among the dead, as far as samples of these sizes show it.

    Without completed jobs: how frequent it is.
    """
    if of_completed == 0:
        return _bound(dead, of_dead, -1)
    return _bound(dead, of_dead, -1) - _bound(completed, of_completed, 1)


def _bound(number: int, of: int, sign: int) -> float:
    """Return the lower or upper end of the share that is behind a share in a sample, after Wilson."""
    if of == 0:
        return 0.0
    share, square = number / of, SURE * SURE
    centre = share + square / (2 * of)
    width = SURE * sqrt(share * (1 - share) / of + square / (4 * of * of))
    return (centre + sign * width) / (1 + square / of)
