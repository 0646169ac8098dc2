"""Drawings made of blocks, as HTML for a notebook and as text where there is none.

Texts of jobs are attacker text: what comes in here went through `safe()` in facts and rows, and HTML is escaped here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from html import escape
from importlib.resources import files
from typing import Any

from jobconsole.format.glyphs import UNICODE
from jobconsole.format.spans import Line, RenderContext, Spans, fit, labelled, width_of
from jobconsole.notebook.connection import sentence_of
from jobconsole.present.facts import Fact, moment
from jobconsole.present.layout import Column, fit_columns
from queue_core.errors import QueueCoreError
from queue_core.model.text import safe

TEXT_WIDTH = 160
"""Characters of a line where there is no HTML."""
LONGEST_TEXT = 20_000
"""Characters of a payload, a result or a traceback."""


@dataclass(frozen=True, slots=True)
class LinesBlock:
    """Lines of spans."""

    lines: Sequence[Line]


@dataclass(frozen=True, slots=True)
class FactsBlock:
    """Facts, one a line; those that are unknown are left out."""

    facts: Sequence[Fact]


@dataclass(frozen=True, slots=True)
class TableBlock:
    """Rows under the titles of columns; `empty` is shown where there is no row."""

    title: str
    columns: Sequence[Column[Any]]
    rows: Sequence[Any]
    empty: str = "none"


@dataclass(frozen=True, slots=True)
class TextBlock:
    """A text of several lines under a title that folds it; the text may be anything."""

    title: str
    text: str
    unfolded: bool = False


Block = LinesBlock | FactsBlock | TableBlock | TextBlock


class Drawing:
    """What a notebook shows as a drawing; where that cannot be read, as one sentence."""

    def blocks(self) -> Iterable[Block]:
        """Return what to draw.

        Raises:
            QueueCoreError: it cannot be read.
        """
        raise NotImplementedError

    def now(self) -> datetime:
        """Return the moment from which ages are counted."""
        return datetime.now(UTC)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        blocks, now = readable_blocks(self), self.now()
        return {"text/html": html_of(blocks, now), "text/plain": text_of(blocks, now)}

    def _repr_html_(self) -> str:
        return html_of(readable_blocks(self), self.now())


def readable_blocks(drawn: Drawing) -> list[Block]:
    """Return the blocks of something, or the sentence why they cannot be read."""
    try:
        return list(drawn.blocks())
    except QueueCoreError as error:
        return [note(sentence_of(error), "bad")]


def note(text: str, tone: str = "muted") -> LinesBlock:
    """Return one harmless line."""
    return LinesBlock([((safe(text), tone),)])


def as_of(now: datetime) -> LinesBlock:
    """Return the line that dates a drawing, which a notebook keeps for a long time."""
    return note(f"as of {moment(now)}", "faint")


_TONES = frozenset({"muted", "faint", "accent", "chart", "good", "warn", "bad", "strong"})


def html_of(blocks: Iterable[Block], now: datetime) -> str:
    """Return blocks as HTML that is readable on light and dark grounds."""
    context = RenderContext(now, UNICODE)
    body = "".join(_block_html(block, context) for block in blocks)
    return f'<style>{static("drawing.css")}</style><div class="jobconsole">{body}</div>'


@cache
def static(name: str) -> str:
    """Return the text of a file that a notebook is given."""
    return files("jobconsole.notebook").joinpath("static", name).read_text(encoding="utf-8")


def _block_html(block: Block, context: RenderContext) -> str:
    if isinstance(block, LinesBlock):
        return "".join(f'<div class="l">{_spans_html(line)}</div>' for line in block.lines)
    if isinstance(block, FactsBlock):
        rows = (
            f'<tr><th class="k">{escape(fact.label)}</th>'
            f'<td class="w">{_spans_html(((fact.text(), fact.tone),))}</td></tr>'
            for fact in block.facts
            if fact.known
        )
        return f'<table class="jc"><tbody>{"".join(rows)}</tbody></table>'
    if isinstance(block, TextBlock):
        text = escape(safe(block.text, LONGEST_TEXT, newlines=True))
        opened = " open" if block.unfolded else ""
        return f"<details{opened}><summary>{escape(block.title)}</summary><pre>{text}</pre></details>"
    return _table_html(block, context)


def _table_html(block: TableBlock, context: RenderContext) -> str:
    title = f'<div class="h">{escape(block.title)}</div>' if block.title else ""
    if not block.rows:
        return f'{title}<div class="l muted">{escape(block.empty)}</div>'
    kinds = [" ".join(kind for kind in ("r" * column.right, "w" * column.flex) if kind) for column in block.columns]
    head = "".join(
        f'<th class="{kind}">{escape(column.title)}</th>' for kind, column in zip(kinds, block.columns, strict=True)
    )
    rows = (
        "".join(
            f'<td class="{kind}">{_spans_html(column.value(row, context))}</td>'
            for kind, column in zip(kinds, block.columns, strict=True)
        )
        for row in block.rows
    )
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return f'{title}<table class="jc"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'


def _spans_html(spans: Spans) -> str:
    return "".join(
        f'<span class="{tone}">{escape(text)}</span>' if tone in _TONES else escape(text) for text, tone in spans
    )


def text_of(blocks: Iterable[Block], now: datetime) -> str:
    """Return blocks as lines of text."""
    context = RenderContext(now, UNICODE)
    return "\n".join(line.rstrip() for block in blocks for line in _block_text(block, context))


def _block_text(block: Block, context: RenderContext) -> list[str]:
    if isinstance(block, LinesBlock):
        return [_plain(line) for line in block.lines]
    if isinstance(block, FactsBlock):
        facts = [(fact.label, fact.text(), fact.tone) for fact in block.facts if fact.known]
        return [_plain(line) for line in labelled(facts, TEXT_WIDTH)]
    if isinstance(block, TextBlock):
        lines = safe(block.text, LONGEST_TEXT, newlines=True).rstrip("\n").split("\n")
        return [f"{block.title}:", *(f"  {line}" for line in lines)]
    title = [block.title] if block.title else []
    if not block.rows:
        return [*title, block.empty]
    columns, fitted = [], fit_columns(block.columns, TEXT_WIDTH)
    for column, room in fitted:
        cells = [((column.title, "muted"),), *(column.value(row, context) for row in block.rows)]
        width = min(room, max(width_of(cell) for cell in cells))
        columns.append([_plain(fit(cell, width, column.right)) for cell in cells])
    gaps = ["", *(" " * column.gap for column, _ in fitted[1:])]
    return [*title, *("".join(map(str.__add__, gaps, line)) for line in zip(*columns, strict=True))]


def _plain(line: Iterable[tuple[str, str]]) -> str:
    return "".join(text for text, _ in line)
