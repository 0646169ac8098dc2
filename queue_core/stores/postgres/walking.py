"""Scans of small tables, in steps while an open snapshot makes them large."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from queue_core.stores.postgres.lane import Lane, Rows

WHOLE = {"first_place": "(0,0)", "last_place": "(4294967294,65535)"}
"""All of a table, as parameters of a statement that scans it from one place (ctid) to another."""
NOWHERE = {"first_place": "(1,0)", "last_place": "(0,0)"}
LONG = 0.05
"""Seconds of a whole scan from which on the table is scanned in steps. Leases and tallies are few, but ended ones are
read, too, until they are vacuumed away, which an open snapshot holds up: a million take 66 ms."""
BLOCKS = 1024
"""Blocks of a step: 8 MB, about 7 ms. Twice a second that is little beside the work itself."""


class Walk:
    """One table and how far it has been scanned; each call takes the next step, and all of it where that is short."""

    def __init__(self, lane: Lane, table: str) -> None:
        self._lane = lane
        self._table = table
        self._long = False
        self._block = 0

    async def run(
        self, query: str, params: Mapping[str, Any], unfinished: Callable[[Rows], bool] = lambda rows: False
    ) -> Rows:
        """Run a query file over the next step and return its rows; `unfinished`: the step is to be taken again."""
        places = await self._places() if self._long else WHOLE
        began = time.monotonic()
        try:
            rows = await self._lane.run(query, {**params, **places})
        finally:
            self._long = self._long or time.monotonic() - began > LONG
        if self._long and places is not WHOLE and not unfinished(rows):
            self._block += BLOCKS
        return rows

    async def _places(self) -> Mapping[str, str]:
        blocks = (await self._lane.run("sweep/blocks", {"table": self._table}))[0][0]
        if blocks <= BLOCKS:
            self._long = False
            return WHOLE
        if self._block >= blocks:
            self._block = 0
        return {"first_place": f"({self._block},0)", "last_place": f"({self._block + BLOCKS - 1},65535)"}
