"""What the application offers to screens and widgets, which do not know it otherwise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, cast

from textual.dom import DOMNode

if TYPE_CHECKING:
    from jobconsole.core.alerts import Watcher
    from jobconsole.core.columns import Moment
    from jobconsole.core.connection import Connection
    from jobconsole.core.context import Surroundings
    from jobconsole.core.glyphs import Glyphs
    from jobconsole.core.model import Model
    from jobconsole.core.operations import Plan, Target
    from jobconsole.tui.bindings import Standing
    from jobconsole.tui.operator import Operator
    from jobconsole.tui.refresher import Refresher
    from jobconsole.tui.themes import Palette
    from queue_core.filters import Filter
    from queue_core.inspection import SignatureInfo


class Host(Protocol):
    """The application as its parts see it."""

    connection: Connection
    model: Model
    refresher: Refresher
    operator: Operator
    glyphs: Glyphs
    # where the jobs are that are shown
    context: Surroundings
    # says which thresholds were crossed
    watcher: Watcher
    # the picture is held still
    frozen: bool
    # when an action was last performed, by this process's steady clock
    last_key: float

    @property
    def palette(self) -> Palette:
        """The styles of the theme."""
        ...

    @property
    def place(self) -> str:
        """The id of the action that leads to the view on the screen."""
        ...

    def moment(self) -> Moment:
        """Return what drawing depends on."""
        ...

    def hint_for(self, group: SignatureInfo) -> str:
        """Return how to repair what killed this group; "" when nobody said."""
        ...

    def standing(self, small: bool) -> Standing:
        """Return what decides which actions are possible now."""
        ...

    def say(self, text: str, tone: str = "text") -> None:
        """Show a sentence in the line above the keys."""
        ...

    def copy(self, text: str) -> None:
        """Copy a text to the clipboard of the terminal."""
        ...

    def alarm(self, sentences: list[str]) -> None:
        """Tell somebody who looks elsewhere that thresholds were crossed."""
        ...

    async def pause(self, seconds: float) -> None:
        """Wait; for reads that are given up when the cursor moves on."""
        ...

    def carry_out(self, plan: Plan | None) -> None:
        """Carry a plan out that a sheet gave back."""
        ...

    def export(self, target: Target) -> None:
        """Write jobs into a file, once it was said as what."""
        ...

    def open_jobs(self, where: Filter, text: str) -> None:
        """Go to the jobs that match a filter; `text` is how it is shown."""
        ...

    def refusal_shown(self, action: str) -> str | None:
        """Return why an action is off, for the key bar; None when it has no place there."""
        ...

    def perform(self, action: str) -> None:
        """Carry an action out, or say why it is off."""
        ...


def host_of(node: DOMNode) -> Host:
    """Return the application of a screen or widget."""
    return cast(Host, node.app)
