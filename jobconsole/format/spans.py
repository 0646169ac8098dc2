"""Lines made of spans: pieces of text with a tone, cut and filled to an exact number of cells."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from rich.cells import cell_len, chop_cells, set_cell_size

from jobconsole.format.glyphs import Glyphs
from queue_core.model.states import Status

Span = tuple[str, str]
"""A piece of text and its tone, which screens colour: text, strong, muted, faint, accent, good, warn, bad."""
Spans = tuple[Span, ...]

STATE_TONES = {
    Status.SCHEDULED: "muted",
    Status.QUEUED: "text",
    Status.RUNNING: "accent",
    Status.RETRYING: "warn",
    Status.COMPLETED: "good",
    Status.CANCELLED: "muted",
    Status.DEAD: "bad",
}


@dataclass(frozen=True, slots=True)
class RenderContext:
    """The inputs of drawing beside the row."""

    # the store's clock
    now: datetime
    glyphs: Glyphs


Line = tuple[Span, ...]
"""One line of a screen; every widget draws its lines at exactly its own width."""


def width_of(spans: Iterable[Span]) -> int:
    """Return the cells that the spans take."""
    return sum(len(text) if text.isascii() else cell_len(text) for text, _ in spans)


def fit(spans: Sequence[Span], width: int, right: bool = False, fill: str = "text", ellipsis: str = "…") -> Spans:
    """Return the spans in exactly `width` cells: filled on one side, or cut with an ellipsis at the end."""
    taken = width_of(spans)
    if taken == width:
        return tuple(spans)
    if taken < width:
        blank = (" " * (width - taken), fill)
        return (blank, *spans) if right else (*spans, blank)
    return _cut(spans, width, ellipsis)


def _cut(spans: Sequence[Span], width: int, ellipsis: str) -> Spans:
    if width <= 0:
        return ()
    kept: list[Span] = []
    room = width - 1
    tone, half = "text", ""
    for text, tone in spans:
        size = width_of(((text, tone),))
        if size > room:
            part = set_cell_size(text, room)
            # A blank for half of a wide character is behind the ellipsis, not before it.
            half = "" if text.startswith(part) else " "
            kept.append((part[: len(part) - len(half)], tone))
            break
        kept.append((text, tone))
        room -= size
    return (*kept, (f"{ellipsis}{half}", tone))


def grounded(spans: Iterable[Span], ground: str) -> Spans:
    """Return the spans on a ground, such as the cursor's."""
    return tuple((text, f"{tone.partition('/')[0]}/{ground}") for text, tone in spans)


def spread(left: Sequence[Span], right: Sequence[Span], width: int, ground: str = "") -> Line:
    """Return a line with something at both ends; the left end is cut when both do not fit."""
    fill = f"text/{ground}" if ground else "text"
    room = width - width_of(right)
    if room <= 0:
        return fit(right, width, fill=fill)
    return (*fit(left, room, fill=fill), *right)


LABEL = 13
"""Cells of a fact's label, with a blank behind it."""
CELL = 23
"""Cells that a short fact takes at least; as many as fit share a line."""
BESIDE = 2
"""Facts beside each other at most."""
HIGHEST = 4
"""Lines of one fact; a longer one ends with an ellipsis."""


def labelled(facts: Iterable[tuple[str, str, str]], width: int) -> list[Line]:
    """Return facts, each a label, a text and its tone: short ones beside each other, long ones over whole lines."""
    number = min(BESIDE, max(1, (width + 2) // (CELL + 2)))
    cell = (width - 2 * (number - 1)) // number
    lines: list[Line] = []
    row: list[Span] = []
    taken = 0
    for label, text, tone in facts:
        cells = -(-(LABEL + width_of(((text, tone),)) + 2) // (cell + 2))
        if taken + cells > number and row:
            lines.append(tuple(row))
            row, taken = [], 0
        head = (f"{label:<{LABEL}}", "muted")
        if cells > number and width - LABEL < width_of(((text, tone),)) <= width - 2 and " " not in text:
            # What is one word, such as an id, is rather whole nearer to its label, or below it, than broken.
            lines += _whole(label, (text, tone), width)
        elif cells > number:
            lines += [(head if at == 0 else (" " * LABEL, "text"), (part, tone)) for at, part in _parts(text, width)]
        else:
            row += fit((head, (text, tone)), cells * (cell + 2)) if taken + cells < number else (head, (text, tone))
            taken += cells
    return [*lines, tuple(row)] if row else lines


def _whole(label: str, value: Span, width: int) -> list[Line]:
    beside = len(label) + 1 + width_of((value,)) <= width
    room = width - len(label) if beside else width
    line = fit((value,), room, right=True)
    return [((label, "muted"), *line)] if beside else [((label, "muted"),), line]


def _parts(text: str, width: int) -> Iterable[tuple[int, str]]:
    return enumerate(wrap(text, max(8, width - LABEL), HIGHEST))


def around(spans: Sequence[Span], room: int, ellipsis: str = "…") -> Spans:
    """Return the spans, of which the one with the tone `title` is the chosen one; those far from it go for room."""
    here = next((place for place, (_, tone) in enumerate(spans) if tone == "title"), 0)
    first, end, cut = 0, len(spans), (ellipsis, "muted")
    while end - first > 1 and width_of((*spans[first:end], *[cut] * ((first > 0) + (end < len(spans))))) > room:
        if here - first > end - 1 - here:
            first += 1
        else:
            end -= 1
    return (*([cut] if first else ()), *spans[first:end], *([cut] if end < len(spans) else ()))


def changed(before: Line, after: Line) -> list[range]:
    """Return the cells in which two lines differ, to whole spans; all of them where the lines are not equally long.

    A few cells between two spans that differ are among them: they take no more bytes than a move of the cursor.
    """
    size = width_of(after)
    if width_of(before) != size:
        return [range(size)]
    drawn, found = dict(_placed(before)), list[range]()
    for cell, span in _placed(after):
        if drawn.get(cell) == span:
            continue
        first = found.pop().start if found and cell - found[-1].stop < LEAST_GAP else cell
        found.append(range(first, cell + width_of((span,))))
    return found


LEAST_GAP = 16
"""Cells from which moving the cursor over them takes fewer bytes than drawing them."""


def _placed(line: Line) -> Iterator[tuple[int, Span]]:
    """Return each span that shows something with its first cell."""
    cell = 0
    for span in line:
        if size := width_of((span,)):
            yield cell, span
        cell += size


def wrap(text: str, width: int, most: int = 0, ellipsis: str = "…") -> list[str]:
    """Return the text in lines of at most `width` cells, broken at spaces where there are some.

    `most`: lines at most, 0 for any number; the last one of a longer text is full, and ends with an ellipsis.
    """
    lines = _wrapped(text, width)
    if not 0 < most < len(lines):
        return lines
    rest = text
    for line in lines[: most - 1]:
        rest = rest.lstrip(" ")[len(line) :]
    return [*lines[: most - 1], f"{set_cell_size(rest.lstrip(' '), max(0, width - 1)).rstrip()}{ellipsis}"]


def _wrapped(text: str, width: int) -> list[str]:
    lines: list[str] = []
    line = ""
    for word in text.split(" "):
        candidate = f"{line} {word}" if line else word
        if cell_len(candidate) <= width:
            line = candidate
            continue
        if line:
            lines.append(line)
        *full, line = chop_cells(word, width) if cell_len(word) > width else [word]
        lines += full
    return [*lines, line] if line or not lines else lines
