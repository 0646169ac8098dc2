"""Colours: two calm themes on a blue and orange axis, and the styles that tones become in them."""

from __future__ import annotations

from dataclasses import dataclass

from rich.color import Color as RichColor
from rich.style import Style
from textual.color import Color
from textual.theme import Theme


@dataclass(frozen=True)
class Scheme:
    """The colours of one theme. Every difference in colour also has a glyph or a word."""

    name: str
    dark: bool
    background: str
    # of the line under the cursor, in the pane that has the focus and in the others
    cursor: str
    cursor_off: str
    # of header and footer
    bar: str
    text: str
    strong: str
    muted: str
    faint: str
    # frames of panes
    line: str
    accent: str
    # of charts: large areas are calmer than the accent
    chart: str
    good: str
    warn: str
    bad: str
    # on inverse ground
    inverse: str


NIGHT = Scheme(
    name="console-dark",
    dark=True,
    background="#11151c",
    cursor="#24364f",
    cursor_off="#1b232f",
    bar="#19202b",
    text="#c3ccd8",
    strong="#f0f4f9",
    muted="#8b98a9",
    faint="#536073",
    line="#364253",
    accent="#6cb2ff",
    chart="#4478ad",
    good="#6fcfb0",
    warn="#f2b45c",
    bad="#ff8a65",
    inverse="#11151c",
)

DAY = Scheme(
    name="console-light",
    dark=False,
    background="#fbfaf7",
    cursor="#cfe2f8",
    cursor_off="#e9edf1",
    bar="#edece6",
    text="#2d3540",
    strong="#0b1118",
    muted="#5c6875",
    faint="#98a2ad",
    line="#bcc3ca",
    accent="#1663b8",
    chart="#7fa9d6",
    good="#0b7a5c",
    warn="#9a5b00",
    bad="#c03a12",
    inverse="#ffffff",
)

SCHEMES = {scheme.name: scheme for scheme in (NIGHT, DAY)}

CONTEXT_COLOURS = {
    "red": ("#ff6b5f", "#c0281a"),
    "orange": ("#ffa04d", "#b35300"),
    "yellow": ("#ffd75f", "#8a6d00"),
    "green": ("#7fd18b", "#1f7a34"),
    "cyan": ("#5fd7d7", "#087a7a"),
    "blue": ("#6cb2ff", "#1663b8"),
    "magenta": ("#e58be5", "#9b2f9b"),
}
"""Of the word in the header, on a dark ground and on a light one."""

FADE = 0.55
"""How far tones go towards the background while the picture is old."""


def textual_theme(scheme: Scheme) -> Theme:
    """Return the theme for what Textual itself draws: the input, the sheets, the command palette."""
    return Theme(
        name=scheme.name,
        primary=scheme.accent,
        secondary=scheme.muted,
        accent=scheme.accent,
        warning=scheme.warn,
        error=scheme.bad,
        success=scheme.good,
        foreground=scheme.text,
        background=scheme.background,
        surface=scheme.bar,
        panel=scheme.cursor_off,
        dark=scheme.dark,
        variables={
            "border": scheme.line,
            "line": scheme.line,
            "text-strong": scheme.strong,
            "text-faint": scheme.faint,
            "block-cursor-background": scheme.accent,
            "block-cursor-foreground": scheme.inverse,
            "input-selection-background": scheme.cursor,
        },
    )


class Palette:
    """Tones to Rich styles. A tone may name the ground it stands on: `muted/cursor`.

    Every style is complete, with both colours: with NO_COLOR, Textual's filter fails on a segment without a style.
    """

    def __init__(self, scheme: Scheme, faded: bool = False) -> None:
        self.scheme = scheme
        self.faded = faded
        self._styles: dict[str, Style] = {}

    def style(self, tone: str) -> Style:
        """Return the style of a tone; an unknown tone is plain text."""
        style = self._styles.get(tone)
        if style is None:
            style = self._styles[tone] = self._make(tone)
        return style

    def _make(self, tone: str) -> Style:
        name, _, ground = tone.partition("/")
        inverse = name.startswith("on-")
        # What says that the picture is old is inverse, and must not fade with it.
        colour = self._inverse(name[3:]) if inverse else self._colour(name)
        below = self._ground(ground)
        if inverse:
            colour, below = self.scheme.inverse, colour
        bold = name in {"strong", "title", "key"} or inverse
        return Style(color=RichColor.parse(colour), bgcolor=RichColor.parse(below), bold=bold)

    def _inverse(self, name: str) -> str:
        if name in CONTEXT_COLOURS:
            return CONTEXT_COLOURS[name][0 if self.scheme.dark else 1]
        return str(getattr(self.scheme, name))

    def _colour(self, name: str) -> str:
        scheme = self.scheme
        named = {"title": scheme.strong, "key": scheme.accent}
        colour = named.get(name) or getattr(scheme, name, scheme.text)
        if not self.faded:
            return str(colour)
        return Color.parse(colour).blend(Color.parse(scheme.background), FADE).hex6

    def _ground(self, ground: str) -> str:
        return {"cursor": self.scheme.cursor, "off": self.scheme.cursor_off, "bar": self.scheme.bar}.get(
            ground, self.scheme.background
        )
