"""The bounds of a job's log, and how its lines are numbered; the same in every store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from queue_core.job import LogLine
from queue_core.text import MARK, storable

LINES = 1000
"""Lines that a job keeps over all its attempts, the newest."""
LINE_BYTES = 4096
"""UTF-8 bytes of a line; a longer one is cut."""


class Place(NamedTuple):
    """Where a line stands in the log of its job."""

    # the job's count over all attempts
    number: int
    token: int
    # the attempt's own count
    line: int


NOWHERE = Place(0, 0, 0)
"""What stands before the first line."""


def cut_line(text: str) -> str:
    """Return the text as every store accepts it, in at most `LINE_BYTES` bytes, with a mark where it was cut."""
    data = storable(text[: LINE_BYTES + 1]).encode()
    if len(data) <= LINE_BYTES:
        return data.decode()
    return data[: LINE_BYTES - len(MARK.encode())].decode(errors="ignore") + MARK


def placed(last: Place, lines: Iterable[LogLine]) -> Iterator[tuple[Place, LogLine]]:
    """Yield the lines of a job's running attempt that stand behind the last one there is, with their places.

    Those that do not were written before, and the answer got lost. An attempt counts on from where the one before it
    ended, so that the numbers tell how many lines were dropped, wherever that happened.
    """
    for line in lines:
        start, done = (last.number - last.line, last.line) if last.token == line.token else (last.number, 0)
        if line.line > done:
            last = Place(start + line.line, line.token, line.line)
            yield last, line
