"""Searches of texts in dead jobs: pages are looked at for as long as a caller wants, and what was found is kept."""

from __future__ import annotations

import asyncio
import time
from typing import NamedTuple

from queue_core.model.filters import Filter
from queue_core.ports.inspector import Inspector

SEARCH_SECONDS = 2.0
"""How long a person waits for a search at a time."""
MAX_FOUND = 10_000
"""Jobs that a search finds at most."""
MIN_PAGE, MAX_PAGE, PAGE_SECONDS = 500, 10_000, 0.1
"""Jobs of a page, and how long reading one should take: so long the store is busy with it."""


class SearchProgress(NamedTuple):
    """How far a search has come."""

    # jobs that were found
    found: int
    # jobs that were looked at, and all that there were when it began
    looked_at: int
    total: int
    # nothing is left to look at
    done: bool
    # so many were found that it goes no further
    full: bool
    # seconds since the epoch at which it began; later deaths are not looked at
    began: float

    @property
    def whole(self) -> bool:
        """Whether everything that there was has been looked at."""
        return self.done and not self.full


class TextSearch:
    """One search, from the newest death on."""

    def __init__(self, inspector: Inspector, where: Filter) -> None:
        self._inspector = inspector
        self._where = where
        self._found: dict[str, None] = {}
        self._looked_at = self._total = 0
        self._cursor: str | None = None
        self._done = False
        self._size = MIN_PAGE
        self._lock = asyncio.Lock()
        self._began = time.time()

    @property
    def progress(self) -> SearchProgress:
        """How far it has come."""
        full = len(self._found) >= MAX_FOUND
        total = max(self._total, self._looked_at)
        return SearchProgress(len(self._found), self._looked_at, total, self._done, full, self._began)

    @property
    def ids(self) -> list[str]:
        """The jobs that were found, the newest first."""
        return list(self._found)

    @property
    def ended(self) -> bool:
        """Whether it goes no further."""
        return self._done or len(self._found) >= MAX_FOUND

    async def begin(self) -> SearchProgress:
        """Look at the first page, unless others have."""
        async with self._lock:
            if not self._looked_at and not self.ended:
                await self._page()
        return self.progress

    async def go_on(self, seconds: float | None = SEARCH_SECONDS) -> SearchProgress:
        """Look at pages for so many seconds, at one at least; None: at all that is left.

        Raises:
            StoreUnavailable: a page could not be read; what was found before stays.
        """
        async with self._lock:
            ends = None if seconds is None else time.monotonic() + seconds
            while not self.ended:
                took = await self._page()
                if ends is not None and time.monotonic() + took > ends:
                    break
        return self.progress

    async def _page(self) -> float:
        """Look at the next page; return the seconds that it took."""
        began = time.monotonic()
        page = await self._inspector.search(self._where, self._size, self._cursor)
        self._found.update(dict.fromkeys(page.ids))
        self._looked_at += page.looked_at
        self._total = max(self._total, page.total)
        self._cursor, self._done = page.cursor, page.cursor is None
        took = time.monotonic() - began
        if took < PAGE_SECONDS / 2:
            self._size = min(2 * self._size, MAX_PAGE)
        elif took > 2 * PAGE_SECONDS:
            self._size = max(self._size // 2, MIN_PAGE)
        return took
