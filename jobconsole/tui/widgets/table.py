"""A table of rows whose cursor and marks hold on to ids."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from textual import events
from textual.message import Message

from jobconsole.format.spans import Line, RenderContext, Spans, fit, grounded, wrap
from jobconsole.present.layout import Column, fit_columns, row_spans
from jobconsole.tui.base.cursor import TableCursor
from jobconsole.tui.widgets.pane import Extent, Pane
from queue_core.model.text import safe

T = TypeVar("T")


NO_MATCH = "nothing matches; Esc clears the filter"
"""What a list shows whose filter hides all there is."""
LOADING = "still loading; press it again in a moment"
"""Why a key does nothing before the first picture."""
HIGH = 4
"""Lines from which there is a blank one between the titles and the sentence that there are no rows."""
GUTTER = 3
"""Cells before the first column: cursor, mark, blank."""
WHEEL = 3
"""Rows that one notch of a mouse wheel moves."""


class Table(Pane, Generic[T]):
    """Rows in columns of fixed width under a line of titles."""

    # what is shown when there are no rows
    empty = "nothing here"
    # the same while the rows are read
    reading = "reading ..."
    # whether the cursor shows while the focus is elsewhere: where another pane shows its row
    cursor_always = True
    # whether the picture stays when rows come in above; short lists rather show all they have
    still = True
    # whether rows that come in above a list that is seen from its top push the others down, and are seen
    heads = False
    # what is shown where the cursor's row is gone, and whether that is an alarm
    gone, alarming = "row gone", True
    # this list had the focus: its cursor was put where it is
    visited = False

    class Moved(Message):
        """The cursor is on another row, or the row under it is another one."""

        def __init__(self, table_id: str) -> None:
            super().__init__()
            self.table_id = table_id

    def __init__(self, columns: Sequence[Column[T]], key_of: Callable[[T], str], *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.columns = columns
        self.selection = TableCursor(key_of)

    @property
    def titled(self) -> bool:
        """Whether the columns have titles above them: not where there is one line, which is a row's."""
        return self.inner_height > 1

    @property
    def visible_rows(self) -> int:
        """How many rows fit under the titles."""
        return max(0, self.inner_height - self.titled)

    def extent(self) -> Extent | None:
        """Which rows are shown."""
        return Extent(self.selection.top, self.visible_rows, len(self.selection.rows))

    def body(self, width: int, height: int) -> list[Line]:
        """Titles and the rows in view."""
        fitted = fit_columns(self.columns, width - GUTTER)
        selection = self.selection
        context = self.console.render_context()
        titles = [self._titles(fitted, width)] if self.titled else []
        if not selection.rows:
            return [*titles, *([()] if height > HIGH else []), *self._nothing(width)]
        rows = selection.rows[selection.top : selection.top + self.visible_rows]
        return [
            *titles,
            *(self._row(selection.top + y, self.current(row), fitted, context, width) for y, row in enumerate(rows)),
        ]

    def _nothing(self, width: int) -> list[Line]:
        """Return what is shown without rows; before the first picture the error, whole: the header may cut it."""
        if self.console.model.snapshot is not None:
            return [(("   " + (self.reading if self.unread else self.empty), "muted"),)]
        error = safe(self.console.connection.store.error)
        why = wrap(error, width - GUTTER) if error and width > 2 * GUTTER else ()
        return [(("   not loaded yet", "muted"),), *((("   " + line, "warn"),) for line in why)]

    @property
    def anchored(self) -> bool:
        """Whether the cursor stays on its row; a list that never had the focus follows its top."""
        return self.has_focus or self.visited

    def watch_has_focus(self, _has_focus: bool) -> None:
        """Keep the cursor on its row once the list had the focus: leaving the details returns to that row."""
        self.visited = self.visited or _has_focus
        super().watch_has_focus(_has_focus)

    def begin_again(self) -> None:
        """Forget the rows, for another list."""
        self.selection.reset()
        self.visited = self.has_focus

    def show(self, rows: Sequence[T], follow: bool | None = None, seat: bool = False) -> None:
        """Take new rows; `seat`: of another list."""
        before = self.selection.key
        head = self.visible_rows if self.heads else 0
        self.selection.show(rows, not self.anchored if follow is None else follow, seat, head)
        self.selection.scroll(self.visible_rows, self.still)
        self.repaint()
        if self.selection.key != before:
            self.post_message(self.Moved(self.id or ""))

    def aside(self) -> Spans:
        """That the cursor's row is gone comes before the note: no other row is chosen then."""
        if not (self.selection.adrift and self.anchored):
            return super().aside()
        words = (f"{self.console.glyphs.alert} {self.gone}  ", "warn") if self.alarming else (f"{self.gone}  ", "muted")
        return (words, *super().aside())

    def hidden(self) -> str:
        """How many rows there are above and below those that are shown, behind the title's words; "" without any."""
        selection, shown = self.selection, self.visible_rows
        below = len(selection.rows) - selection.top - shown
        above = f", {self.console.glyphs.up} {selection.top:,} above" if selection.top else ""
        return above + (f", {below:,} more below" if below > 0 else "") if shown else ""

    def move(self, step: int) -> None:
        """Move the cursor by some rows."""
        self.move_to(self.selection.place + step)

    def move_to(self, place: int) -> None:
        """Move the cursor to a row."""
        before = self.selection.key
        self.selection.move_to(place)
        self.selection.scroll(self.visible_rows)
        self.repaint()
        if self.selection.key != before:
            self.post_message(self.Moved(self.id or ""))

    @property
    def unread(self) -> bool:
        """Whether the rows are being read that a view or filter just opened has."""
        return False

    def nothing(self) -> str:
        """Why there is nothing under the cursor."""
        if self.console.model.snapshot is None:
            return LOADING
        return "that row is gone; select another" if self.selection.adrift else "nothing selected"

    def do_up(self) -> None:
        """One row up."""
        self.move(-1)

    def do_down(self) -> None:
        """One row down."""
        self.move(1)

    def do_page_up(self) -> None:
        """One page up."""
        self.move(-max(1, self.visible_rows - 1))

    def do_page_down(self) -> None:
        """One page down."""
        self.move(max(1, self.visible_rows - 1))

    def do_half_up(self) -> None:
        """Half a page up."""
        self.move(-max(1, self.visible_rows // 2))

    def do_half_down(self) -> None:
        """Half a page down."""
        self.move(max(1, self.visible_rows // 2))

    def copied(self, row: T) -> str:
        """What `copy` copies of a row: what the cursor holds on to; "": there is nothing to copy."""
        return self.selection.key or ""

    def do_copy(self) -> None:
        """Copy what names the row under the cursor."""
        row = self.selection.row
        text = "" if row is None else self.copied(row)
        if text:
            self.console.navigation.copy(text)

    def do_top(self) -> None:
        """To the first row."""
        self.move_to(0)

    def do_bottom(self) -> None:
        """To the last row that is loaded."""
        self.move_to(len(self.selection.rows) - 1)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self.move(WHEEL)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self.move(-WHEEL)

    def on_click(self, event: events.Click) -> None:
        row = event.y - 1 - self.titled
        if 0 <= row < self.visible_rows and self.selection.top + row < len(self.selection.rows):
            self.move_to(self.selection.top + row)
            if event.chain == 2:
                self.console.choose("open")

    def on_resize(self) -> None:
        self.selection.scroll(self.visible_rows)
        super().on_resize()

    def current(self, row: T) -> T:
        """Return a row as it is drawn, updated by its events since it was read."""
        return row

    def is_new(self, row: T) -> bool:
        """Return whether a row has just come in."""
        return False

    def _titles(self, fitted: list[tuple[Column[T], int]], width: int) -> Line:
        spans: list[tuple[str, str]] = [(" " * GUTTER, "faint")]
        for index, (column, size) in enumerate(fitted):
            spans += [(" " * column.gap, "faint")] if index else []
            spans += fit(((column.title, "faint"),), size, column.right, fill="faint")
        return fit(spans, width)

    def _row(self, place: int, row: T, fitted: list[tuple[Column[T], int]], context: RenderContext, width: int) -> Line:
        selection = self.selection
        here = place == selection.place and (self.has_focus or self.cursor_always)
        spans: list[tuple[str, str]] = list(self._gutter(row, here))
        spans += row_spans(row, fitted, context)
        line = fit(spans, width)
        if not here or selection.adrift:
            return line
        return grounded(line, "cursor" if self.has_focus else "off")

    def _gutter(self, row: T, here: bool) -> Spans:
        glyphs, selection = self.console.glyphs, self.selection
        cursor = " " if not here else glyphs.adrift if selection.adrift else glyphs.cursor
        key = selection.key_of(row)
        tone = "warn" if selection.adrift else "accent"
        if selection.is_marked(key):
            return ((cursor, tone), (glyphs.mark, "warn"), (" ", "text"))
        return ((cursor, tone), (glyphs.new if self.is_new(row) else " ", "good"), (" ", "text"))


class MarkTable(Table[T]):
    """A table whose rows can be marked."""

    def do_mark(self) -> None:
        """Mark or unmark this row and move to the next."""
        self.selection.toggle_mark()
        self.move(1)
        self.repaint()

    def do_mark_range(self) -> None:
        """Mark the rows between the last marked one and this one."""
        self.selection.mark_range()
        self.repaint()

    def do_mark_all(self) -> None:
        """Mark everything that matches."""
        self.selection.everything = True
        self.repaint()

    def do_clear_marks(self) -> None:
        """Unmark everything."""
        if not (self.selection.marks or self.selection.everything):
            self.console.show_notice("nothing is marked", "muted")
        self.selection.clear_marks()
        self.repaint()
