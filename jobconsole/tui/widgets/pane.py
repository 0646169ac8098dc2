"""A pane: a frame with a title, a note at its right, and a thumb on its right border that shows where one is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from jobconsole.core.columns import Spans
from jobconsole.core.links import Link
from jobconsole.core.operations import Choice, Target
from jobconsole.tui.drawing.spans import Line, fit, width_of
from jobconsole.tui.widgets.lines import LineWidget

_BLANK = (" ", "text")


@dataclass(frozen=True, slots=True)
class Extent:
    """Which part of its content a pane shows."""

    top: int
    shown: int
    total: int


class Pane(LineWidget):
    """A framed part of a screen. With the class `-open` it has only a title line, to save room on small screens."""

    # actions that make no sense whatever the cursor stands on, with what to say when their key is pressed
    NEVER: ClassVar[dict[str, str]] = {}

    can_focus = True

    @property
    def reachable(self) -> bool:
        """Whether the Tab key comes here."""
        return True

    @property
    def in_trash(self) -> bool:
        """Whether what it shows is in the trash."""
        return False

    @property
    def boxed(self) -> bool:
        """Whether there is a frame all around."""
        return not self.has_class("-open")

    @property
    def inner_width(self) -> int:
        """Cells between the borders, with one blank cell at each side."""
        return max(1, self.size.width - (4 if self.boxed else 2))

    @property
    def inner_height(self) -> int:
        """Lines under the title."""
        return max(0, self.size.height - (2 if self.boxed else 1))

    def heading(self) -> Spans:
        """Return the title."""
        raise NotImplementedError

    def note(self) -> Spans:
        """Return what stands at the right end of the title line."""
        return ()

    def body(self, width: int, height: int) -> list[Line]:
        """Return the lines inside."""
        raise NotImplementedError

    def extent(self) -> Extent | None:
        """Return which part is shown, where there is more than fits."""
        return None

    def refuses(self, action: str) -> str:
        """Why an action makes no sense now; "" when it does."""
        return ""

    def target(self, verb: Choice) -> Target | None:
        """What a verb would act on."""
        return None

    def link(self) -> Link | None:
        """The place of what is under the cursor; None when that has no place of its own."""
        return None

    def lines(self, width: int, height: int) -> list[Line]:
        """Return frame and content."""
        tone = "accent" if self.has_focus else "line"
        inner = self.body(self.inner_width, self.inner_height)[: self.inner_height]
        inner += [()] * (self.inner_height - len(inner))
        if not self.boxed:
            return [self._top(width, tone), *((_BLANK, *fit(line, width - 2), _BLANK) for line in inner)]
        return [self._top(width, tone), *self._framed(inner, tone), self._bottom(width, tone)]

    def on_focus(self) -> None:
        self.repaint()

    def on_blur(self) -> None:
        self.repaint()

    def _framed(self, inner: list[Line], tone: str) -> list[Line]:
        vertical, thumb = self.console.glyphs.side, self.console.glyphs.thumb
        covered = self._thumb(len(inner))
        framed: list[Line] = []
        for y, line in enumerate(inner):
            right = (thumb, "muted") if y in covered else (vertical, tone)
            framed.append(((f"{vertical} ", tone), *fit(line, self.inner_width), (" ", "text"), right))
        return framed

    def _thumb(self, height: int) -> range:
        extent = self.extent()
        if extent is None or extent.total <= extent.shown or height < 3:
            return range(0)
        size = max(1, round(height * extent.shown / extent.total))
        room = extent.total - extent.shown
        start = round((height - size) * min(extent.top, room) / room)
        return range(start, start + size)

    def _top(self, width: int, tone: str) -> Line:
        (left, right, _, _), rule = self.console.glyphs.corners, self.console.glyphs.rule
        start, end = (f"{left}{rule} ", f"{rule}{right}") if self.boxed else (f"{rule}{rule} ", rule * 2)
        room = width - len(start) - len(end) - 1
        title = self.heading()
        note = self.note()
        if width_of(title) + width_of(note) + 4 > room:
            note = ()
        title = fit(title, room) if width_of(title) > room else title
        spare = room - width_of(title) - (width_of(note) + 2 if note else 0)
        tail: Spans = ((" ", tone), *note, (" ", tone)) if note else ()
        return ((start, tone), *title, (" " + rule * spare, tone), *tail, (end, tone))

    def _bottom(self, width: int, tone: str) -> Line:
        (_, _, left, right), rule = self.console.glyphs.corners, self.console.glyphs.rule
        return ((left + rule * (width - 2) + right, tone),)
