"""The figures as tables, for a terminal and as Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.compare.bars import BARS
from benchmarks.compare.results import Results, Spread

BEGIN, END = "<!-- compare: begin -->", "<!-- compare: end -->"
"""Between these lines of a document the Markdown is replaced."""


class Column(NamedTuple):
    """One figure."""

    figure: str
    title: str
    digits: int = 0


COLUMNS = (
    Column("single", "single/s"),
    Column("bulk", "bulk/s"),
    Column("drain1", "drain, 1 worker/s"),
    Column("drain2", "drain, 2 workers/s"),
    Column("p50", "p50 ms", 2),
    Column("p99", "p99 ms", 2),
    Column("worker_us", "worker µs/job", 1),
    Column("servers_us", "servers µs/job", 1),
    Column("cpu_us", "CPU µs/job", 1),
    Column("wal", "WAL B/job"),
)
RULE_COLUMNS = (
    Column("concurrency", "concurrency: 5, jobs of 1 ms/s"),
    Column("keys", "1,000 ordering keys/s"),
    Column("key", "one ordering key/s"),
    Column("rate", "a rate's cost, %"),
)
TITLES = {column.figure: column.title for column in (*COLUMNS, *RULE_COLUMNS)}

Rows = list[list[str]]


def tables(results: Results) -> Iterator[Rows]:
    """Yield the table of all contestants with ratios, and the one of this queue's rules; first rows are headings."""
    for columns, ratios in ((COLUMNS, True), (RULE_COLUMNS, False)):
        shown = [each for each in columns if any(each.figure in figures for figures in results.figures.values())]
        if shown:
            yield [
                ["", *(column.title for column in shown)],
                *_figures(results, shown),
                *(_ratios(results, shown) if ratios else ()),
            ]


def _figures(results: Results, columns: Sequence[Column]) -> Iterator[list[str]]:
    for name, label in results.labels.items():
        cells = [_cell(results.spread(name, column.figure), column.digits) for column in columns]
        if any(cells):
            yield [label, *cells]


def _ratios(results: Results, columns: Sequence[Column]) -> Iterator[list[str]]:
    """Yield a row for each mode and peer that a bar names."""
    for mode, peer in dict.fromkeys((bar.mode, bar.peer) for bar in BARS):
        if peer is not None:
            cells = [_cell(results.ratio(column.figure, mode, peer), 2) for column in columns]
            if any(cells):
                yield [f"{mode} / {peer}", *cells]


def _cell(spread: Spread | None, digits: int) -> str:
    if spread is None:
        return ""
    median, least, most = (f"{value:,.{digits}f}" for value in spread)
    return median if least == most else f"{median} ({least}–{most})"


def as_text(results: Results) -> str:
    """Return both tables, and what was measured on."""
    lines: list[str] = []
    for rows in tables(results):
        widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
        for row in rows:
            cells = (cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))
            lines.append("  ".join((row[0].ljust(widths[0]), *cells)).rstrip())
        lines.append("")
    return "\n".join([*lines, *sentences(results)])


def as_markdown(results: Results) -> str:
    """Return both tables, and what was measured on, as Markdown."""
    lines = [*sentences(results), ""]
    for heading, *rows in tables(results):
        lines += [_row(heading), "|" + "---|" * len(heading), *map(_row, rows), ""]
    return "\n".join(lines).rstrip() + "\n"


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def sentences(results: Results) -> Iterator[str]:
    """Yield what was measured on, the load of others, and what could not be measured."""
    yield f"Medians of {results.rounds()} rounds in turns, with least and most; ratios are taken round by round."
    yield from results.machine
    if load := Spread.of(results.stretches):
        yield (
            f"Before the rounds a busy loop took {load.median:.2f} times its processor time "
            f"({load.least:.2f}–{load.most:.2f}): above 1 other programs used the processors, too."
        )
    yield from results.notes


def replace_in(document: Path, markdown: str) -> None:
    """Put the Markdown between the two marks of a document.

    Raises:
        ValueError: the document has no such marks.
    """
    text = document.read_text(encoding="utf-8")
    head, begin, rest = text.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{document} has no lines {BEGIN} and {END}")
    document.write_text(f"{head}{BEGIN}\n{markdown}{END}{tail}", encoding="utf-8")
