"""How facts and the columns of a table share a width."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from jobconsole.format.spans import Line, RenderContext, Span, Spans, fit, labelled, width_of
from jobconsole.present.facts import Fact

T = TypeVar("T")

GAP = 2
"""Blank cells between two columns."""
FAIR = 16
"""Cells of a flexible column under which others give up what they can do without."""


@dataclass(frozen=True, slots=True)
class Column(Generic[T]):
    """One column of a table."""

    title: str
    # cells; the least width where `flex` is set
    width: int
    value: Callable[[T, RenderContext], Spans]
    right: bool = False
    # takes what the others leave; of several that are shown, the last one does
    flex: bool = False
    # columns with higher numbers go first when there is little room; 1 only where a flexible one would have less than
    # half of its width otherwise; 0 always stays
    need: int = 0
    # how contents that are too long are cut, to so many cells and with this ellipsis; None: at their end
    cut: Callable[[T, Spans, int, str], Spans] | None = None
    # blank cells before it, where it is not the first
    gap: int = GAP
    # cells that it keeps where a flexible column has less than `FAIR`; 0: all
    least: int = 0

    def drawn(self, row: T, spans: Spans, context: RenderContext, width: int) -> Spans:
        """Return the contents of a row's cell in exactly `width` cells."""
        if self.cut is not None:
            return self.cut(row, spans, width, context.glyphs.ellipsis)
        return fit(spans, width, self.right, ellipsis=context.glyphs.ellipsis)


def fit_columns(columns: Sequence[Column[T]], width: int) -> list[tuple[Column[T], int]]:
    """Return the columns that fit into so many cells, with their widths; a flexible one shrinks when none can go."""
    kept = list(columns)
    slack = sum(column.width // 2 for column in kept if column.flex)
    while len(kept) > 1 and _taken(kept) > width:
        drop = max(kept, key=lambda column: column.need)
        if drop.need == 0 or (drop.need == 1 and _taken(kept) - slack <= width):
            break
        kept.remove(drop)
    spare = width - _taken(kept)
    taker = max((place for place, column in enumerate(kept) if column.flex), default=None)
    short = 0 if taker is None else FAIR - kept[taker].width - spare
    for place, column in enumerate(kept):
        given = min(max(0, short), column.width - column.least) if column.least else 0
        if given:
            kept[place] = replace(column, width=column.width - given)
            spare, short = spare + given, short - given
    widths = [max(0, column.width + spare) if place == taker else column.width for place, column in enumerate(kept)]
    return list(zip(kept, widths, strict=True))


def row_spans(row: T, fitted: Sequence[tuple[Column[T], int]], context: RenderContext) -> list[Span]:
    """Return the cells of a row beside each other; where a flexible one is too long, blank ones after it lend room."""
    spans: list[Span] = []
    place = 0
    while place < len(fitted):
        column, size = fitted[place]
        spans += [(" " * column.gap, "text")] if place else []
        value = column.value(row, context)
        place += 1
        while column.flex and place < len(fitted) and width_of(value) > size:
            lender, room = fitted[place]
            if width_of(lender.value(row, context)):
                break
            size += lender.gap + room
            place += 1
        spans += column.drawn(row, value, context, size)
    return spans


def _taken(columns: Sequence[Column[T]]) -> int:
    return sum(column.width for column in columns) + sum(column.gap for column in columns[1:])


def fact_lines(facts: Iterable[Fact], context: RenderContext, width: int) -> list[Line]:
    """Return the facts that are known as lines of a screen."""
    return labelled(((fact.label, fact.text(context.now), fact.tone) for fact in facts if fact.known), width)


def fact_line(facts: Iterable[Fact], context: RenderContext) -> Line:
    """Return the facts that are known in one line, with `GAP` blanks between them."""
    texts = [(fact.label, fact.text(context.now), fact.tone) for fact in facts if fact.known]
    between = [*(" " * GAP for _ in texts[1:]), ""]
    return tuple(
        span
        for (label, text, tone), gap in zip(texts, between, strict=False)
        for span in ((f"{label} ", "muted"), (f"{text}{gap}", tone))
    )
