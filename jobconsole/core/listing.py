"""A window over a list of jobs that may have a million rows: pages are read by key as the cursor reaches them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from jobconsole.core.rows import JobLine, job_line
from queue_core.client.finding.inspector import search_texts
from queue_core.model.filters import Filter, Term
from queue_core.model.report import Order
from queue_core.model.states import Status
from queue_core.ports.inspector import Inspector

PAGE_ROWS = 200
"""Rows read at a time."""
ROWS_AHEAD = 100
"""Rows before the end of what is loaded at which the next page is wanted."""
MAX_ROWS = 20_000
"""Rows held at most; the title shows when there are more."""
READ_TOGETHER = 10
"""Rows that are read one by one at a time."""
_OVER = frozenset({Status.COMPLETED, Status.CANCELLED})


@dataclass(slots=True)
class Window:
    """The loaded rows of one list, in order, and how to get at more. Reading returns; adopting changes.

    A row is found by its id, never by its place: what was inserted or removed above it does not matter.
    """

    where: Filter
    order: Order = "newest"
    rows: list[JobLine] = field(default_factory=list)
    places: dict[str, int] = field(default_factory=dict)
    # id of a row -> cursor of the page after it; "" -> the first page
    cursors: dict[str, str | None] = field(default_factory=lambda: {"": None})
    # whether the first page was ever read
    loaded: bool = False
    # whether nothing follows the last row
    complete: bool = False
    # fields of payloads that its rows have
    fields: tuple[str, ...] = ()
    # so many rows came in above that the held ones do not touch the newest page any more
    behind: bool = False
    # id of a row -> the time of its last change when a page put it where it is
    placed: dict[str, datetime] = field(default_factory=dict)

    @property
    def full(self) -> bool:
        """Whether the list continues but no more of it is held."""
        return not self.complete and len(self.rows) >= MAX_ROWS

    def wants(self, last_visible: int) -> bool:
        """Whether the next page should be read, given the last row on the screen."""
        return not self.loaded or (not self.complete and not self.full and last_visible + ROWS_AHEAD >= len(self.rows))

    async def read_more(self, inspector: Inspector) -> None:
        """Read the page after the last row.

        Raises:
            StoreUnavailable: the store did not answer in time.
        """
        after = self.rows[-1].id if self.rows else ""
        if after not in self.cursors:
            after = self._last_cursor(len(self.rows) - 1)
        await self._read(inspector, after)

    async def refresh(self, inspector: Inspector, shown: range = range(0), hold: bool = False) -> None:
        """Read the first page again, and what the screen shows beyond it (`shown`: the places of its rows).

        With `hold`, visible rows are kept even when a flood of new ones has cut them off the newest page (`behind`);
        without, the list then restarts at the newest page.

        Raises:
            StoreUnavailable: the store did not answer in time.
        """
        ids = [row.id for row in self.rows[shown.start : shown.stop]]
        fresh = await self._read(inspector, "", hold)
        if self.behind:
            await self._read_alone(inspector, [one for one in ids if one not in fresh])
            return
        while beyond := [one for one in ids if one in self.places and one not in fresh]:
            after = self._last_cursor(min(self.places[one] for one in beyond) - 1)
            read = await self._read(inspector, after) if after else frozenset()
            if not read - fresh:
                # No page leads there any more.
                await self._read_alone(inspector, beyond)
                return
            fresh |= read

    def restart(self) -> None:
        """Drop all rows: the next page is the newest one."""
        self.rows, self.places, self.cursors, self.placed = [], {}, {"": None}, {}
        self.loaded = self.complete = self.behind = False

    def forget(self, ids: frozenset[str] | set[str]) -> None:
        """Remove rows that are known to be gone, before the next page is read."""
        if any(one in self.places for one in ids):
            self._renew([row for row in self.rows if row.id not in ids])

    def _last_cursor(self, place: int) -> str:
        """The nearest row at or before a place whose following page can be read."""
        for index in range(place, -1, -1):
            if self.rows[index].id in self.cursors:
                return self.rows[index].id
        return ""

    async def _read_alone(self, inspector: Inspector, ids: Sequence[str]) -> None:
        """Read rows again of which no page is known; one that does not belong here any more goes."""
        shown = [self.rows[self.places[one]] for one in ids if one in self.places]
        # What has ended well changes no more, but by an operator.
        held = [row for row in shown if row.status not in _OVER]
        found: dict[str, JobLine] = {}
        for start in range(0, len(held), READ_TOGETHER):
            # The queue narrows the search, where a store keeps each queue for itself.
            wheres = [
                self.where.having(Term("id", "=", row.id.replace("-", "")), Term("queue", "=", row.queue))
                for row in held[start : start + READ_TOGETHER]
            ]
            pages = await asyncio.gather(*(inspector.jobs(where, 1) for where in wheres))
            found |= {job.id: job_line(job, self.fields) for page in pages for job in page.jobs}
        asked = {row.id for row in held}
        self._renew([found.get(row.id, row) for row in self.rows if row.id in found or row.id not in asked])

    async def _read(self, inspector: Inspector, after: str, hold: bool = False) -> frozenset[str]:
        """Read the page after a row, and return the ids that are in it; none where that row went meanwhile."""
        await search_texts(inspector, self.where)
        if after not in self.cursors:
            return frozenset()
        page = await inspector.jobs(self.where, PAGE_ROWS, self.cursors[after], self.order)
        if after and after not in self.places:
            # It went while the page was read: where that belongs now is not known.
            return frozenset()
        fresh = [job_line(job, self.fields) for job in page.jobs]
        head = self.rows[: self.places[after] + 1] if after else []
        rest = self.rows[len(head) :]
        known = frozenset(row.id for row in fresh)
        # A row that has changed since has moved, and proves nothing of its former neighbours.
        moved = {row.id for row in fresh if self.placed.get(row.id, row.updated_at) != row.updated_at}
        last = max((self.places.get(row.id, -1) - len(head) for row in fresh if row.id not in moved), default=-1)
        if hold and after == "" and rest and last < 0 and page.cursor is not None:
            self.behind = True
            return frozenset()
        # Old rows up to the last one that came again unchanged are either in the new page or gone. Rows after it were
        # pushed out of the page by new ones; when not one came again nothing is known of them.
        tail = rest[last + 1 :] if last >= 0 and page.cursor is not None else []
        self.placed |= {row.id: row.updated_at for row in fresh}
        self.cursors = {key: cursor for key, cursor in self.cursors.items() if key not in moved}
        self._renew([row for row in head if row.id not in known] + fresh + [row for row in tail if row.id not in known])
        if fresh and page.cursor is not None:
            self.cursors[fresh[-1].id] = page.cursor
        if not tail:
            self.complete = page.cursor is None
        self.loaded = True
        self.behind = self.behind and after != ""
        return known

    def _renew(self, rows: list[JobLine]) -> None:
        self.rows = rows
        self.places = {row.id: index for index, row in enumerate(rows)}
        self.cursors = {key: cursor for key, cursor in self.cursors.items() if key == "" or key in self.places}
        self.placed = {key: time for key, time in self.placed.items() if key in self.places}
