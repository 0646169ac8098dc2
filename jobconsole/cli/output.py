"""The only writer of standard output: aligned tables, plain lines, and one JSON object with a version."""

from __future__ import annotations

import dataclasses
import errno
import io
import json
import os
import shutil
import sys
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, NamedTuple, TextIO

from jobconsole.cli.failures import CommandError

VERSION = 1
"""Of the JSON that commands print; it grows when a key is renamed or removed, not when one is added."""

_COLOURS = {"green": "32", "yellow": "33", "red": "31", "bold": "1"}
_NARROWEST = 20
"""Characters that the last column of a table keeps on the narrowest terminal."""


def has_terminal() -> bool:
    """Return whether this program reads from a terminal and writes to one: both may also be closed."""
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout))


class TextColumn(NamedTuple):
    """One column of a table."""

    title: str
    align: Literal["left", "right"] = "left"
    # characters; longer cells are capped
    limit: int = 200


class _Closed(io.StringIO):
    """A closed standard output: what a command has written is missed at its end, and may be much of what it does."""

    def flush(self) -> None:
        if self.tell():
            raise OSError(errno.EBADF, "it is closed")


class Output:
    """Standard output in the form that was asked for: text for people, or JSON for programs."""

    def __init__(self, stream: TextIO | None = None, as_json: bool = False) -> None:
        # None when the process was started with standard output closed.
        found = sys.stdout if stream is None else stream
        self._stream: TextIO = _Closed() if found is None else found
        self.as_json = as_json
        # what was changed already
        self._done = ""
        if isinstance(self._stream, io.TextIOWrapper):
            # A terminal of another encoding shows what it has no character for as its code.
            self._stream.reconfigure(errors="backslashreplace")

    @property
    def colour(self) -> bool:
        """True when words may be coloured: text, to a terminal that can, and NO_COLOR is not set."""
        plain = self.as_json or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
        return not plain and self.terminal

    @property
    def terminal(self) -> bool:
        """True when it goes to a terminal."""
        return self._stream.isatty()

    def note_change(self, sentence: str) -> None:
        """Note a change that took place: where its report cannot be written, the error names it, too.

        A script that takes the error for a failure of the change would make another job.
        """
        self._done = f"{sentence}; "

    def write(self, text: str) -> None:
        """Write text that this program made itself.

        Raises:
            BrokenPipeError: the reader has gone.
            CommandError: the text cannot be written, as on a full disk.
        """
        self._checked(lambda: self._stream.write(text))

    def line(self, text: str = "") -> None:
        """Write one line for people."""
        self.write(f"{text}\n")

    def json(self, body: Mapping[str, Any]) -> None:
        """Write one JSON object on one line, its version first."""
        self.write(f"{json.dumps({'version': VERSION, **body}, default=_plain)}\n")

    def flush(self) -> None:
        """Write what is buffered, so that a full disk or a closed pipe shows now."""
        self._checked(self._stream.flush)

    def _checked(self, action: Callable[[], object]) -> None:
        try:
            action()
        except BrokenPipeError:
            raise
        except OSError as error:
            raise CommandError(f"{self._done}cannot write to standard output: {error.strerror}") from None

    def paint(self, text: str, colour: str) -> str:
        """Return the text in a colour (green, yellow, red, bold), or as it is where colours are off."""
        return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m" if self.colour else text

    def table(self, columns: Sequence[TextColumn], rows: Iterable[Sequence[object]]) -> None:
        """Write aligned columns; cells are made harmless, and on a terminal the last column is cut to its width."""
        from queue_core.model.text import safe

        cells = [[safe(_text(value), column.limit) for column, value in zip(columns, row, strict=True)] for row in rows]
        titles = [column.title for column in columns]
        widths = [max(map(width, column)) for column in zip(titles, *cells, strict=True)]
        if self.terminal:
            room = shutil.get_terminal_size().columns - sum(widths[:-1]) - 2 * (len(widths) - 1)
            widths[-1] = min(widths[-1], max(room, _NARROWEST))
        self.line(self.paint(_row(titles, columns, widths), "bold"))
        for row in cells:
            self.line(_row(row, columns, widths))


def _plain(value: object) -> Any:
    """Records as objects, times in ISO 8601; whatever else has no JSON form as its text."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return value.isoformat() if isinstance(value, datetime) else str(value)


def width(text: str) -> int:
    """Return how many terminal cells a harmless text takes."""
    if text.isascii():
        return len(text)
    return sum(_cells(char) for char in text)


def cut(text: str, size: int) -> str:
    """Return a harmless text in at most so many cells."""
    return _fit(text, "left", size).rstrip() if width(text) > size else text


def _cells(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def _text(value: object) -> str:
    return "-" if value is None or value == "" else str(value)


def _row(cells: Sequence[str], columns: Sequence[TextColumn], widths: Sequence[int]) -> str:
    shown = [_fit(cell, column.align, size) for cell, column, size in zip(cells, columns, widths, strict=True)]
    return "  ".join(shown).rstrip()


def _fit(cell: str, align: str, size: int) -> str:
    if width(cell) > size:
        kept, used = "", 1
        for char in cell:
            used += _cells(char)
            if used > size:
                break
            kept += char
        cell = f"{kept}…"
    padding = " " * (size - width(cell))
    return padding + cell if align == "right" else cell + padding
