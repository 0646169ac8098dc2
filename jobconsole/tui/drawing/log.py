"""The last lines of a job's log, the newest at the end."""

from __future__ import annotations

from jobconsole.core import humanize
from jobconsole.core.columns import Moment
from jobconsole.tui.drawing.spans import Line, wrap
from queue_core.inspection import LogPage
from queue_core.job import LogEntry
from queue_core.joblogs import LINE_BYTES
from queue_core.text import safe

STAMP = 9
"""Cells of the time and the blank behind it."""
_ROWS = 40
"""Rows of one entry; the command line has all of them."""


def log_lines(page: LogPage | None, moment: Moment, width: int) -> list[Line]:
    """Return the lines with their times; a rule stands where another attempt begins."""
    if page is None:
        return [(("reading ...", "muted"),)]
    if not page.entries:
        return [(("the handler wrote no lines", "muted"),)]
    lines: list[Line] = []
    earlier = page.entries[0].number - 1
    if earlier > 0:
        lines.append(((f"{humanize.plural(earlier, 'earlier line')}", "muted"),))
    token = page.entries[0].token
    for entry in page.entries:
        if entry.token != token:
            token = entry.token
            lines.append(((f"{moment.glyphs.rule * 2} next attempt", "faint"),))
        lines += _entry(entry, max(1, width - STAMP))
    return lines


def _entry(entry: LogEntry, width: int) -> list[Line]:
    text = safe(entry.text, LINE_BYTES, newlines=True).rstrip("\n")
    rows = [part for line in text.split("\n") for part in wrap(line, width)]
    if len(rows) > _ROWS:
        rows = [*rows[: _ROWS - 1], f"... {len(rows) - _ROWS + 1} more rows"]
    stamp = f"{humanize.clock(entry.at):<{STAMP}}"
    return [((" " * STAMP if number else stamp, "muted"), (row, "text")) for number, row in enumerate(rows)]
