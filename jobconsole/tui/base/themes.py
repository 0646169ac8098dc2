"""Colours: two calm themes on a blue and orange axis, and the styles that tones become in them."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from rich.color import Color as RichColor
from rich.style import Style
from textual.color import Color
from textual.theme import BUILTIN_THEMES, Theme


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
    # the names are those of the terminal's own sixteen colours
    ansi: bool = False


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
    faint="#67758a",
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
    faint="#7a8591",
    line="#bcc3ca",
    accent="#1663b8",
    chart="#7fa9d6",
    good="#0b7a5c",
    warn="#9a5b00",
    bad="#c03a12",
    inverse="#ffffff",
)

# Readable on a dark and on a light ground alike: what is strong is bold, what is muted has the colour of the text.
TERMINAL = Scheme(
    name="console-ansi",
    dark=True,
    background="default",
    cursor="blue",
    cursor_off="default",
    bar="default",
    text="default",
    strong="default",
    muted="default",
    faint="bright_black",
    line="bright_black",
    accent="cyan",
    chart="blue",
    good="green",
    warn="yellow",
    bad="red",
    inverse="black",
    ansi=True,
)

SCHEMES = {scheme.name: scheme for scheme in (NIGHT, DAY, TERMINAL)}

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

CONTEXT_ANSI = {"orange": "yellow", "yellow": "bright_yellow"}
"""Of the context colours that terminals have under another name, or not."""
ANSI_CURSOR = {"good": "bright_green", "warn": "bright_yellow"}
"""The tones that keep a colour of their own under the cursor, in the terminal's own colours: others vanish on blue."""
FADE = 0.28
"""How far tones go towards the background while the picture is old."""


def textual_theme(scheme: Scheme) -> Theme:
    """Return the theme for what Textual itself draws: the input, the sheets, the command palette."""

    def own(colour: str) -> str:
        return f"ansi_{colour}" if scheme.ansi else colour

    return Theme(
        name=scheme.name,
        primary=own(scheme.accent),
        secondary=own(scheme.muted),
        accent=own(scheme.accent),
        warning=own(scheme.warn),
        error=own(scheme.bad),
        success=own(scheme.good),
        foreground=own(scheme.text),
        background=own(scheme.background),
        surface=own(scheme.bar),
        panel=own(scheme.cursor_off),
        dark=scheme.dark,
        ansi=scheme.ansi,
        boost=own(scheme.cursor_off) if scheme.ansi else None,
        variables={
            **(BUILTIN_THEMES["ansi-dark"].variables if scheme.ansi else {}),
            "border": own(scheme.line),
            "line": own(scheme.line),
            "text-strong": own(scheme.strong),
            "text-faint": own(scheme.faint),
            "block-cursor-background": own(scheme.accent),
            "block-cursor-foreground": own(scheme.inverse),
            "input-selection-background": own(scheme.cursor),
        },
    )


class Palette:
    """Tones to Rich styles. A tone may name the ground it is drawn on: `muted/cursor`.

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
        if name == "faint" and ground == "cursor":
            # It is hardly to be read on that ground, and with sixteen colours it is that ground's own.
            name = "muted"
        inverse = name.startswith("on-")
        # The marker of an old picture is inverse, and must not fade with it.
        colour = self._inverse(name[3:]) if inverse else self._colour(name, ground == "cursor")
        below = self._ground(ground)
        if inverse:
            colour, below = self.scheme.inverse, colour
        bold = name in {"strong", "title", "key"} or inverse
        return Style(color=RichColor.parse(colour), bgcolor=RichColor.parse(below), bold=bold)

    def _inverse(self, name: str) -> str:
        if name in CONTEXT_COLOURS and self.scheme.ansi:
            return CONTEXT_ANSI.get(name, name)
        if name in CONTEXT_COLOURS:
            return CONTEXT_COLOURS[name][0 if self.scheme.dark else 1]
        return str(getattr(self.scheme, name))

    def _colour(self, name: str, cursor: bool = False) -> str:
        scheme = self.scheme
        named = {"title": scheme.strong, "key": scheme.accent}
        colour = named.get(name) or getattr(scheme, name, scheme.text)
        if self.faded and scheme.ansi:
            return scheme.faint
        if scheme.ansi and cursor:
            return ANSI_CURSOR.get(name, "bright_white")
        if not self.faded:
            return str(colour)
        return Color.parse(colour).blend(Color.parse(scheme.background), FADE).hex6

    def _ground(self, ground: str) -> str:
        return {"cursor": self.scheme.cursor, "off": self.scheme.cursor_off, "bar": self.scheme.bar}.get(
            ground, self.scheme.background
        )


FEW_COLOURS = "standard"
"""Rich's word for a terminal of sixteen colours. Of these the dark theme has red on a grey cursor, the light one white
titles on white, and a cursor that is no other: such a terminal has a choice of its own."""


def _theme_file(colours: str | None) -> Path:
    from jobconsole.actions.export import state_folder

    return state_folder() / ("theme-16" if colours == FEW_COLOURS else "theme")


def keep_theme(name: str, colours: str | None = None) -> None:
    """Keep the theme for later consoles of this user; where nothing can be written, it holds for this one.

    `colours`: Rich's word for how many the terminal has.
    """
    from jobconsole.actions.export import write_over

    with suppress(OSError):
        write_over(_theme_file(colours), f"{name}\n")


def kept_theme(colours: str | None = None) -> str:
    """Return the theme that was chosen last in a terminal of so many colours.

    Where none was, or none of that name is there, it is the dark one; of sixteen colours, the terminal's own.
    """
    usual = TERMINAL.name if colours == FEW_COLOURS else NIGHT.name
    try:
        name = _theme_file(colours).read_text(encoding="utf-8")[:100].strip()
    except (OSError, ValueError):
        return usual
    return name if name in SCHEMES else usual
