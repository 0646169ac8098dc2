"""A window over a list of jobs that may have a million rows: pages are read by key as one comes to them."""

from __future__ import annotations

from dataclasses import dataclass, field

from jobconsole.core.rows import JobLine, job_line
from queue_core.filters import Filter
from queue_core.inspection import Inspector, Order

PAGE = 200
"""Rows read at a time."""
AHEAD = 100
"""Rows before the end of what is loaded at which the next page is wanted."""
MOST = 20_000
"""Rows held at most; a title says that there are more."""


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

    async def refresh(self, inspector: Inspector, first_visible: int = 0, hold: bool = False) -> None:
        """Read the first page again and, when the screen shows another one, that too.

        With `hold`, rows are kept that somebody looks at, also when a flood of new ones has cut them off the newest
        page (`behind`); without, the list then begins anew.

        Raises:
            StoreUnavailable: the store did not answer in time.
        """
        await self._read(inspector, "", hold)
        if first_visible > PAGE // 2 and self.rows:
            await self._read(inspector, self._last_cursor(min(first_visible, len(self.rows) - 1)))

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

    async def _read(self, inspector: Inspector, after: str, hold: bool = False) -> None:
        page = await inspector.jobs(self.where, PAGE, self.cursors[after], self.order)
        fresh = [job_line(job) for job in page.jobs]
        head = self.rows[: self.places[after] + 1] if after in self.places else []
        rest = self.rows[len(head) :]
        last = max(
            (self.places[row.id] - len(head) for row in fresh if self.places.get(row.id, -1) >= len(head)), default=-1
        )
        if hold and after == "" and rest and last < 0 and page.cursor is not None:
            self.behind = True
            return
        # Old rows up to the last one that came again are either in the new page or gone. Rows after it were pushed
        # out of the page by new ones; when not one came again nothing is known of them.
        tail = rest[last + 1 :] if last >= 0 and page.cursor is not None else []
        known = {row.id for row in fresh}
        self._renew([row for row in head if row.id not in known] + fresh + [row for row in tail if row.id not in known])
        if fresh and page.cursor is not None:
            self.cursors[fresh[-1].id] = page.cursor
        if not tail:
            self.complete = page.cursor is None
        self.loaded = True
        self.behind = self.behind and after != ""

    def _renew(self, rows: list[JobLine]) -> None:
        self.rows = rows
        self.places = {row.id: index for index, row in enumerate(rows)}
        self.cursors = {key: cursor for key, cursor in self.cursors.items() if key == "" or key in self.places}
