"""Types: how long their attempts run, and how many of them fail."""

from __future__ import annotations

from typing import ClassVar

from jobconsole.core.columns import TYPES, Spans
from jobconsole.core.humanize import elapsed, plural
from jobconsole.core.latency import TypeLine
from jobconsole.core.selection import Selection
from jobconsole.tui.widgets.table import Table


class TypeTable(Table[TypeLine]):
    """One line for each type that ended attempts, those that fail most first."""

    NEVER: ClassVar[dict[str, str]] = dict.fromkeys(
        ("retry", "delete", "edit", "move", "cancel", "open"), "choose a job, not a type"
    )

    empty = "no attempt has ended yet"
    cursor_always = False

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(TYPES, Selection(lambda line: line.type), id=id)

    def heading(self) -> Spans:
        """Title."""
        return (("Types", "title"), (f"  {plural(len(self.selection.rows), 'type')}", "muted"))

    def note(self) -> Spans:
        """Over which time."""
        seconds = self.console.model.latency.seconds
        return ((f"run time, last {elapsed(seconds)}" if seconds else "run time, all time", "muted"),)

    def flush(self) -> None:
        """Take over what the model knows now."""
        self.show(self.console.model.latency.lines())

    def do_copy(self) -> None:
        """Copy the type's name."""
        if self.selection.row is not None:
            self.console.copy(self.selection.row.type)
