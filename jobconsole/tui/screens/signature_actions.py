"""What can be set of error signatures: A takes them; Z, V and W open their sheet."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from jobconsole.actions.states import FieldName, SignatureChoice, StateChange
from jobconsole.format.humanize import plural
from jobconsole.tui.base.host import change as start_change
from jobconsole.tui.screens.view import RowActions
from jobconsole.tui.widgets.detail import Detail
from jobconsole.tui.widgets.operations import OperationTable
from jobconsole.tui.widgets.signatures import SignatureTable
from queue_core.client.operations import this_author
from queue_core.errors import QueueCoreError
from queue_core.model.text import safe
from queue_core.model.triage.signatures import SignatureFacts

if TYPE_CHECKING:
    from queue_core.model.report import SignatureInfo

Shown = Mapping[str, SignatureFacts]
"""What was known of signatures, by their names, when a person decided on a change."""
ON_SIGNATURES = frozenset({"own", "mute", "resolve", "note"})


class StateActions(RowActions):
    """Open the sheet of some signatures, and set what it gives back."""

    def open(self, choice: SignatureChoice, field: FieldName) -> None:
        """Open the sheet at a field. It is loaded when it is first asked for."""
        from jobconsole.tui.sheets.state import StateSheet

        self.view.app.push_screen(StateSheet(choice, field), partial(self._save, choice, self._shown(choice.names)))

    def named(self, names: tuple[str, ...], label: str) -> SignatureChoice:
        """Return signatures with the jobs that are dead of them now; some may have died since their retry."""
        snapshot = self.console.model.snapshot
        rows = [row for row in snapshot.signatures if row.signature in names] if snapshot is not None else []
        types = tuple(dict.fromkeys(name for row in rows for name, _ in row.types))
        label = rows[0].title if len(names) == len(rows) == 1 else label
        return SignatureChoice(names, label, sum(row.count for row in rows), types)

    def _shown(self, names: tuple[str, ...]) -> Shown:
        snapshot = self.console.model.snapshot
        states = snapshot.states if snapshot is not None else {}
        return {name: states[name].facts for name in names if name in states}

    def _save(self, choice: SignatureChoice, shown: Shown, change: StateChange | None) -> None:
        if change is None:
            return
        if not change.verbs:
            self.notice.show("nothing was changed", "muted")
            return
        self.console.offer = None
        self.set(choice, shown, change)

    def set(self, choice: SignatureChoice, shown: Shown, change: StateChange) -> None:
        """Set something of signatures, of which so much was shown when that was decided."""
        start_change(self.view, "states", self._set, choice, shown, change)

    async def _set(self, choice: SignatureChoice, shown: Shown, change: StateChange) -> None:
        states, label = self.console.operator.states, safe(choice.label, 60)
        try:
            self.notice.show(await states.set(choice.names, label, change, shown), "good")
        except QueueCoreError as error:
            self.notice.fail(error)


class SignatureActions(StateActions):
    """Actions on the marked signatures, or the one under the cursor; V also on one whose retry has just succeeded."""

    @property
    def table(self) -> SignatureTable:
        """The list."""
        return self.view.query_one(SignatureTable)

    def missing(self) -> frozenset[str]:
        """There are none where neither signatures nor what is under their cursor have the focus."""
        return frozenset() if isinstance(self.view.pane, SignatureTable | Detail) else ON_SIGNATURES

    def refuses(self, action: str) -> str:
        """There has to be a signature."""
        if action not in ON_SIGNATURES or self._rows() or (action == "resolve" and self.console.offer is not None):
            return ""
        return self.table.nothing()

    def do_own(self) -> None:
        """Take them, or give them up where all are this user's."""
        choice, user = self._choice(), this_author().user
        shown = self._shown(choice.names)
        mine = all(name in shown and shown[name].owner == user for name in choice.names)
        self.set(choice, shown, StateChange(owner="" if mine else user))

    def do_mute(self) -> None:
        """Open the sheet at the mute."""
        self.open(self._choice(), "mute")

    def do_resolve(self) -> None:
        """Open the sheet at the release."""
        offer = self.console.offer
        self.open(self._choice() if offer is None else self.named(offer.names, offer.label), "resolve")

    def do_note(self) -> None:
        """Open the sheet at the note."""
        self.open(self._choice(), "note")

    def _rows(self) -> list[SignatureInfo]:
        selection = self.table.selection
        if selection.everything:
            return list(selection.rows)
        return list(selection.marks.values()) or ([selection.row] if selection.row is not None else [])

    def _choice(self) -> SignatureChoice:
        rows = self._rows()
        label = rows[0].title if len(rows) == 1 else plural(len(rows), "signature")
        types = tuple(dict.fromkeys(name for row in rows for name, _ in row.types))
        return SignatureChoice(tuple(row.signature for row in rows), label, sum(row.count for row in rows), types)


class RetriedActions(StateActions):
    """V on a retry of one signature: once its jobs have succeeded, the signature is resolved."""

    def missing(self) -> frozenset[str]:
        """There is none where no operation has the focus."""
        return frozenset({"resolve"}) if isinstance(self.view.pane, Detail) else frozenset()

    def refuses(self, action: str) -> str:
        """It has to be a retry of one signature."""
        line = self.view.query_one(OperationTable).selection.row
        if action != "resolve":
            return ""
        if line is None:
            return self.view.query_one(OperationTable).nothing()
        one = line.operation.request
        return "" if one.verb == "retry" and len(one.signatures) == 1 else "V resolves the signature of a retry"

    def do_resolve(self) -> None:
        """Open the sheet of its signature."""
        line = self.view.query_one(OperationTable).selection.row
        if line is None:
            return
        self.open(self.named(line.operation.request.signatures, line.label), "resolve")
