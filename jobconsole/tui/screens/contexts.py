"""All contexts on one screen, each read on its own connection; Enter goes to one."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen

from jobconsole.core.contexts import EVERY_SECONDS, ContextLine, Places
from jobconsole.format import humanize
from jobconsole.format.spans import Line, RenderContext, Spans, wrap
from jobconsole.present.columns import LATE, number
from jobconsole.present.layout import Column
from jobconsole.tui.base.host import Host, host_of, spawn
from jobconsole.tui.widgets.pane import Drawn
from jobconsole.tui.widgets.table import Table


def _count(value: int | None, tone: str = "text", width: int = 6) -> Spans:
    return (("?", "faint"),) if value is None else number(value, width, tone)


def _grown(line: ContextLine, context: RenderContext) -> Spans:
    if not line.grown:
        return _count(line.grown)
    return ((f"+{humanize.short(line.grown)}", "warn"),)


def _workers(line: ContextLine, context: RenderContext) -> Spans:
    if line.workers is None:
        return (("?", "faint"),)
    return ((f"{line.workers}/{line.workers + line.lost_workers}", "bad" if line.lost_workers else "text"),)


def _releases(line: ContextLine, context: RenderContext) -> Spans:
    if line.workers is None:
        return (("?", "faint"),)
    return ((" ".join(line.releases), "muted"),)


def _oldest(line: ContextLine, context: RenderContext) -> Spans:
    if line.now is None:
        return (("?", "faint"),)
    seconds = humanize.seconds_between(line.oldest, line.now)
    if seconds is None:
        return (("-", "faint"),)
    late = seconds >= LATE
    return ((humanize.age(seconds) + (context.glyphs.alert if late else ""), "warn" if late else "text"),)


def _store(line: ContextLine, context: RenderContext) -> Spans:
    if line.state == "lost":
        return ((f"{context.glyphs.alert} lost {humanize.elapsed(line.lost_seconds)}", "bad"),)
    if line.state == "connecting" or line.latency is None:
        return ((f"{context.glyphs.ellipsis}", "muted"),)
    return ((f"{context.glyphs.ok} {line.latency * 1000:.0f}ms", "good"),)


CONTEXTS: tuple[Column[ContextLine], ...] = (
    Column("CONTEXT", 15, lambda line, context: ((line.info.word or line.name or "(none)", "strong"),), flex=True),
    Column("QUEUED", 6, lambda line, context: _count(line.queued), right=True, need=4),
    Column("DEAD", 6, lambda line, context: _count(line.dead, "bad"), right=True),
    Column("15m", 5, _grown, right=True, need=2),
    Column("NEW", 3, lambda line, context: _count(line.new, "warn", 3), right=True),
    Column("REGR", 4, lambda line, context: _count(line.regressed, "bad", 4), right=True, need=3),
    Column("WORKER", 6, _workers, right=True, need=5),
    Column("RELEASE", 9, _releases, need=7),
    Column("OLD", 4, _oldest, right=True, need=6),
    Column("STORE", 10, _store),
)


class ContextTable(Table[ContextLine]):
    """One line for each context, in the order of the configuration."""

    empty = "no contexts are configured"

    def __init__(self) -> None:
        super().__init__(CONTEXTS, lambda line: line.name, id="contexts")

    def heading(self) -> Spans:
        """Title with how many there are."""
        return (("Contexts", "title"), (f"  {len(self.selection.rows)}", "muted"))

    def note(self) -> Spans:
        """How often they are read."""
        return ((f"each read every {EVERY_SECONDS:g} s, on its own connection", "muted"),)


class ContextsScreen(ModalScreen[str | None]):
    """Gives back the name of the context to go to; None: to stay."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,0", "dismiss", "go back"),
        Binding("enter", "choose", "go to it"),
        Binding("down,j", "move(1)", show=False),
        Binding("up,k", "move(-1)", show=False),
    ]

    def __init__(self, places: Places, here: str) -> None:
        """`here`: the context that the console shows."""
        super().__init__()
        self._places, self._here = places, here
        self._readers = places.readers()

    @property
    def console(self) -> Host:
        """The application."""
        return host_of(self)

    def compose(self) -> ComposeResult:
        """The table, and what a change does in the present context."""
        yield ContextTable()
        yield Drawn(self._words, id="contexts-words")

    def on_mount(self) -> None:
        table = self.query_one(ContextTable)
        table.set_class(self.app.size.width < 100, "-open")
        table.focus()
        self._show()
        names = [reader.line.name for reader in self._readers]
        table.move_to(names.index(self._here) if self._here in names else 0)
        for reader in self._readers:
            spawn(self, f"context-{reader.line.name}", reader.run, self._show)

    def _show(self) -> None:
        table = self.query_one(ContextTable)
        table.show([reader.line for reader in self._readers], follow=False)
        self.query_one("#contexts-words", Drawn).repaint()

    def _words(self, width: int, height: int) -> list[Line]:
        row = self.query_one(ContextTable).selection.row
        lines: list[Line] = []
        if row is not None and row.error:
            lines += [((f" {part}", "warn"),) for part in wrap(row.error, max(8, width - 2), 2)]
        if self._places.unnamed:
            text = "none was named on the command line: a verb that changes something asks"
            lines += [((f" {part}", "warn"),) for part in wrap(text, max(8, width - 2))]
        keys: Line = ((" Enter", "key"), (" goes to it  ", "text"), ("Esc", "key"), (" stays", "text"))
        return [*lines[: max(0, height - 1)], keys]

    def action_move(self, step: int) -> None:
        """Move the cursor."""
        self.query_one(ContextTable).move(step)
        self.query_one("#contexts-words", Drawn).repaint()

    def action_choose(self) -> None:
        """Go to the context under the cursor, unless it is shown already."""
        row = self.query_one(ContextTable).selection.row
        self.dismiss(None if row is None or row.name == self._here else row.name)
