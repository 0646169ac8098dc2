"""Entries of many sets in one order: pages of ids with the times of their last changes, without reading the jobs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from operator import attrgetter
from typing import NamedTuple

from queue_core.inspection import Order
from queue_core.redis.scripts import Call
from queue_core.states import Status
from queue_core.stores.redis.link import CHUNK, Link


class Entry(NamedTuple):
    """A job's place in a list."""

    # microseconds since the epoch
    at: int
    id: str
    queue: str
    # None where the set it was found in does not tell
    status: Status | None

    @property
    def place(self) -> tuple[int, str]:
        """What lists are sorted by."""
        return self.at, self.id


class Stream:
    """One set of a queue, read in pages; or, with `entries`, what was read at once."""

    def __init__(self, key: str, queue: str, status: Status | None, entries: Sequence[Entry] | None = None) -> None:
        self._key = key
        self._queue = queue
        self._status = status
        self.entries = list(entries or ())
        # the last entry that was read
        self._last: Entry | None = None
        self.ended = entries is not None

    def start(self, order: Order, after: tuple[int, str] | None) -> None:
        """Begin behind a place."""
        if after is not None:
            self._last = Entry(*after, self._queue, self._status)
        if self.ended:
            behind = [entry for entry in self.entries if after is None or _behind(entry.place, after, order)]
            self.entries = sorted(behind, key=attrgetter("place"), reverse=order == "newest")

    def call(self, order: Order) -> Call:
        """Return the script that reads the next page."""
        last = self._last
        return Call("page", [self._key], [order, *(("", "") if last is None else last.place), CHUNK])

    def take(self, found: Sequence[str]) -> None:
        """Take the answer of that script."""
        pairs = zip(found[::2], found[1::2], strict=True)
        self.entries = [Entry(int(float(score)), job_id, self._queue, self._status) for job_id, score in pairs]
        self.ended = len(self.entries) < CHUNK
        self._last = self.entries[-1] if self.entries else self._last


async def walk(
    link: Link, streams: Sequence[Stream], order: Order, after: tuple[int, str] | None
) -> AsyncIterator[list[Entry]]:
    """Yield the entries of all streams in order, in parts, from behind a place on."""
    newest = order == "newest"
    for stream in streams:
        stream.start(order, after)
    while True:
        empty = [stream for stream in streams if not stream.entries and not stream.ended]
        for start in range(0, len(empty), CHUNK):
            some = empty[start : start + CHUNK]
            for stream, found in zip(some, await link.run_many([one.call(order) for one in some]), strict=True):
                stream.take(found)
        part = _ready(streams, order)
        if not part and all(stream.ended and not stream.entries for stream in streams):
            return
        yield sorted(part, key=attrgetter("place"), reverse=newest)


def _ready(streams: Sequence[Stream], order: Order) -> list[Entry]:
    """Take out of the streams what no entry that was not read yet can stand in front of."""
    ends = [stream.entries[-1].place for stream in streams if not stream.ended and stream.entries]
    limit = None if not ends else max(ends) if order == "newest" else min(ends)
    part: list[Entry] = []
    for stream in streams:
        ready = [one for one in stream.entries if limit is None or not _behind(one.place, limit, order)]
        stream.entries = stream.entries[len(ready) :]
        part += ready
    return part


def _behind(place: tuple[int, str], other: tuple[int, str], order: Order) -> bool:
    return place < other if order == "newest" else place > other
