"""The base of all widgets here: it draws lines of spans and sends only those that changed to the terminal."""

from __future__ import annotations

from rich.segment import Segment
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from jobconsole.core.columns import Span
from jobconsole.tui.drawing.spans import Line, changed, fit, width_of
from jobconsole.tui.host import Host, host_of
from queue_core.text import safe


class LineWidget(Widget):
    """A widget that is a list of lines. `repaint` compares them with what stands there and refreshes the others."""

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
            self.refresh(*(self._part(y, before[y], self._lines[y]) for y in places))

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

    def _part(self, y: int, before: Line, after: Line) -> Region:
        """The part of a line that has changed."""
        width = self.size.width
        # What is made harmless only when it is drawn may take more cells than it says.
        whole = any(not text.isprintable() for text, _ in (*before, *after)) or width_of(after) != width
        cells = range(width) if whole else changed(before, after)
        return Region(cells.start, y, len(cells), 1)

    def _strip(self, y: int) -> Strip:
        width = self.size.width
        style = self.console.palette.style
        # Texts are made harmless where they come in; here nothing else can reach the terminal either.
        line = tuple(_plain(span) for span in self._lines[y]) if y < len(self._lines) else ()
        return Strip([Segment(text, style(tone)) for text, tone in fit(line, width) if text], width).simplify()


def _plain(span: Span) -> Span:
    text, tone = span
    return span if text.isprintable() else (safe(text), tone)
