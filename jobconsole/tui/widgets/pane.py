"""A pane: a frame with a title, a note at its right, and a thumb on its right border that shows where one is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from rich.segment import Segment
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from jobconsole.actions.plan import Choice, Target
from jobconsole.format.cuts import title_parts
from jobconsole.format.spans import Line, Span, Spans, changed, fit, width_of
from jobconsole.tui.base.host import Host, host_of
from jobconsole.tui.base.links import Link
from queue_core.model.operation import VERBS
from queue_core.model.text import safe


class LineWidget(Widget):
    """A widget that is a list of lines. `repaint` compares them with the drawn ones and refreshes those that differ."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._lines: list[Line] = []
        self._strips: dict[int, Strip] = {}

    @property
    def console(self) -> Host:
        """The application, with its palette, model and glyphs."""
        return host_of(self)

    def lines(self, width: int, height: int) -> list[Line]:
        """Return what the widget shows now, at this size."""
        raise NotImplementedError

    def render_line(self, y: int) -> Strip:
        """Return one line as Textual wants it."""
        strip = self._strips.get(y)
        if strip is None:
            if len(self._lines) != self.size.height:
                self._lines = self._drawn()
            strip = self._strips[y] = self._strip(y)
        return strip

    def repaint(self) -> None:
        """Draw again and refresh the lines that differ. Cheap when nothing changed."""
        if not self.is_mounted or self.size.width == 0:
            return
        before, self._lines = self._lines, self._drawn()
        if len(before) != len(self._lines):
            self.repaint_all()
            return
        places = [y for y, line in enumerate(self._lines) if line != before[y]]
        for y in places:
            self._strips.pop(y, None)
        if places:
            self.refresh(*(part for y in places for part in self._parts(y, before[y], self._lines[y])))

    def repaint_all(self) -> None:
        """Draw everything again, for another size or palette."""
        self._lines = []
        self._strips.clear()
        self.refresh()

    def on_resize(self) -> None:
        self.repaint_all()

    def watch_has_focus(self, _has_focus: bool) -> None:
        """Draw again once the focus has come or gone: `on_focus` and `on_blur` are called before that."""
        super().watch_has_focus(_has_focus)
        self.repaint()

    def _drawn(self) -> list[Line]:
        width, height = self.size
        lines = self.lines(width, height)[:height]
        return lines + [()] * (height - len(lines))

    def _parts(self, y: int, before: Line, after: Line) -> list[Region]:
        """The parts of a line that have changed."""
        width = self.size.width
        # Text that is made harmless only when it is drawn may take more cells than were computed.
        whole = any(not text.isprintable() for text, _ in (*before, *after)) or width_of(after) != width
        found = [range(width)] if whole else changed(before, after)
        return [Region(cells.start, y, len(cells), 1) for cells in found]

    def _strip(self, y: int) -> Strip:
        width = self.size.width
        style = self.console.palette.style
        # Texts are made harmless where they come in; here nothing else can reach the terminal either.
        line = tuple(_plain(span) for span in self._lines[y]) if y < len(self._lines) else ()
        return Strip([Segment(text, style(tone)) for text, tone in fit(line, width) if text], width).simplify()


def _plain(span: Span) -> Span:
    text, tone = span
    return span if text.isprintable() else (safe(text), tone)


_BLANK = (" ", "text")


@dataclass(frozen=True, slots=True)
class Extent:
    """Which part of its content a pane shows."""

    top: int
    shown: int
    total: int


def off_for_jobs(why: str, *but: str) -> dict[str, str]:
    """Return `Pane.NEVER` of a pane that shows no jobs: actions on jobs are off for this reason, `but` for some."""
    return {action: why for action in (*VERBS, "edit", "export", "compare") if action not in but}


class Pane(LineWidget):
    """A framed part of a screen. With the class `-open` it has only a title line, to save room on small screens."""

    # actions that make no sense whichever row the cursor is on, with the message when their key is pressed
    NEVER: ClassVar[dict[str, str]] = {}

    can_focus = True
    # the filter of what is shown, as it was written; "" without one
    filter_text = ""

    @property
    def reachable(self) -> bool:
        """Whether the Tab key comes here."""
        return True

    @property
    def in_trash(self) -> bool:
        """Whether what it shows is in the trash."""
        return False

    @property
    def compact(self) -> bool:
        """Whether the screen is so small that it shows a list and little else."""
        return self.screen.has_class("-compact")

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
        """Return what is shown at the right end of the title line, behind the filter."""
        return ()

    def aside(self) -> Spans:
        """Return what is drawn there: the note, and what must not be missed."""
        return self.note()

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
        title, note = title_parts(self.heading(), self.aside(), self.filter_text, room)
        spare = room - width_of(title) - (width_of(note) + 2 if note else 0)
        tail: Spans = ((" ", tone), *note, (" ", tone)) if note else ()
        return ((start, tone), *title, (" " + rule * spare, tone), *tail, (end, tone))

    def _bottom(self, width: int, tone: str) -> Line:
        (_, _, left, right), rule = self.console.glyphs.corners, self.console.glyphs.rule
        return ((left + rule * (width - 2) + right, tone),)


class Drawn(LineWidget):
    """Shows what a function makes of its width and height."""

    def __init__(self, draw: Callable[[int, int], list[Line]], *, id: str) -> None:
        super().__init__(id=id)
        self._draw = draw

    def lines(self, width: int, height: int) -> list[Line]:
        """The lines."""
        return self._draw(width, height)


class TooSmall(LineWidget):
    """Shows how large the window is and how large it must be."""

    def __init__(self, least: tuple[int, int], *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._least = least

    def lines(self, width: int, height: int) -> list[Line]:
        """The sentence in the middle."""
        texts = (
            ("This window is too small", "strong"),
            (f"{width}×{height}; needs {self._least[0]}×{self._least[1]}", "text"),
            ("make it larger, or q to quit", "muted"),
        )
        above: list[Line] = [()] * max(0, (height - len(texts)) // 2)
        return above + [((" " * max(0, (width - len(text)) // 2), "text"), (text, tone)) for text, tone in texts]
