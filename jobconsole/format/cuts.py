"""Texts that are cut so that those that differ still look different."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise

from rich.cells import cell_len, chop_cells

from jobconsole.format.spans import Spans, fit

LEAST_HEAD = 8
"""Cells of a text's beginning that are kept before a cut in its middle."""
BEFORE = 2
"""Characters shown between the cut and the place where two texts differ."""


def shared(texts: Iterable[str]) -> dict[str, int]:
    """Return how many characters each text begins with that another one begins with, too."""
    ordered = sorted(set(texts))
    found = dict.fromkeys(ordered, 0)
    for first, second in pairwise(ordered):
        common = next(
            (at for at, (one, other) in enumerate(zip(first, second, strict=False)) if one != other), len(first)
        )
        found[first], found[second] = max(found[first], common), max(found[second], common)
    return found


def cut_apart(spans: Spans, width: int, same: int, ellipsis: str = "…") -> Spans:
    """Return the spans in exactly `width` cells; `same`: characters that another text begins with, too.

    A text that would look like the other one is cut in its middle, so that what differs is seen.
    """
    text = "".join(part for part, _ in spans)
    if cell_len(text) <= width or cell_len(text[: same + 1]) < width or width < LEAST_HEAD + 4:
        return fit(spans, width, ellipsis=ellipsis)
    # The end, as far as to where they differ; where that is too long, what follows that place.
    room = width - 1
    begin = max(0, same - BEFORE)
    while begin and cell_len(text[begin - 1 :]) <= min(room // 2, room - LEAST_HEAD):
        begin -= 1
    head = _head(text, max(LEAST_HEAD, room - cell_len(text[begin:])))
    kept = _slice(spans, 0, len(head))
    tone = kept[-1][1] if kept else "text"
    return fit((*kept, (ellipsis, tone), *_slice(spans, begin, len(text))), width, ellipsis=ellipsis)


def _head(text: str, cells: int) -> str:
    return chop_cells(text, cells)[0]


def _slice(spans: Spans, start: int, end: int) -> Spans:
    kept, at = [], 0
    for text, tone in spans:
        part = text[max(0, start - at) : max(0, end - at)]
        if part:
            kept.append((part, tone))
        at += len(text)
    return tuple(kept)


def dominant(names: Mapping[str, int], share: float) -> str:
    """Return the name that makes up at least this share of all; "" when none does."""
    total = sum(names.values())
    name = max(names, key=lambda name: names[name], default="")
    return name if total and names[name] >= share * total else ""
