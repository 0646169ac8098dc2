"""The fields of payloads, and which of them distinguish dead jobs from completed ones."""

from __future__ import annotations

import json
import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any

from queue_core.model.filters import Filter, Term, render
from queue_core.model.job import Job
from queue_core.model.report import Dimension, Share
from queue_core.model.text import MARK, storable

TOP_VALUES = 3
"""Values of a property."""
FIELDS_SHOWN = 3
"""Fields of payloads that are shown."""
MAX_DEPTH = 6
"""Levels of a payload that are looked into."""
ITEMS_READ = 3
"""Elements of an array that are looked into."""
MAX_PATHS = 100
"""Fields of one payload that are looked at."""
MAX_VALUE_LENGTH = 200
"""Characters of a value that are compared."""
VALUE_LENGTH_SHOWN = 60
"""Characters of a long text by which it is found again."""
MAX_PATH_LENGTH = 100
"""Characters of a path that are looked at."""
MIN_DISTINCT_NUMBERS = 8
"""Different numbers of a field from which on they are compared with a threshold."""
SIGNIFICANCE = 1.64
"""Standard deviations by which a share may differ by chance: of 20 without meaning one or two seem to have some."""
MIN_SHARE_DIFFERENCE = 0.05
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
    _collect(payload, "", MAX_DEPTH, found)
    return found


def _collect(value: Any, path: str, depth: int, found: dict[str, Leaf]) -> None:
    if len(found) >= MAX_PATHS or len(path) > MAX_PATH_LENGTH:
        return
    if isinstance(value, dict | list):
        if isinstance(value, list) and path:
            found[path] = Leaf(f"{len(value)} items" if len(value) != 1 else "1 item", plain=False)
        children: Iterable[tuple[Any, Any]] = (
            value.items() if isinstance(value, dict) else enumerate(value[:ITEMS_READ])
        )
        for key, child in children if depth else ():
            _collect(child, f"{path}.{key}" if path else str(key), depth - 1, found)
    elif path:
        found[path] = _leaf(value)


def _leaf(value: Any) -> Leaf:
    if isinstance(value, str):
        return Leaf(bounded(value))
    text = scalar(value)
    if value is None or isinstance(value, bool):
        return Leaf(text)
    try:
        return Leaf(text, float(value), plain=not text.startswith("a "))
    except OverflowError:
        return Leaf(text, plain=False)


def scalar(value: bool | float | None) -> str:
    """Return a number, true, false or null as JSON has it."""
    if value is None or isinstance(value, bool):
        return _WORDS[value]
    try:
        return bounded(repr(value))
    except ValueError:
        return "a very large number"


def bounded(text: str) -> str:
    """Return a value as it is compared: one that is longer than `MAX_VALUE_LENGTH` characters is cut, with a mark."""
    text = storable(text[: MAX_VALUE_LENGTH + 1])
    return text if len(text) <= MAX_VALUE_LENGTH else text[: MAX_VALUE_LENGTH - 1] + MARK


def rendered(term: Term) -> str:
    """Return a term of a filter as text; "" where it cannot be typed."""
    text = render(Filter((term,))) if 0 < len(term.value) <= MAX_VALUE_LENGTH else ""
    return text if text.isprintable() else ""


def fields(dead: Sequence[Job], completed: Sequence[Job]) -> tuple[list[Dimension], int]:
    """Return the fields that distinguish best, and how many were compared."""
    here = [leaves(job.payload) for job in dead if job.payload is not None]
    there = [leaves(job.payload) for job in completed if job.payload is not None]
    paths = sorted({path for payload in (*here, *there) for path in payload})
    candidates: list[tuple[float, str, Dimension]] = []
    for path in paths if here else ():
        field = _Contrast(path, [payload.get(path) for payload in here], [payload.get(path) for payload in there])
        score, dimension = field.best()
        if score >= MIN_SHARE_DIFFERENCE:
            candidates.append((score, path, dimension))
    chosen: list[Dimension] = []
    for _, path, dimension in sorted(candidates, key=lambda one: (-one[0], one[1].count("."), one[1])):
        names = [one.name.removeprefix("payload.") for one in chosen]
        # An array and its elements, an object and its fields mean the same.
        if not any(path.startswith(f"{name}.") or name.startswith(f"{path}.") for name in names):
            chosen.append(dimension)
    return chosen[:FIELDS_SHOWN], len(paths)


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

        found = {text: _surely(number, here, completed[text], there) for text, number in most(dead, 20)}
        order = sorted(found, key=lambda text: (-found[text], -dead[text], text))
        score = found[order[0]]
        shares = tuple(
            share(text) for text in order[:TOP_VALUES] if found[text] >= MIN_SHARE_DIFFERENCE or text == order[0]
        )
        threshold = self._threshold() if len(dead) >= MIN_DISTINCT_NUMBERS else None
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
            return rendered(Term(f"payload.{self._path}", "~", leaf.text[:VALUE_LENGTH_SHOWN]))
        return rendered(Term(f"payload.{self._path}", sign, leaf.text))


def most(found: Counter[str], number: int) -> list[tuple[str, int]]:
    """Return the most frequent values with their counts."""
    return sorted(found.items(), key=lambda pair: (-pair[1], pair[0]))[:number]


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
    share, square = number / of, SIGNIFICANCE * SIGNIFICANCE
    centre = share + square / (2 * of)
    width = SIGNIFICANCE * sqrt(share * (1 - share) / of + square / (4 * of * of))
    return (centre + sign * width) / (1 + square / of)
