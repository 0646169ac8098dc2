"""Scans by rank that leave out jobs which have ended.

Their rows stay in indexes and tables until they are vacuumed away, which anybody's open snapshot holds up; after ten
minutes at 10,000 jobs/s a scan of all ranks of a queue takes seconds. While scans are fast, each is of everything. When
one was slow, the following ones leave out the ranks that were passed, for each priority by itself, since what arrives
later has a higher rank there. A job that returns to an earlier rank is named by the code that puts it there
(`reread`). Missed ones (a notification that a pooler does not pass on, an offer that Redis lost) are found by scans
of everything as long as these are not too slow, which are the rarer the longer they take; and by a walk: a part of the
ranks left out is read again periodically. In a large table the walk is slow, so that other tables keep their place in
the server's cache, unless notifications may have been missed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import inf

from queue_core.stores.postgres.dialect import plain_array

BAND_BITS = 45
LAST_IN_BAND = (1 << BAND_BITS) - 1
BANDS = 256
ABOVE_ALL_RANKS = 1 << 53
"""Above every rank."""
COMMIT_LAG = 0.25
"""Seconds after which what was passed is left out: inserts that took their places before and commit later are found."""
USUAL_SECONDS, USUAL_SECONDS_EACH = 0.003, 0.00003
"""Seconds of a scan that is not slow, and of each job that it finds."""
RANKS_LONG = 0.01
"""Seconds beyond the usual from which on all priorities are to be passed, also those in which nothing was found."""
EDGE_INTERVAL = 5.0
"""Seconds until it is asked again how far the order of arrival has come."""
MAX_CUT_OFF, RECENT_RANKS = 2, 1_000_000
"""Scans cut off in a row, with a store that answers, after which only so many of the last arrivals are read."""
MIN_STEP, FIRST_STEP = 10_000, 50_000
"""Ranks of a step of the walk, which grows and shrinks with the time that it takes."""
STEP_LONG, LARGE_STEP = 0.02, 0.25
"""Seconds beyond the usual from which on steps become shorter; and what part of it does in a large table, see below."""
STEP_BANDS = 64
"""Priorities of a step: most of them never had a job."""
MIN_PAUSE, PAUSE_FACTOR = 0.2, 50.0
"""Seconds between two steps; and how many times longer than the last one took."""
FULL_SCAN_INTERVAL, FULL_SCAN_LIMIT = 1.0, 0.25
"""Seconds between two scans of everything, at least; and beyond the usual, after which there are none. On a busy
machine all scans are slow, and what was missed must not wait for the walk there."""
PAUSE_FACTOR_CLAIMS = 100.0
"""The same for claims: workers are many, and what the leader's walk finds is named to all of them."""
LARGE_TABLE_BLOCKS = 4096
"""Blocks of the table from which on scans of what ended would take the place of other tables in the server's cache."""
LARGE_PAUSE, LARGE_BLOCKS, LARGE_WHOLE = 100.0, 40.0, 0.1
"""How many times longer the pauses are then, unless they keep to so many blocks a second, 0.3 MB, while notifications
arrive and none may have been missed; and what part of `FULL_SCAN_LIMIT` a scan of everything may take. Measured beside
a cache of 128 MB: at 100 blocks a second a bystander's query took 1.2 times as long, at 40 no longer."""
MIN_ROWS_PER_BLOCK = 4.0
"""Rows in a block, at least: longer ones are stored elsewhere."""
SIZE_INTERVAL = 60.0
"""Seconds until the size of the table is asked for again."""
FULL_SCAN_LONG, CLOCK_ERROR = 0.05, 0.002
"""Seconds beyond the usual of a scan of everything from which on the next one waits until what it has passed is left
out; and by how much a timer may be early."""
ASIDE_SECONDS, MAX_ASIDE_SECONDS = 1.0, 60.0
"""Seconds for which what came back is read: its row may be locked at first, or scans may end before it."""
MAX_NAMED = 500
"""Parts that came back and are kept apart; with more they become one."""

Part = tuple[int, int]
"""Ranks above the first and up to the second."""
EVERYWHERE: Part = (-1, ABOVE_ALL_RANKS)


@dataclass(frozen=True, slots=True)
class RankScan:
    """What one scan reads."""

    parts: Sequence[Part]
    # seconds of the monotonic clock
    began: float
    # where this scan's step of the walk ends, and where the next one begins; None: it has none
    walk: Part | None = None
    # a place in the order of arrival before which nothing came since long before this scan; None: not known
    edge: int | None = None
    # whether it reads everything
    whole: bool = False


class PassedRanks:
    """The ranks of a queue behind which a scan finds nothing more, for claims of some types or for heads.

    `hears`: returns whether notifications of what came back arrive.
    """

    def __init__(self, pause: float = PAUSE_FACTOR, hears: Callable[[], bool] = lambda: True) -> None:
        self._pause = pause
        self._hears = hears
        # how many turns of the walk are hurried yet: some may have been missed behind the place where it is
        self._hurried = 0
        # by band, the best priority first: the place in the order of arrival up to which all is passed
        self._upto: dict[int, int] = {}
        # the same for every band
        self._base = -1
        # when to leave out what, in order
        self._soon: deque[tuple[float, dict[int, int]]] = deque()
        # what came back, and when
        self._named: list[tuple[Part, float]] = []
        self._slow = self._doubt = self._used = False
        # seconds beyond the usual of the last scan, if it was of everything
        self._extra = 0.0
        # scans in a row that were cut off by their time limit
        self._cut = 0
        # whether scans of everything are cut off, so that nothing may read everything
        self.given_up = False
        self._edge: tuple[int, float] | None = None
        # blocks of the table, rows in each, and when that was so
        self._size: tuple[int, float, float] | None = None
        self._walked = -1
        self._step = FIRST_STEP
        self._walk_at = 0.0
        # when everything is read again
        self._whole_at = 0.0
        # seconds that this turn of the walk has taken beyond the usual
        self._turn = 0.0

    def due_in(self, now: float) -> float:
        """Return the seconds until what was passed is left out, if to read it again takes half of that; else 0."""
        if not self._slow or not self._soon or self._extra < FULL_SCAN_LONG:
            return 0.0
        left = self._soon[0][0] - now
        return left + CLOCK_ERROR if 0 < left < 2 * self._extra else 0.0

    @property
    def slow(self) -> bool:
        """Whether scans leave something out."""
        return self._slow

    def next_scan(self, now: float) -> RankScan:
        """Return what to read: everything while that is fast."""
        edge = self._known(now)
        while self._soon and self._soon[0][0] <= now:
            self._leave_out(self._soon.popleft()[1])
        if not self._slow or (now >= self._whole_at and not self.given_up):
            return RankScan([EVERYWHERE], now, edge=edge, whole=True)
        parts = self.left()
        walk = None
        if now >= self._walk_at and (step := self._next_step()) is not None:
            more, begins = step
            parts += more
            walk = more[-1][1], begins
        return RankScan(merged(parts), now, walk, edge)

    def left(self) -> list[Part]:
        """Return what is not passed."""
        return merged([*self._gaps(), *(part for part, _ in self._named)]) if self._slow else [EVERYWHERE]

    def claimed(self, scan: RankScan, ranks: Sequence[int], now: float) -> None:
        """Note the ranks that a scan has found, in order, and that are claimed now."""
        extra = max(0.0, now - scan.began - USUAL_SECONDS - USUAL_SECONDS_EACH * len(ranks))
        self._note_time(scan, ranks[-1] if ranks else ABOVE_ALL_RANKS, extra, now)
        upto: dict[int, int] = {}
        for rank in ranks:
            upto[rank >> BAND_BITS] = max(rank & LAST_IN_BAND, upto.get(rank >> BAND_BITS, -1))
        self._pass(scan, upto, ranks[-1] if ranks else -1)

    def stopped(
        self, scan: RankScan, found: Sequence[int], reached: int, now: float, extra: float | None = None
    ) -> None:
        """Note the ranks at which a scan has found jobs, in order, which stay there; and how far it has come.

        `extra`: the seconds that it took beyond the usual, where the caller knows better.
        """
        extra = max(0.0, now - scan.began - USUAL_SECONDS) if extra is None else extra
        self._note_time(scan, reached, extra, now)
        # Within each priority no job has a lower rank than the first one.
        upto = {rank >> BAND_BITS: (rank & LAST_IN_BAND) - 1 for rank in reversed(found)}
        if scan.edge is not None and extra > RANKS_LONG:
            # No earlier job has a lower rank.
            if not found:
                self._base = max(self._base, scan.edge)
            else:
                upto |= {band: max(scan.edge, self._upto.get(band, -1)) for band in range(found[0] >> BAND_BITS)}
        self._pass(scan, upto, found[0] if found else ABOVE_ALL_RANKS)
        # Jobs found by a step of the walk are read until they are claimed: the walk itself continues.
        self.reread([(rank - 1, rank) for rank in found], scan.began)
        self._doubt, self._used = False, True

    def _known(self, now: float) -> int | None:
        """Return how far the order of arrival had come long enough before."""
        return None if self._edge is None or self._used or now - self._edge[1] < COMMIT_LAG else self._edge[0]

    def _pass(self, scan: RankScan, upto: dict[int, int], reached: int) -> None:
        if upto:
            self._soon.append((scan.began + COMMIT_LAG, upto))
        if self._named:
            self._named = [
                (part, at)
                for part, at in self._named
                if scan.began - at < (ASIDE_SECONDS if part[1] <= reached else MAX_ASIDE_SECONDS)
            ]

    def _note_time(self, scan: RankScan, reached: int, extra: float, now: float) -> None:
        # Others may be slow because the machine is busy, and to wait for each of them would make it worse.
        self._cut, self._extra = 0, extra if scan.whole else 0.0
        self._doubt = extra > 0 and (self._doubt or extra > RANKS_LONG)
        if scan.whole:
            if not self._slow:
                self._walked, self._turn, self._walk_at = -1, 0.0, now + MIN_PAUSE
                if extra > STEP_LONG:
                    self._step = max(MIN_STEP, int(FIRST_STEP * STEP_LONG / extra))
            self._slow = extra > 0
            most = FULL_SCAN_LIMIT * (LARGE_WHOLE if self._large else 1.0)
            self._whole_at = now + max(FULL_SCAN_INTERVAL, self._rest(extra)) if extra <= most else inf
        elif scan.walk is not None:
            self._walked = scan.walk[1] if reached > scan.walk[0] else reached
            self._turn += extra
            self._walk_at = now + max(MIN_PAUSE, self._rest(extra, self._step))
            long = STEP_LONG * (LARGE_STEP if self._large else 1.0)
            self._step = (
                self._step * 4 if extra < 0.002 else max(MIN_STEP, self._step // 2) if extra > long else self._step
            )

    @property
    def _large(self) -> bool:
        return self._size is not None and self._size[0] >= LARGE_TABLE_BLOCKS

    def _rest(self, extra: float, ranks: float = inf) -> float:
        """Return for how long to read nothing of the kind again after a scan of at most so many ranks."""
        rest = self._pause * extra
        if not self._large or self._size is None or self._hurried or not self._hears():
            return rest
        return max(rest, min(LARGE_PAUSE * rest, ranks / self._size[1] / LARGE_BLOCKS * self._pause / PAUSE_FACTOR))

    def wants_edge(self, now: float) -> bool:
        """Return whether reads are slow for no known reason: maybe because of ended rows of other priorities."""
        if self._slow and (self._size is None or now - self._size[2] > SIZE_INTERVAL):
            return True
        return self._cut > 0 or (
            self._doubt and (self._edge is None or (self._used and now - self._edge[1] > EDGE_INTERVAL))
        )

    def wants_first(self, now: float) -> bool:
        """Return whether to read the first job alone, which shows the ranks that can be left out."""
        return self._doubt and self._known(now) is not None

    def know_edge(self, place: int, blocks: int, rows: int, now: float) -> None:
        """Know how far the order of arrival has come, and how large the table is, with rows that ended."""
        self._edge, self._used = (place, now), False
        self._size = blocks, max(MIN_ROWS_PER_BLOCK, rows / max(1, blocks)), now
        if self._cut >= MAX_CUT_OFF:
            # It has nothing to go by: what arrived last comes first, and what did before is left to the walk.
            self._slow, self._base, self.given_up = True, max(self._base, place - RECENT_RANKS), True
            self._walked, self._walk_at, self._cut = -1, now, 0

    def reread_all(self) -> None:
        """Read all that is left out again, soon: notifications may have been missed, or never sent.

        The walk goes on from where it is, so that it comes round however often it is called for.
        """
        if not self._hurried:
            self._walk_at = 0.0
        self._hurried = 2

    def cut_off(self) -> None:
        """Note that a scan took longer than it may, or that the store did not answer."""
        self._cut += 1

    def reread(self, parts: Iterable[Part], now: float) -> None:
        """Read these ranks again, as far as they are passed."""
        self._named += [(part, now) for part in parts if self._touches(part)]
        if len(self._named) > MAX_NAMED:
            self._named = [((min(p[0] for p, _ in self._named), max(p[1] for p, _ in self._named)), now)]

    def _touches(self, part: Part) -> bool:
        band, place = (part[0] + 1) >> BAND_BITS, (part[0] + 1) & LAST_IN_BAND
        coming = max((upto.get(band, -1) for _, upto in self._soon), default=-1)
        return part[1] >> BAND_BITS != band or place <= max(self._base, self._upto.get(band, -1), coming)

    def _leave_out(self, upto: dict[int, int]) -> None:
        for band, place in upto.items():
            self._upto[band] = max(place, self._upto.get(band, -1))

    def _zones(self) -> Iterator[Part]:
        bands = range(BANDS) if self._base >= 0 else sorted(self._upto)
        for band in bands:
            start = band << BAND_BITS
            yield start - 1, start + max(self._base, self._upto.get(band, -1))

    def _gaps(self) -> Iterator[Part]:
        at = -1
        for low, high in self._zones():
            if low > at:
                yield at, low
            at = high
        yield at, ABOVE_ALL_RANKS

    def _next_step(self) -> tuple[list[Part], int] | None:
        """Return the next parts of what is left out; None at the end of a turn: after a quick one all is read."""
        parts: list[Part] = []
        begins, left = ABOVE_ALL_RANKS, self._step
        for low, high in self._zones():
            if high <= self._walked:
                continue
            start = max(low, self._walked)
            end = min(high, start + left)
            parts.append((start, end))
            left -= end - start
            # Its end moves on meanwhile: the rest of it is for the next turn.
            begins = end if end < high else high | LAST_IN_BAND
            if left <= 0 or len(parts) >= STEP_BANDS:
                break
        if parts:
            return parts, begins
        self._slow = self._turn > 2 * RANKS_LONG
        self.given_up = self.given_up and self._slow
        self._walked, self._turn, self._hurried = -1, 0.0, max(0, self._hurried - 1)
        return None


def merged(parts: Iterable[Part]) -> list[Part]:
    """Return parts in order, those that touch each other as one."""
    found: list[Part] = []
    for low, high in sorted(parts):
        if found and low <= found[-1][1]:
            found[-1] = (found[-1][0], max(high, found[-1][1]))
        else:
            found.append((low, high))
    return found


def rank_parameters(parts: Sequence[Part]) -> dict[str, str]:
    """Return the parameters of a statement that reads these ranks."""
    return {"above": plain_array(low for low, _ in parts), "up_to": plain_array(high for _, high in parts)}


def named(ranks: Iterable[int], gap: int = 1000, most: int = 200) -> list[Part]:
    """Return few parts that hold all of these ranks."""
    ordered = sorted(ranks)
    while True:
        found: list[Part] = []
        for rank in ordered:
            if found and rank - found[-1][1] <= gap:
                found[-1] = (found[-1][0], rank)
            else:
                found.append((rank - 1, rank))
        if len(found) <= most:
            return found
        gap *= 10


def spell(parts: Iterable[Part], queue: str) -> str:
    """Return the notification that these ranks of a queue came back."""
    return ",".join(f"{low}-{high}" for low, high in parts) + f" {queue}"


def read(message: str) -> tuple[str, list[Part]]:
    """Return the queue and the parts of such a notification; none where it is no such."""
    text, _, queue = message.partition(" ")
    try:
        pairs = [pair.rsplit("-", 1) for pair in text.split(",") if pair]
        return queue, [(int(low), int(high)) for low, high in pairs]
    except ValueError:
        return queue, []


class Ranks:
    """Those of all queues."""

    def __init__(self, pause: float = PAUSE_FACTOR, hears: Callable[[], bool] = lambda: True) -> None:
        self._pause = pause
        self._hears = hears
        self._queues: dict[str, dict[frozenset[str] | None, PassedRanks]] = {}

    def of(self, queue: str, types: Iterable[str] | None = None) -> PassedRanks:
        """Return what claims for these types have passed."""
        key = None if types is None else frozenset(types)
        group = self._queues.get(queue)
        if group is None:
            group = self._queues[queue] = {}
        passed = group.get(key)
        if passed is None:
            passed = group[key] = PassedRanks(self._pause, self._hears)
        return passed

    def reread_all(self) -> None:
        """Read all that is left out again, soon."""
        for queue in self._queues.values():
            for passed in queue.values():
                passed.reread_all()

    def forget(self, queue: str) -> None:
        """Read all ranks of a queue again."""
        self._queues.pop(queue, None)

    def reread(self, queue: str, parts: Iterable[Part], now: float) -> None:
        """Read these ranks of a queue again."""
        for passed in self._queues.get(queue, {}).values():
            passed.reread(parts, now)
