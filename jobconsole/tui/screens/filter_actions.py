"""What can be done with the filter of a view: search the texts that it asks for, and keep it under a name."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from jobconsole.format.words import found_where, searched_phrase
from jobconsole.tui.base.host import spawn
from jobconsole.tui.screens.view import RowActions, View
from queue_core.client.finding.search import SEARCH_SECONDS, SearchProgress
from queue_core.errors import FilterError, QueueCoreError
from queue_core.model.filters import Filter, parse
from queue_core.model.filters.saved import LONGEST_SAVED
from queue_core.model.text import safe

if TYPE_CHECKING:
    from jobconsole.tui.sheets.saved import SavedChoice


LOOKED_UP = frozenset({"text", "owner", "state"})
"""Fields that are looked up before a list can be read, which may be too much."""


class FilterActions(RowActions):
    """Searches go on for a while, and again with Enter; saved filters are those of the store."""

    def __init__(self, view: View) -> None:
        super().__init__(view)
        # the filter of the last search, whether it has ended, and how many there were
        self._searched, self._ended = Filter(), True
        self._searches = 0

    # -- searches

    def search(self, where: Filter) -> None:
        """Search the texts that a filter of the view asks for, from the newest death on."""
        self._search(where, again=True)

    def search_on(self) -> None:
        """Go on with that search; where it has ended, search again."""
        self._search(self._searched, again=self._ended)

    def search_again(self) -> None:
        """Search the same again, from the newest death on."""
        self._search(self._searched, again=True)

    def _search(self, where: Filter, again: bool) -> None:
        self._searches, self._searched, self._ended = self._searches + 1, where, False
        if not any(term.field == "text" for term in where.terms):
            self.view.searched("")
        if any(term.field in LOOKED_UP for term in where.terms):
            spawn(self.view, "search", self._go_on, where, again, self._searches)

    async def _go_on(self, where: Filter, again: bool, number: int) -> None:
        ends = time.monotonic() + SEARCH_SECONDS
        # A later one takes its place: it then stops between two pages.
        while number == self._searches:
            found, problem = await self._found(where, again)
            if number != self._searches:
                # What it has come to is about no filter that still holds.
                return
            if problem:
                self.notice.show(problem, "warn")
                return
            again = False
            self._ended = ended = found is None or found.done or found.full
            if found is not None:
                self.view.searched(found_where(found))
                self.notice.show(f"{searched_phrase(found)}{'' if ended else '; / Enter goes on'}", "muted")
            if ended or time.monotonic() >= ends:
                return

    async def _found(self, where: Filter, again: bool) -> tuple[SearchProgress | None, str]:
        """Search for a moment; return how far that came, and why it could not be done, "" where it could."""
        try:
            return await self.console.refresher.search(where, again), ""
        except QueueCoreError as error:
            return None, str(error)

    # -- saved filters

    def do_saved(self) -> None:
        """Read the saved filters of the store, and offer them."""
        self.console.open_with(spawn(self.view, "saved", self._offer_saved))

    async def _offer_saved(self) -> None:
        # It is loaded when it is first asked for.
        from jobconsole.tui.sheets.saved import SavedSheet

        try:
            saved = await self.console.refresher.saved_filters()
        except QueueCoreError as error:
            self.notice.fail(error)
            return
        self.view.app.push_screen(SavedSheet(saved, self.view.filter_line.text), self._use_saved)

    def _use_saved(self, choice: SavedChoice | None) -> None:
        if choice is None:
            return
        if choice.apply is None:
            spawn(self.view, "save-filter", self._save_filter, choice.save_as, self.view.filter_line.text)
            return
        try:
            self.view.filter_line.hold(parse(choice.apply.text), safe(choice.apply.text, LONGEST_SAVED))
        except FilterError as error:
            self.notice.show(f"this version cannot read that filter: {error.reason}", "bad")

    async def _save_filter(self, name: str, text: str) -> None:
        try:
            self.notice.show(await self.console.operator.states.save_filter(name, text), "good")
        except QueueCoreError as error:
            self.notice.fail(error)
