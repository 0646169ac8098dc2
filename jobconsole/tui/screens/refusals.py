"""Why actions are off in a view: at one moment, for as many of them as a drawing shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobconsole.actions.plan import NOT_CANCELLED
from jobconsole.present.job import BREAKDOWN
from jobconsole.tui.base.bindings import BY_ID, refusal
from jobconsole.tui.base.undo import NOTHING_TO_UNDO
from jobconsole.tui.widgets.detail import Detail
from jobconsole.tui.widgets.table import Table

if TYPE_CHECKING:
    from jobconsole.tui.screens.view import View

NOT_IN_TRASH = "only jobs in the trash can be brought back: it is the last tab of 3"
NOTHING_FURTHER = "nothing further to open; Esc goes back"
SHEETLESS = frozenset({"undo", "pause", "quiet", "own"})
"""Changes that need no room for a sheet."""
OPENS = frozenset({"open", "full", "compare"})


class Refusals:
    """Why actions are off now. What is the same for all of them is worked out once: each key draws a bar of thirty."""

    def __init__(self, view: View) -> None:
        self._view, self._pane = view, view.pane
        self._missing = view.missing()
        self._availability = view.console.availability(view.small)

    def of(self, action: str) -> str | None:
        """Why an action is off; "" when it is on, None when there is no such thing here."""
        view, pane, one = self._view, self._pane, BY_ID[action]
        owner = view.owner(action)
        if action == "undo" and owner is view.console and not view.console.operator.undoable:
            return refusal(one, view.console.availability(False)) or NOTHING_TO_UNDO
        if owner is None or action in self._missing:
            return None
        reason = refusal(one, self._availability)
        if not reason and one.changes and action not in SHEETLESS:
            reason = view.cramped
        reason = reason or self._never(action) or (pane.refuses(action) if pane is not None else "")
        if not reason and action in OPENS and isinstance(pane, Table) and pane.selection.row is None:
            # Without a row, what opens would be about more than was chosen.
            return pane.nothing()
        return reason or next((why for rows in view.rows if (why := rows.refuses(action))), "")

    def shown(self, action: str) -> str | None:
        """The same for the key bar and the help, which leave out what never makes sense in the pane with the focus."""
        never = self._never(action) or (BY_ID[action].changes and self._view.cramped)
        if never or (action == "back" and not self._view.can_go_back()):
            return None
        return self.of(action)

    def _never(self, action: str) -> str:
        """Why an action makes no sense in the pane with the focus, on whichever row; "" when it may."""
        pane = self._pane
        if action == "restore" and (pane is None or not pane.in_trash):
            return NOT_IN_TRASH
        if action == "cancel" and isinstance(pane, Detail) and pane.subject.group is not None:
            return NOT_CANCELLED
        if action == "open" and isinstance(pane, Detail) and pane.tab != BREAKDOWN:
            return NOTHING_FURTHER
        return "" if pane is None else pane.NEVER.get(action, "")
