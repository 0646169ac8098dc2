"""Entries of many sets in one order: pages of ids with the times of their last changes, without reading the jobs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import NamedTuple

from queue_core.inspection import Order
from queue_core.redis.scripts import Call
from queue_core.states import Status
from queue_core.stores.redis.link import TOGETHER, Link, chunks

FIRST, MOST = 300, 4_800
"""Entries of one page, doubling: who wants a few gets them soon, who wants all is not held up by round trips."""

Place = tuple[int, str]
"""Time and id, by which lists are sorted."""


class Entry(NamedTuple):
    """A job's place in a list. Entries compare as their places do."""

    # microseconds since the epoch
    at: int
    id: str
    queue: str
    # None where the set it was found in does not tell
    status: Status | None


class Stream:
    """One set of a queue, read in pages; or, with `entries`, what was read at once."""

    def __init__(self, key: str, queue: str, status: Status | None, entries: Sequence[Entry] | None = None) -> None:
        self._key = key
        self._queue = queue
        self._status = status
        self._size = FIRST
        # behind it the next page begins
        self._last: Place | None = None
        self.entries = list(entries or ())
        self.ended = entries is not None

    def start(self, order: Order, after: Place | None) -> None:
        """Begin behind a place."""
        self._last = after
        if self.ended:
            self.entries.sort(key=_place, reverse=order == "newest")
            if after is not None:
                del self.entries[: _up_to(self.entries, after, order)]

    def call(self, order: Order) -> Call:
        """Return the script that reads the next page."""
        return Call("page", [self._key], [order, *(self._last or ("", "")), self._size])

    def take(self, found: Sequence[str]) -> None:
        """Take the answer of that script."""
        pairs = zip(found[::2], found[1::2], strict=True)
        self.entries = [Entry(int(float(score)), job_id, self._queue, self._status) for job_id, score in pairs]
        self.ended = len(self.entries) < self._size
        self._last = _place(self.entries[-1]) if self.entries else self._last
        self._size = min(MOST, 2 * self._size)


async def walk(
    link: Link, streams: Sequence[Stream], order: Order, after: Place | None
) -> AsyncIterator[Sequence[Entry]]:
    """Yield the entries of all streams in order, in parts, from behind a place on."""
    for stream in streams:
        stream.start(order, after)
    while True:
        empty = [stream for stream in streams if not stream.entries and not stream.ended]
        for some in chunks(empty, TOGETHER):
            for stream, found in zip(some, await link.run_many([one.call(order) for one in some]), strict=True):
                stream.take(found)
        part = _ready(streams, order)
        if not part and all(stream.ended and not stream.entries for stream in streams):
            return
        yield sorted(part, key=_place, reverse=order == "newest")


def _ready(streams: Sequence[Stream], order: Order) -> list[Entry]:
    """Take out of the streams what no entry that was not read yet can stand in front of."""
    ends = [_place(stream.entries[-1]) for stream in streams if not stream.ended and stream.entries]
    limit = None if not ends else max(ends) if order == "newest" else min(ends)
    part: list[Entry] = []
    for stream in streams:
        ready = len(stream.entries) if limit is None else _up_to(stream.entries, limit, order)
        part += stream.entries[:ready]
        del stream.entries[:ready]
    return part


def _place(entry: Entry) -> Place:
    return entry[:2]


def _up_to(entries: Sequence[Entry], place: Place, order: Order) -> int:
    """Return how many of the entries, which are in order, do not stand behind a place."""
    first, behind = 0, len(entries)
    while first < behind:
        middle = (first + behind) // 2
        other = _place(entries[middle])
        if other < place if order == "newest" else other > place:
            behind = middle
        else:
            first = middle + 1
    return first
