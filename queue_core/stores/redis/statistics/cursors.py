"""Sorted sets of queues, read in pages and joined in one order."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence

from queue_core.model.report import Order
from queue_core.model.states import Status
from queue_core.redis.scripts import Call
from queue_core.stores.redis.records import Entry, Position, homes
from queue_core.stores.redis.session import SCRIPTS_PER_TRIP, RedisLink, chunks

FIRST_PAGE, MAX_PAGE = 300, 4_800
"""Entries of one page, doubling: who wants a few gets them soon, who wants all is not held up by round trips."""


class SetCursor:
    """One set of a queue, read in pages; or, with `entries`, what was read at once."""

    def __init__(self, key: str, queue: str, status: Status | None, entries: Sequence[Entry] | None = None) -> None:
        self._key = key
        self._queue = queue
        self._status = status
        self._size = FIRST_PAGE
        # everything up to there was read
        self.last: Position | None = None
        self.entries = list(entries or ())
        self.ended = entries is not None

    def start(self, order: Order, after: Position | None) -> None:
        """Begin behind a place."""
        self.last = after
        if self.ended:
            self.entries.sort(key=_place, reverse=order == "newest")
            if after is not None:
                del self.entries[: _up_to(self.entries, after, order)]

    def call(self, order: Order) -> Call:
        """Return the script that reads the next page."""
        return Call("page", [self._key], [order, *(self.last or ("", "")), self._size])

    def take(self, found: Sequence[str]) -> None:
        """Take the answer of that script."""
        pairs = zip(found[::2], found[1::2], strict=True)
        self.entries = [Entry(int(float(score)), job_id, self._queue, self._status) for job_id, score in pairs]
        self.ended = len(self.entries) < self._size
        self.last = _place(self.entries[-1]) if self.entries else self.last
        self._size = min(MAX_PAGE, 2 * self._size)


class SiftedCursor(SetCursor):
    """The dead jobs of a queue that died of some errors; Redis leaves the others out.

    `first`: before that time, in microseconds, nothing is looked for, newest first.
    """

    def __init__(self, link: RedisLink, queue: str, signatures: Iterable[str], first: int = 0) -> None:
        super().__init__(link.keys.of(queue, "dlq"), queue, Status.DEAD)
        self._errors = link.keys.of(queue, "errors")
        self._signatures = sorted(signatures)
        self._first = first
        self._size = MAX_PAGE

    def call(self, order: Order) -> Call:
        place = self.last or ("", "")
        return Call("sift", [self._key, self._errors], [order, *place, self._size, *self._signatures])

    def take(self, found: Sequence[str]) -> None:
        read, last, score, *left = found
        pairs = zip(left[::2], left[1::2], strict=True)
        self.entries = [Entry(int(float(at)), job_id, self._queue, self._status) for job_id, at in pairs]
        self.last = (int(float(score)), last) if last else self.last
        self.ended = int(read) < self._size or (self.last is not None and self.last[0] < self._first)


async def walk(
    link: RedisLink, streams: Sequence[SetCursor], order: Order, after: Position | None
) -> AsyncIterator[Sequence[Entry]]:
    """Yield the entries of all streams in order, in parts, from behind a place on."""
    for stream in streams:
        stream.start(order, after)
    while True:
        empty = [stream for stream in streams if not stream.entries and not stream.ended]
        for some in chunks(empty, SCRIPTS_PER_TRIP):
            for stream, found in zip(some, await link.run_many([one.call(order) for one in some]), strict=True):
                stream.take(found)
        part = _ready(streams, order)
        if not part and all(stream.ended and not stream.entries for stream in streams):
            return
        yield sorted(part, key=_place, reverse=order == "newest")


def _ready(streams: Sequence[SetCursor], order: Order) -> list[Entry]:
    """Take the entries out of the streams that no unread entry can precede."""
    ends = [stream.last for stream in streams if not stream.ended and stream.last is not None]
    limit = None if not ends else max(ends) if order == "newest" else min(ends)
    part: list[Entry] = []
    for stream in streams:
        ready = len(stream.entries) if limit is None else _up_to(stream.entries, limit, order)
        part += stream.entries[:ready]
        del stream.entries[:ready]
    return part


def _place(entry: Entry) -> Position:
    return entry[:2]


def _up_to(entries: Sequence[Entry], place: Position, order: Order) -> int:
    """Return how many of the entries, which are in order, are not behind a place."""
    first, behind = 0, len(entries)
    while first < behind:
        middle = (first + behind) // 2
        other = _place(entries[middle])
        if other < place if order == "newest" else other > place:
            behind = middle
        else:
            first = middle + 1
    return first


async def causes(link: RedisLink, entries: Iterable[Entry]) -> dict[tuple[str, str], str]:
    """Return what jobs died of, signature and type, by queue and id; those that are not dead any more are left out."""
    by_queue = homes(entries)
    commands = link.batch()
    for queue, ids in by_queue.items():
        commands.hmget(link.keys.of(queue, "errors"), ids)
    answers = await link.send(commands) if by_queue else ()
    return {
        (queue, job_id): cause
        for (queue, ids), found in zip(by_queue.items(), answers, strict=True)
        for job_id, cause in zip(ids, found, strict=True)
        if cause is not None
    }
