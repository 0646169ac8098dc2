"""Forgets the titles of error signatures that no dead job has any more: a walk, a bounded step at a time.

Those of jobs in the trash are found by a walk over the trash, which has no index by signature: it is rare enough, and
every delete would write to an index. A title that is forgotten by mistake, since a job was dying just then, comes back
with the next round.
"""

from __future__ import annotations

import time

from queue_core.stores.postgres.lane import Lane, Rows
from queue_core.stores.postgres.sql import text_array

KEPT = 2 * 86400.0
"""Seconds after its first sight in which a signature is kept whatever becomes of its jobs."""
REST = 3600.0
"""Seconds between two walks."""
FIRST = 300.0
"""Seconds from the start to the first walk."""
LIMIT = 1_000
"""Signatures looked at in a statement, and forgotten after a walk over the trash."""
PAGE = 5_000
"""Jobs of the trash looked at in a statement."""
STEPS = 20
"""Statements in one go, so that the leader's other duties do not wait."""
BEGIN = ("-infinity", "00000000-0000-0000-0000-000000000000")


class Titles:
    """One walk at a time; the first begins a while after the start."""

    def __init__(self, lane: Lane) -> None:
        self._lane = lane
        # seconds of time.monotonic
        self._begin_at = time.monotonic() + FIRST
        # the last signature looked at
        self._after = ""
        # what is to be forgotten unless a job of the trash has it, and how far the walk over the trash is
        self._unused: set[str] = set()
        self._place = BEGIN
        # what was forgotten in the round before
        self._forgotten: Rows = []

    async def run(self) -> None:
        """Go on with the walk, or begin one when it is time."""
        await self._restore()
        if time.monotonic() < self._begin_at:
            return
        for _ in range(STEPS):
            if self._unused:
                await self._look_into_trash()
            elif not await self._choose():
                self._after, self._begin_at = "", time.monotonic() + REST
                return

    async def _choose(self) -> bool:
        """Look at the next signatures; False when there were no more of them."""
        wanted = {"after": self._after, "seconds": KEPT, "limit": LIMIT}
        rows = await self._lane.run("upkeep/titles", wanted)
        if rows:
            self._after, self._place = rows[-1][0], BEGIN
            self._unused = {signature for signature, unused, old in rows if unused and old}
        return bool(rows)

    async def _look_into_trash(self) -> None:
        at, job_id = self._place
        rows = await self._lane.run("upkeep/titles_in_trash", {"at": at, "id": job_id, "limit": PAGE})
        self._unused.difference_update(row[2] for row in rows)
        if len(rows) == PAGE:
            self._place = rows[-1][:2]
        elif self._unused:
            signatures = {"signatures": text_array(sorted(self._unused))}
            self._unused = set()
            self._forgotten += await self._lane.run("upkeep/forget_titles", signatures)

    async def _restore(self) -> None:
        if not self._forgotten:
            return
        columns = [text_array(column) for column in zip(*self._forgotten, strict=True)]
        names = ("signatures", "titles", "exceptions", "first_seen")
        await self._lane.run("upkeep/restore_titles", dict(zip(names, columns, strict=True)))
        self._forgotten = []
