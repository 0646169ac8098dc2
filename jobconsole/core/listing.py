"""A window over a list of jobs that may have a million rows: pages are read by key as one comes to them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from jobconsole.core.rows import JobLine, job_line
from queue_core.filters import Filter, Term
from queue_core.inspection import Inspector, Order
from queue_core.states import Status

PAGE = 200
"""Rows read at a time."""
AHEAD = 100
"""Rows before the end of what is loaded at which the next page is wanted."""
MOST = 20_000
"""Rows held at most; a title says that there are more."""
TOGETHER = 10
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
    # so many rows came in above that the held ones do not touch the newest page any more
    behind: bool = False

    @property
    def full(self) -> bool:
        """Whether the list goes on but no more of it is held."""
        return not self.complete and len(self.rows) >= MOST

    def wants(self, last_visible: int) -> bool:
        """Whether the next page should be read, given the last row on the screen."""
        return not self.loaded or (not self.complete and not self.full and last_visible + AHEAD >= len(self.rows))

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

        With `hold`, rows are kept that somebody looks at, also when a flood of new ones has cut them off the newest
        page (`behind`); without, the list then begins anew.

        Raises:
            StoreUnavailable: the store did not answer in time.
        """
        ids = [row.id for row in self.rows[shown.start : shown.stop]]
        fresh = await self._read(inspector, "", hold)
        if self.behind:
            await self._read_alone(inspector, [one for one in ids if one not in fresh])
            return
        while beyond := [self.places[one] for one in ids if one in self.places and one not in fresh]:
            after = self._last_cursor(min(beyond) - 1)
            read = await self._read(inspector, after) if after else frozenset()
            if not read - fresh:
                # No page leads there any more.
                await self._read_alone(inspector, [self.rows[place].id for place in beyond])
                return
            fresh |= read

    def restart(self) -> None:
        """Let go of everything that is held: the next page is the newest one."""
        self.rows, self.places, self.cursors = [], {}, {"": None}
        self.loaded = self.complete = self.behind = False

    def forget(self, ids: frozenset[str] | set[str]) -> None:
        """Take rows out that are known to be gone, before the next page that is read says so."""
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
        # What has ended well changes no more, but by an operator.
        held = [row for one in ids if (row := self.rows[self.places[one]]).status not in _OVER]
        found: dict[str, JobLine] = {}
        for start in range(0, len(held), TOGETHER):
            # The queue says where to look, where a store keeps each queue for itself.
            wheres = [
                self.where.having(Term("id", "=", row.id.replace("-", "")), Term("queue", "=", row.queue))
                for row in held[start : start + TOGETHER]
            ]
            pages = await asyncio.gather(*(inspector.jobs(where, 1) for where in wheres))
            found |= {job.id: job_line(job) for page in pages for job in page.jobs}
        asked = {row.id for row in held}
        self._renew([found.get(row.id, row) for row in self.rows if row.id in found or row.id not in asked])

    async def _read(self, inspector: Inspector, after: str, hold: bool = False) -> frozenset[str]:
        """Read the page after a row, and return the ids that are in it."""
        page = await inspector.jobs(self.where, PAGE, self.cursors[after], self.order)
        fresh = [job_line(job) for job in page.jobs]
        head = self.rows[: self.places[after] + 1] if after in self.places else []
        rest = self.rows[len(head) :]
        known = frozenset(row.id for row in fresh)
        last = max(
            (self.places[row.id] - len(head) for row in fresh if self.places.get(row.id, -1) >= len(head)), default=-1
        )
        if hold and after == "" and rest and last < 0 and page.cursor is not None:
            self.behind = True
            return frozenset()
        # Old rows up to the last one that came again are either in the new page or gone. Rows after it were pushed
        # out of the page by new ones; when not one came again nothing is known of them.
        tail = rest[last + 1 :] if last >= 0 and page.cursor is not None else []
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
