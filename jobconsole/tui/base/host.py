"""The interface of the application to screens and widgets, which do not import it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine, Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, Self, cast

from textual.dom import DOMNode
from textual.timer import Timer
from textual.widget import Widget
from textual.worker import Worker

from queue_core.model.report import SignatureInfo

if TYPE_CHECKING:
    from jobconsole.actions.plan import Plan, Target
    from jobconsole.actions.states import SignatureChoice
    from jobconsole.core.connection import Connection, ContextInfo
    from jobconsole.core.contexts import Places
    from jobconsole.core.model import Model
    from jobconsole.core.snapshot import Snapshot
    from jobconsole.format.glyphs import Glyphs
    from jobconsole.format.spans import RenderContext
    from jobconsole.tui.base.bindings import Availability
    from jobconsole.tui.base.operator import Operator
    from jobconsole.tui.base.refresher import Refresher
    from jobconsole.tui.base.themes import Palette
    from queue_core.model.filters import Filter


P = ParamSpec("P")


class Navigator(Protocol):
    """Navigation to other places, and output to the clipboard or a file."""

    def open_jobs(self, where: Filter, text: str) -> None:
        """Go to the jobs that match a filter; `text` is how it is shown."""
        ...

    def copy(self, text: str, what: str = "") -> None:
        """Copy a text to the clipboard of the terminal; the notice names `what` it is."""
        ...

    def copy_signature(self, signature: str) -> None:
        """Copy the runbook of a signature; when pressed again, and where it has none, its id."""
        ...

    def copy_commands(self, commands: Sequence[Sequence[str]]) -> None:
        """Copy commands, on the context that is shown, as one line for a shell."""
        ...

    def export(self, target: Target) -> None:
        """Write jobs into a file, after a question in which format."""
        ...


class Host(Protocol):
    """The application as its parts see it."""

    connection: Connection
    model: Model
    refresher: Refresher
    operator: Operator
    glyphs: Glyphs
    # where the jobs are that are shown
    context: ContextInfo
    # goes from place to place
    navigation: Navigator
    # the contexts that there are
    places: Places
    # the picture is held still
    frozen: bool
    # when an action was last performed, by this process's steady clock
    last_key: float
    # one was
    touched: bool
    # the signature whose retry has succeeded, until another key is pressed; and the retries for which that was offered
    offer: SignatureChoice | None
    offered: set[int]

    @property
    def palette(self) -> Palette:
        """The styles of the theme."""
        ...

    @property
    def place(self) -> str:
        """The id of the action that leads to the view on the screen."""
        ...

    def render_context(self) -> RenderContext:
        """Return what drawing depends on."""
        ...

    def hint_for(self, group: SignatureInfo) -> str:
        """Return how to repair what killed this group; "" when there is no hint."""
        ...

    def availability(self, small: bool) -> Availability:
        """Return what decides which actions are possible now."""
        ...

    def show_notice(self, text: str, tone: str = "text") -> None:
        """Show a sentence in the line above the keys."""
        ...

    def alarm(self, snapshot: Snapshot) -> None:
        """Note which thresholds were crossed, and which signatures are new or back; ring and notify as configured."""
        ...

    async def pause(self, seconds: float) -> None:
        """Wait; for reads that are given up when the cursor moves on."""
        ...

    def run_plan(self, plan: Plan | None) -> None:
        """Carry a plan out that a sheet gave back."""
        ...

    def refusals_shown(self) -> Callable[[str], str | None]:
        """Return why each action is off now, for the key bar; None for one that has no place there."""
        ...

    def perform(self, action: str) -> None:
        """Carry an action out, or show why it is off."""
        ...

    def choose(self, action: str, first: bool = False) -> None:
        """Carry an action out that was clicked, once what came before has had its effect."""
        ...

    def change_with(self, changing: Worker[None]) -> None:
        """Have keys that change something wait for a change and for what is read after it."""
        ...

    def open_with(self, opening: Worker[None]) -> None:
        """Have keys wait for work that opens a screen once it has read what that shows."""
        ...


def host_of(node: DOMNode) -> Host:
    """Return the application of a screen or widget."""
    return cast(Host, node.app)


def spawn(
    node: DOMNode, group: str, work: Callable[P, Coroutine[Any, Any, None]], /, *args: P.args, **kwargs: P.kwargs
) -> Worker[None]:
    """Start work of a node; it is cancelled with the node."""
    # A function, not a coroutine: one that is never started would be a warning.
    return _run(node, group, partial(work, *args, **kwargs), exclusive=False)


def change(
    node: DOMNode, group: str, work: Callable[P, Coroutine[Any, Any, None]], /, *args: P.args, **kwargs: P.kwargs
) -> None:
    """Start work that changes something; the next key that does acts on what is read after it."""

    async def change_and_read() -> None:
        await work(*args, **kwargs)
        await host_of(node).refresher.read_again()

    host_of(node).change_with(_run(node, group, change_and_read, exclusive=False))


def replace(
    node: DOMNode, group: str, work: Callable[P, Coroutine[Any, Any, None]], /, *args: P.args, **kwargs: P.kwargs
) -> Worker[None]:
    """Start work of a node in place of what runs in its group, which is cancelled."""
    return _run(node, group, partial(work, *args, **kwargs), exclusive=True)


END_SECONDS = 3.0
"""Seconds that a console which is left waits for cancelled work, which takes back what it has begun in the store."""


async def end(node: DOMNode, group: str) -> None:
    """Wait for a moment for the end of a group's work that was cancelled."""
    tasks = [worker._task for worker in node.workers if worker.group == group and worker._task is not None]
    if tasks:
        await asyncio.wait(tasks, timeout=END_SECONDS)


def sure(timer: Timer) -> Timer:
    """Return a timer that was just set, and have it ring late rather than never.

    Textual's timers leave out what they are late for. One that rings once is lost by that, if the processor is taken
    from this process for its time between the two looks at the clock that it begins with.
    """
    timer._skip = False
    return timer


class Renewal:
    """Reads one thing at a time, and once more after that if another read was requested meanwhile.

    A read that takes longer than the time between two requests for it would never complete otherwise. A request
    for another thing starts at once.
    """

    def __init__(self, node: DOMNode, group: str) -> None:
        self._node, self._group = node, group
        # what is being read; None: nothing
        self._about: Hashable = None
        self._again = False

    def read(self, about: Hashable, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Start `work`, or run it again after one that runs for the same `about` (the thing's identity, not None)."""
        if self._about == about:
            self._again = True
            return
        self._about, self._again = about, False
        replace(self._node, self._group, self._read, about, work)

    async def _read(self, about: Hashable, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            await work()
            while self._again and self._about == about:
                self._again = False
                await work()
        finally:
            if self._about == about:
                self._about = None


def _run(node: DOMNode, group: str, work: Callable[[], Coroutine[Any, Any, None]], exclusive: bool) -> Worker[None]:
    async def guarded() -> None:
        try:
            await work()
        except Exception as error:  # noqa: BLE001 - it must neither end the application nor pass unseen
            host = host_of(node)
            host.refresher.problem = f"{group}: {type(error).__name__}: {error}"
            host.show_notice(host.refresher.problem, "bad")

    return node.run_worker(cast(Any, guarded), name=group, group=group, exclusive=exclusive, exit_on_error=False)


_NAMED = re.compile(r"(?:repair )?(?P<about>[\w.-]+): (?P<text>.+)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Hint:
    """One line of advice."""

    text: str
    # shown with the signatures whose title, types or queues contain this; "" = with none, only in the help
    about: str = ""

    @classmethod
    def parse(cls, line: str) -> Self:
        """Return the advice in `type: what to do`, or in a line about nothing in particular."""
        match = _NAMED.fullmatch(line)
        return cls(match["text"], match["about"]) if match else cls(line)

    @property
    def line(self) -> str:
        """The advice with what it is about."""
        return f"{self.about}: {self.text}" if self.about else self.text


def hint_of(hints: Sequence[Hint], group: SignatureInfo) -> str:
    """Return the first advice about a group of dead jobs; "" when there is none."""
    names = " ".join((group.title, *(name for name, _ in group.types), *group.queues)).lower()
    return next((hint.text for hint in hints if hint.about and hint.about.lower() in names), "")


NARROW = 100
"""Columns under which there is one pane at a time, with titles instead of frames."""


def displayed(widget: Widget) -> bool:
    """Return whether a widget and everything around it is on the screen."""
    return all(node.display for node in widget.ancestors_with_self if isinstance(node, Widget))
