"""Scans of a whole table that leave out ranges of blocks in which everything has ended.

Leases and tallies are few at any time, but ended ones stay in the table until they are vacuumed away, which anybody's
open snapshot holds up. While a scan of everything is fast, each is. After a slow one the table is read by ranges of
blocks. New rows and new versions of old ones go to its end, where there is room, so most ranges are empty and stay so:
these are read again so rarely that other tables keep their place in the server's cache.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from queue_core.stores.postgres.dialect import Rows
from queue_core.stores.postgres.session.runner import SerialRunner

LAST_BLOCK = (1 << 32) - 2
SCAN_LONG = 0.01
"""Seconds of a whole scan from which on the table is scanned by ranges: what 150,000 ended rows take, or 30 MB."""
RANGE_BLOCKS = 64
"""Blocks of a range: at most so many are added to a table at once."""
STEP_RANGES = 16
"""Ranges of a step: 8 MB, about 7 ms."""
LAST_RANGES = 2
"""Ranges at the end of the table that are never left out: there is room in them."""
EMPTY_LONG = 10.0
"""Seconds for which a range has to be empty until it is left out: claims under way commit meanwhile."""
RANGES_REREAD_A_SECOND = 0.5
"""Ranges left out that are read again, a second: 0.25 MB. Room that a vacuum left in them may be used."""


NEVER = float("inf")


def places(ranges: Sequence[tuple[int, int]]) -> dict[str, str]:
    """Return parameters of a statement that scans a table from the first to the last block of each of these ranges."""
    return {
        "first_rows": "{" + ",".join(f'"({first},0)"' for first, _ in ranges) + "}",
        "last_rows": "{" + ",".join(f'"({last},65535)"' for _, last in ranges) + "}",
    }


WHOLE_TABLE = places([(0, LAST_BLOCK)])
NOWHERE = places([])


class BlockRanges:
    """Ranges of a table, by number, and which of them are left out."""

    def __init__(self) -> None:
        self._count = 0
        # those that are read in turn: since when they have been found empty, NEVER where they have rows; None: not read
        self._open: dict[int, float | None] = {}
        # the next one to be read of those that are left out, and when some were
        self._closed = 0
        self._closed_at: float | None = None

    def grow(self, blocks: int) -> None:
        """Know how large the table is now."""
        count = -(-blocks // RANGE_BLOCKS)
        self._open = {number: since for number, since in self._open.items() if number < count}
        # What expires soon is at the end of the table: a new leader begins there.
        self._open = {**dict.fromkeys(reversed(range(self._count, count))), **self._open}
        self._count = count

    def next_step(self, now: float) -> list[int]:
        """Return the ranges to read now: those with rows and the last ones, then others, and some that are left out.

        Of each kind, those that were not read for the longest time.
        """
        due = 0
        if self._closed_at is None or (due := int((now - self._closed_at) * RANGES_REREAD_A_SECOND)) > 0:
            self._closed_at = now
        first = [n for n, since in self._open.items() if since == NEVER or n >= self._count - LAST_RANGES]
        others = [n for n, since in self._open.items() if since != NEVER and n < self._count - LAST_RANGES]
        first = first[: max(STEP_RANGES // 2, STEP_RANGES - len(others))]
        return first + others[: STEP_RANGES - len(first)] + self._next_closed(min(due, STEP_RANGES))

    def _next_closed(self, most: int) -> list[int]:
        found: list[int] = []
        for number in [*range(self._closed, self._count), *range(self._closed)]:
            if len(found) >= most:
                break
            if number not in self._open:
                found.append(number)
        if found:
            self._closed = found[-1] + 1
        return found

    def looked(self, step: Sequence[int], occupied: Sequence[bool], now: float) -> None:
        """Note which of the ranges just read have rows."""
        for number, full in zip(step, occupied, strict=True):
            known, since = number in self._open, self._open.pop(number, None)
            since = now if since is None or since == NEVER else since
            if full:
                self._open[number] = NEVER
            elif known and not (now - since >= EMPTY_LONG and number < self._count - LAST_RANGES):
                self._open[number] = since


class BlockScan:
    """One table and how far it has been scanned; each call takes the next step, and all of it where that is fast."""

    def __init__(self, runner: SerialRunner, table: str) -> None:
        self._runner = runner
        self._table = {"table": table}
        # None: the whole table is read
        self._ranges: BlockRanges | None = None
        # the step that is to be taken again
        self._again: list[int] = []
        # the most rows that waited for a vacuum
        self._dead = 0

    @property
    def slow(self) -> bool:
        """Whether the table is read in steps."""
        return self._ranges is not None

    async def run(
        self, query: str, params: Mapping[str, Any], unfinished: Callable[[Rows], bool] = lambda rows: False
    ) -> Rows:
        """Run a query file over the next step and return its rows; `unfinished`: the step is to be taken again."""
        if (ranges := await self._known()) is None:
            return await self._run_whole(query, params)
        step = self._again or ranges.next_step(time.monotonic())
        where = places([(number * RANGE_BLOCKS, (number + 1) * RANGE_BLOCKS - 1) for number in step])
        self._again = step
        rows = await self._runner.run(query, {**params, **where})
        if not unfinished(rows):
            self._again = []
            occupied = await self._runner.run(f"blocks/occupied_{self._table['table']}", where)
            ranges.looked(step, [row[0] for row in occupied], time.monotonic())
        return rows

    async def _run_whole(self, query: str, params: Mapping[str, Any]) -> Rows:
        began = time.monotonic()
        try:
            return await self._runner.run(query, {**params, **WHOLE_TABLE})
        finally:
            if time.monotonic() - began > SCAN_LONG:
                self._ranges, self._again, self._dead = BlockRanges(), [], 0

    async def _known(self) -> BlockRanges | None:
        if self._ranges is not None:
            ((blocks, dead),) = await self._runner.run("blocks/table_size", self._table)
            self._dead = max(dead, self._dead)
            # A vacuum has made room everywhere, or there is nothing to leave out.
            if dead < self._dead / 2 or blocks <= RANGE_BLOCKS * STEP_RANGES:
                self._ranges = None
            else:
                self._ranges.grow(blocks)
        return self._ranges
