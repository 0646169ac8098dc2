"""The frame of every view: header, panes, a line for sentences and the filter, the keys; stages and the focus."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.reactive import var
from textual.screen import Screen

from jobconsole.tui.base.bindings import Action
from jobconsole.tui.base.host import NARROW, Host, displayed, host_of
from jobconsole.tui.widgets.filterline import FilterLine
from jobconsole.tui.widgets.footer import KeyBar, Notice
from jobconsole.tui.widgets.header import Header
from jobconsole.tui.widgets.pane import LineWidget, Pane, TooSmall
from jobconsole.tui.widgets.table import Table

LEAST = (40, 10)
"""Columns and lines that a view needs."""
ROOMY = (72, 20)
"""Columns and lines from which a view shows more than a list and what is under its cursor."""
SHEETS = 18
"""Lines from which there is room for a sheet."""
MEDIUM, TALL = 150, 32
"""Columns from which a screen is wide, lines from which it is tall."""


class ViewFrame(Screen[None], inherit_bindings=False):
    """A screen of panes. They belong to stages: narrow screens show one stage at a time, wide ones all of them."""

    AUTO_FOCUS = ""

    # pane id -> its stage
    STAGES: ClassVar[dict[str, str]] = {}
    # stages from the outermost inwards; `open` goes in, `back` goes out
    ORDER: ClassVar[tuple[str, ...]] = ("home",)

    stage = var("home", init=False)
    # its widgets are there
    complete = False

    @property
    def console(self) -> Host:
        """The application."""
        return host_of(self)

    @property
    def narrow(self) -> bool:
        """Whether there is one pane at a time."""
        return self.size.width < NARROW or self.compact

    @property
    def compact(self) -> bool:
        """Whether there is room for a list and little else."""
        return self.size.width < ROOMY[0] or self.size.height < ROOMY[1]

    @property
    def small(self) -> bool:
        """Whether there is too little room for anything."""
        return self.size.width < LEAST[0] or self.size.height < LEAST[1]

    @property
    def cramped(self) -> str:
        """Why nothing can be changed on a screen of this size; "" when it can."""
        if self.size.height >= SHEETS:
            return ""
        return f"the sheet needs {SHEETS} lines; there are {self.size.height}"

    def label_of(self, action: Action, width: int) -> str:
        """Return what the key bar of this width shows beside a key."""
        return action.label

    def panes(self) -> ComposeResult:
        """Yield the panes, in the order of the Tab key."""
        raise NotImplementedError

    def foot(self) -> ComposeResult:
        """Yield what is shown below all panes, over the whole width."""
        yield from ()

    def compose(self) -> ComposeResult:
        """The frame of every view."""
        yield Header(id="header")
        with Vertical(id="body"):
            yield from self.panes()
        yield from self.foot()
        yield FilterLine(id="filter")
        yield Notice(id="notice")
        yield KeyBar(self.label_of, id="keys")
        yield TooSmall(LEAST, id="small")

    def on_mount(self) -> None:
        self.complete = True
        self._visited: list[tuple[str, Pane]] = []
        self.add_class(f"-stage-{self.stage}")
        for pane in self.shown():
            pane.focus()
            break

    @property
    def pane(self) -> Pane | None:
        """The pane with the focus."""
        focused = self.focused
        return focused if isinstance(focused, Pane) else self._last_pane

    _last_pane: Pane | None = None
    # a pane that a size has hidden while it had the focus, and the one that has it instead
    _displaced: tuple[Pane, Pane | None] | None = None

    @property
    def notice(self) -> Notice:
        """The line for sentences."""
        return self.query_one(Notice)

    @property
    def filter_line(self) -> FilterLine:
        """The line in which a filter is written."""
        return self.query_one(FilterLine)

    def shown(self) -> list[Pane]:
        """The panes that are on the screen and can have the focus, in the order of the Tab key."""
        return [pane for pane in self.query(Pane) if pane.can_focus and pane.reachable and displayed(pane)]

    def line_widgets(self) -> Iterator[LineWidget]:
        """The widgets that are on the screen."""
        return (widget for widget in self.query(LineWidget) if displayed(widget))

    def expect_gone(self, keys: Sequence[str]) -> None:
        """Have the cursors move to the next row when these rows are removed."""
        for table in self.query(Table):
            table.selection.expect_gone(keys)

    def repaint_all(self) -> None:
        """Draw everything again."""
        for widget in self.query(LineWidget):
            widget.repaint_all()

    def on_resize(self, event: events.Resize) -> None:
        width, height = event.size
        before = self.pane
        sizes = {
            "-narrow": self.narrow,
            "-medium": not self.narrow and width < MEDIUM,
            "-wide": not self.narrow and width >= MEDIUM,
            "-short": height < TALL,
            "-tall": height >= TALL,
            "-compact": self.compact,
            "-low": height < SHEETS,
        }
        self.update_classes(sizes, animate=False)
        for pane in self.query(Pane):
            pane.set_class(self.narrow, "-open")
        self.query_one(TooSmall).display = self.small
        self.call_after_refresh(self._keep_focus_of, before)

    def on_descendant_focus(self) -> None:
        focused = self.focused
        if isinstance(focused, Pane):
            self._last_pane = focused
            self.pane_entered(focused)

    def pane_entered(self, pane: Pane) -> None:
        """The focus came to a pane."""
        if not self.narrow and pane.id in self.STAGES:
            self.stage = self.STAGES[pane.id]

    def keep_focus(self) -> None:
        """Have the focus on a pane that is on the screen."""
        shown = self.shown()
        if shown and self.focused not in shown and not self.filter_line.is_open:
            stage = [pane for pane in shown if self.STAGES.get(pane.id or "") == self.stage]
            self.set_focus((stage or shown)[0])

    def _keep_focus_of(self, before: Pane | None) -> None:
        """Have the focus on the pane that had it before another size, or had it before a size that hides it."""
        pane, instead = self._displaced or (before, before)
        if before is not instead:
            # The user has moved it since.
            pane = before
        shown = self.shown()
        if pane in shown:
            self._displaced = None
            if pane is not before:
                self.set_focus(pane)
        elif pane is not None and before not in shown:
            self.keep_focus()
            self._displaced = (pane, self.pane)

    def watch_stage(self, before: str, after: str) -> None:
        self.remove_class(f"-stage-{before}")
        self.add_class(f"-stage-{after}")
        self.call_after_refresh(self.keep_focus)

    def enter(self, stage: str) -> None:
        """Go in to a stage: the focus goes to its first pane, and `leave` comes back here."""
        if self.pane is not None:
            self._visited.append((self.stage, self.pane))
        self._go(stage)

    def leave(self) -> None:
        """Go back to where `enter` came from, or one stage outwards."""
        if self._visited:
            self._go(*self._visited.pop())
        else:
            self._go(self.ORDER[max(0, self.ORDER.index(self.stage) - 1)])

    def forget_visited(self) -> None:
        """Have `leave` go outwards only: the focus was moved by itself."""
        self._visited.clear()

    def _go(self, stage: str, pane: Pane | None = None) -> None:
        if stage != "detail":
            self.remove_class("-full")
        self.stage = stage
        of_stage = [one for one in self.query(Pane) if one.can_focus and self.STAGES.get(one.id or "") == stage]
        for one in [pane] if pane is not None else of_stage[:1]:
            one.focus()
