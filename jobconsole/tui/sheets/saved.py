"""The saved filters of the store: one is applied, or the present filter saved under a name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical

from jobconsole.format.humanize import moment_of
from jobconsole.format.spans import Line, fit, wrap
from jobconsole.tui.sheets.sheet import Sheet
from jobconsole.tui.widgets.fields import Field, Push, TextField
from jobconsole.tui.widgets.pane import Drawn
from queue_core.errors import InvalidArgument
from queue_core.model.filters.saved import SavedFilter, check_saved_name
from queue_core.model.text import safe

SHOWN_FILTERS = 8
"""Filters that are shown at a time."""
NOTHING_TO_SAVE = "no filter holds that could be saved: / writes one"
NAME_CELLS = 20
"""Cells of a name."""


class SavedChoice(NamedTuple):
    """What was decided: a filter to apply, or the name under which the present one is saved."""

    apply: SavedFilter | None = None
    save_as: str = ""


class SavedSheet(Sheet[SavedChoice]):
    """Enter applies the chosen filter while no name is typed."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down", "step(1)", "next", show=False),
        Binding("up", "step(-1)", "previous", show=False),
    ]

    def __init__(self, saved: Sequence[SavedFilter], present: str) -> None:
        """`present`: the filter that holds, as text."""
        super().__init__()
        self._saved = list(saved)
        self._present = present
        self._at = 0

    def compose(self) -> ComposeResult:
        """The filters, a name, what Enter does, the buttons."""
        with Vertical(id="move"):
            yield Drawn(self._list, id="saved-list")
            yield TextField("save as", "", id="saved-name", empty="")
            yield Drawn(self._words_below, id="saved-words")
            yield from self.buttons(go="Apply")

    def on_mount(self) -> None:
        self.query_one("#move").border_title = f"Saved filters  {len(self._saved)}"
        self.query_one("#saved-list").styles.height = max(1, min(SHOWN_FILTERS, len(self._saved))) + 1
        self.query_one("#saved-words").styles.height = 3
        self.query_one(TextField).focus()
        self.offer_command()

    def action_step(self, step: int) -> None:
        """Choose the next filter."""
        self._at = max(0, min(len(self._saved) - 1, self._at + step))
        self._settle()

    @on(Field.Changed)
    def check_again(self) -> None:
        """Show what Enter does now."""
        self._settle()

    @on(Field.Left)
    def confirm(self) -> None:
        """Save under the name, or apply the chosen filter."""
        self.go("go")

    def go(self, button: str) -> None:
        """Save under the name that is typed, else apply the chosen filter."""
        name = self._typed
        if not name:
            if self._saved:
                self.dismiss(SavedChoice(apply=self._saved[self._at]))
            return
        if self._refusal(name):
            self._settle()
        else:
            self.dismiss(SavedChoice(save_as=name))

    def _refusal(self, name: str) -> str:
        """Why the present filter cannot be saved under a name; "" when it can."""
        if reason := self.console.operator.unchangeable:
            return f"saving is disabled: {reason}"
        if not self._present:
            return NOTHING_TO_SAVE
        try:
            check_saved_name(name)
        except InvalidArgument as error:
            return str(error)
        return ""

    def commands(self) -> list[list[str]]:
        """Saving the present filter, or the list."""
        if self._typed and self._present:
            return [["filter", "save", "--", self._typed, self._present]]
        return [["filter", "list"]]

    @property
    def _typed(self) -> str:
        return self.query_one(TextField).typed.strip()

    def _settle(self) -> None:
        for one in self.query(Drawn):
            one.repaint()
        go = self.query_one("#go", Push)
        go.put("Save" if self._typed else "Apply")

    # -- drawing

    def _list(self, width: int, height: int) -> list[Line]:
        if not self._saved:
            return [(("none is saved yet", "muted"),), ()]
        rows = min(SHOWN_FILTERS, len(self._saved))
        first = max(0, min(self._at - rows // 2, len(self._saved) - rows))
        return [*(self._row(place, width) for place in range(first, first + rows)), ()]

    def _row(self, place: int, width: int) -> Line:
        saved, here = self._saved[place], place == self._at
        ellipsis = self.console.glyphs.ellipsis
        mark = f"{self.console.glyphs.cursor if here else ' '} "
        name = fit(((safe(saved.name, 64), "strong" if here else "text"),), NAME_CELLS - 1, ellipsis=ellipsis)
        return fit(((mark, "accent"), *name, (" ", "text"), (safe(saved.text, 300), "muted")), width, ellipsis=ellipsis)

    def _words_below(self, width: int, height: int) -> list[Line]:
        if name := self._typed:
            if refusal := self._refusal(name):
                return [((part, "bad"),) for part in wrap(refusal, width, height, self.console.glyphs.ellipsis)]
            replaced = any(saved.name == name for saved in self._saved)
            what = f"in place of the one that is there: {self._present}" if replaced else self._present
            text = f"Enter saves the present filter as {safe(name, 64)}{': ' if not replaced else ' '}{safe(what, 300)}"
            return [((part, "accent"),) for part in wrap(text, width, height, self.console.glyphs.ellipsis)]
        if not self._saved:
            return [((part, "muted"),) for part in wrap("write a filter with /, then b and a name for it", width)]
        saved = self._saved[self._at]
        by = f"saved {moment_of(saved.saved_at, self.console.model.now)} by {safe(saved.by, 40)}"
        text = f"Enter applies it; {by}. A name saves the present filter."
        return [((part, "muted"),) for part in wrap(text, width, height, self.console.glyphs.ellipsis)]
