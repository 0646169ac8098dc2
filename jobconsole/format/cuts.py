"""Texts that are cut so that those that differ still look different."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise

from rich.cells import cell_len, chop_cells

from jobconsole.format.spans import Spans, fit, width_of
from queue_core.model.text import safe

LEAST_HEAD = 8
"""Cells of a text's beginning that are kept before a cut in its middle."""
LEAST_FILTER = 12
"""Cells of a filter that are shown before the word for it takes its place."""
FILTERED = "filtered"
"""That word."""
BETWEEN = 4
"""Cells between a title and what is at the right end of its line."""
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


def title_parts(title: Spans, note: Spans, text: str, room: int) -> tuple[Spans, Spans]:
    """Return a title and what is at the right end of its line, in `room` cells; `text`: the filter of what is below.

    That a filter holds is always seen. For it go, in this order: what of the note is muted, the end of the filter, the
    last parts of the title, the note, at last the filter but for a word. Without a filter a note is whole or missing.
    """
    shown = f"/{safe(text)}"
    whole: Spans = ((f"{shown}  ", "accent"), *note) if text and note else ((shown, "accent"),) if text else note
    if not whole or width_of(title) + width_of(whole) + BETWEEN <= room:
        return _within(title, room), whole
    if not text:
        return _within(title, room), ()
    loud = _ended(tuple(span for span in note if span[1] != "muted"))
    for beside in dict.fromkeys(((("  ", "text"), *loud) if loud else (), ())):
        for parts in range(len(title), 0, -1):
            kept = title[:parts] if parts == len(title) else _ended(title[:parts])
            left = room - BETWEEN - width_of((*kept, *beside))
            if left >= min(cell_len(shown), LEAST_FILTER):
                return kept, (*_within(((shown, "accent"),), left), *beside)
    return _within(title, room - BETWEEN - len(FILTERED)), ((FILTERED, "accent"),)


def _within(spans: Spans, room: int) -> Spans:
    return spans if width_of(spans) <= room else fit(spans, room)


def _ended(spans: Spans) -> Spans:
    """Return the spans without blanks at their end."""
    while spans and not spans[-1][0].strip():
        spans = spans[:-1]
    return (*spans[:-1], (spans[-1][0].rstrip(), spans[-1][1])) if spans else ()


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
