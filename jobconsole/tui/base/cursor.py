"""The rows of a table with a cursor and marks, which stay on their row whatever comes in above it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(slots=True)
class TableCursor(Generic[T]):
    """Rows, a cursor on one of them, and the first row that is shown.

    When the row under the cursor vanishes the cursor is adrift: it keeps its place on the screen and is on no row
    until it is moved. Code that removes the row on purpose calls `expect_gone`, and the cursor moves to the next one.
    """

    key_of: Callable[[T], str]
    rows: Sequence[T] = ()
    places: dict[str, int] = field(default_factory=dict)
    # the row under the cursor; None with rows there: adrift, or nothing was chosen yet
    key: str | None = None
    place: int = 0
    top: int = 0
    marks: dict[str, T] = field(default_factory=dict)
    # everything that matches is marked, also what is not loaded
    everything: bool = False
    # the row that was marked last: where a range begins
    marked_last: str | None = None
    # rows that came in since the cursor was last moved and are above the first visible one
    above: int = 0
    _leaving: set[str] = field(default_factory=set)

    @property
    def adrift(self) -> bool:
        """Whether the row under the cursor is gone."""
        return bool(self.rows) and self.key is None

    @property
    def row(self) -> T | None:
        """The row under the cursor; None when it is adrift or there are no rows."""
        return None if self.key is None else self.rows[self.place]

    def expect_gone(self, keys: Sequence[str]) -> None:
        """Announce that this console is about to remove these rows."""
        self._leaving.update(keys)

    def expect_stay(self, keys: Sequence[str]) -> None:
        """Withdraw `expect_gone` for these rows."""
        self._leaving.difference_update(keys)

    def show(self, rows: Sequence[T], follow: bool = False, seat: bool = False, head: int = 0) -> None:
        """Take new rows. The cursor stays on its row and the picture still; with `follow` both stay at the top.

        `seat`: these are the rows of another list, so a cursor whose row is not among them goes to the first. `head`:
        so many rows can be seen, and those that come in above a list that is seen from its top push the others down,
        as long as the cursor's row stays in view.
        """
        key_of = self.key_of
        # Not of the rows shown last: their list may be the one that was filled since.
        had_rows = bool(self.places)
        self.places = {key_of(row): index for index, row in enumerate(rows)}
        anchor = None if follow and self.top == 0 else self.key
        self.rows = rows
        self.marks = {key: rows[self.places[key]] if key in self.places else row for key, row in self.marks.items()}
        if anchor is not None and anchor in self.places:
            self._carry(self.places[anchor] - self.place, head)
        else:
            self._reseat(follow or seat or not had_rows)
        self.above = min(self.above, self.top)
        self._leaving &= set(self.places)

    def move_to(self, place: int) -> None:
        """Put the cursor on a row, the nearest one when there is none at this place."""
        if not self.rows:
            self.key, self.place = None, 0
            return
        self.place = max(0, min(place, len(self.rows) - 1))
        self.key = self.key_of(self.rows[self.place])

    def scroll(self, height: int, still: bool = False) -> None:
        """Bring the cursor into view, given how many rows can be seen.

        `still` allows blank lines below the last row, so that a short list does not move when rows come in above.
        """
        if height <= 0:
            return
        if self.place < self.top:
            self.top = self.place
        elif self.place >= self.top + height:
            self.top = self.place - height + 1
        if not (still and self.key is not None):
            self.top = min(self.top, len(self.rows) - height)
        self.top = max(0, self.top)
        self.above = min(self.above, self.top)

    def toggle_mark(self) -> None:
        """Mark or unmark the row under the cursor; where everything was marked, nothing is afterwards."""
        row = self.row
        if row is None or self.everything:
            self.everything = False
            return
        key = self.key_of(row)
        if self.marks.pop(key, None) is None:
            self.marks[key] = row
        self.marked_last = key

    def mark_range(self) -> None:
        """Mark every row from the one that was marked last to the one under the cursor."""
        row = self.row
        if row is None:
            return
        start = self.places.get(self.marked_last or "", self.place)
        for place in range(min(start, self.place), max(start, self.place) + 1):
            self.marks[self.key_of(self.rows[place])] = self.rows[place]
        self.marked_last = self.key_of(row)

    def clear_marks(self) -> None:
        """Unmark everything."""
        self.marks.clear()
        self.everything = False
        self.marked_last = None

    def is_marked(self, key: str) -> bool:
        """Return whether a row is marked."""
        return self.everything or key in self.marks

    def reset(self) -> None:
        """Forget everything, for another list."""
        self.rows, self.places, self.key = (), {}, None
        self.clear_marks()
        self.place = self.top = self.above = 0

    def _carry(self, moved: int, head: int) -> None:
        """Go along with the row under the cursor."""
        self.place += moved
        if head and self.top == 0:
            self.above = self.top = max(0, self.place - head + 1)
            return
        self.top = max(0, self.top + moved)
        self.above = self.above + moved if moved > 0 and self.top else self.above

    def _reseat(self, restart: bool) -> None:
        """Find a row for a cursor whose row is not there: the first with `restart`, else the one at its old place."""
        self.place = 0 if restart else max(0, min(self.place, len(self.rows) - 1))
        if not self.rows:
            self.key, self.top = None, 0
        elif restart or self.key in self._leaving:
            self.key = self.key_of(self.rows[self.place])
        else:
            self.key = None
