"""The console in terminals with little: no colour, no Unicode, no terminal at all."""

from __future__ import annotations

import subprocess
import sys

import pytest
from rich.color import ColorSystem, ColorType
from rich.segment import Segment
from rich.style import Style
from textual.color import Color as TextualColor
from textual.command import CommandList

from jobconsole.format.glyphs import ASCII
from jobconsole.tui.base.bindings import ACTIONS
from jobconsole.tui.base.themes import DAY, NIGHT, SCHEMES, TERMINAL, Palette, Scheme
from jobconsole.tui.screens.help import Commands
from jobconsole.tui.screens.view import View
from queue_core import JobQueue
from tests.conformance.world import World
from tests.tui.conftest import Sit
from tests.tui.plans import planned, timetable
from tests.tui.seat import NARROW, TINY, WIDE, Seat

Buried = dict[str, list[str]]
VIEWS = (("2", "Queues"), ("3", "Jobs  "), ("5", "Schedules  "), ("6", "Events  "), ("1", "Dead letters"))
"""The key of each view and what only it shows."""
OWN = {ColorType.DEFAULT, ColorType.STANDARD}


def segments(seat: Seat) -> list[Segment]:
    """Return every segment on the screen."""
    return [segment for strip in seat.strips() for segment in strip]


async def test_without_colour(
    sit: Sit, jobs: JobQueue, world: World, buried: Buried, monkeypatch: pytest.MonkeyPatch
) -> None:
    await timetable(jobs, world)
    monkeypatch.setenv("NO_COLOR", "1")
    async with sit(WIDE) as seat:
        await seat.ready()
        await seat.until("TimeoutError")
        for keys in ("R", "escape", "2", "3", "5", "enter", "T", "escape", "6", "1", "question_mark", "escape", "slash",
                     "escape", "colon", "escape"):  # fmt: skip
            await seat.press(keys)
            assert all(segment.style is not None for segment in segments(seat))
        assert "❯" in seat.text(), "the cursor shows without colour"


@pytest.mark.parametrize("scheme", SCHEMES)
async def test_themes(sit: Sit, jobs: JobQueue, world: World, buried: Buried, scheme: str) -> None:
    await timetable(jobs, world)
    async with sit() as seat:
        await seat.ready()
        seat.app.set_theme(scheme)
        await seat.until("TimeoutError")
        for key, title in VIEWS:
            await seat.press(key)
            await seat.until(title)
            assert SCHEMES[scheme].background in grounds(seat)


@pytest.mark.parametrize(("terminal", "colours"), [("xterm-256color", "256"), ("xterm", "16")])
async def test_few_colours(terminal: str, colours: str, sit: Sit, jobs: JobQueue, world: World, buried: Buried) -> None:
    """Whatever a terminal can show, every tone becomes one of its colours, and those that mean something differ."""
    await timetable(jobs, world)
    system = {"256": ColorSystem.EIGHT_BIT, "16": ColorSystem.STANDARD}[colours]
    async with sit() as seat:
        await seat.ready()
        await seat.until("TimeoutError")
        for key, title in VIEWS:
            await seat.press(key)
            await seat.until(title)
            styles = {segment.style for segment in segments(seat) if segment.style}
            for style in styles:
                assert style.render("x", color_system=system), (terminal, style)
        palette = Palette(NIGHT)
        tones = [palette.style(tone).color for tone in ("text", "bad", "good", "accent")]
        different = {tone.downgrade(system).number for tone in tones if tone is not None}
        # With 16 colours two may fall together: every difference in colour also has a glyph or a word.
        assert len(different) >= (4 if colours == "256" else 3)


async def test_the_colours_of_the_terminal_itself(sit: Sit, jobs: JobQueue, world: World, buried: Buried) -> None:
    """Nothing is drawn but in the sixteen colours that people choose for their terminals."""
    await timetable(jobs, world)
    async with sit(context="prod") as seat:
        await seat.ready()
        seat.app.set_theme(TERMINAL.name)
        assert seat.app.native_ansi_color
        for key, title in VIEWS:
            await seat.press(key)
            await seat.until(title)
            colours = [colour for one in segments(seat) if one.style for colour in (one.style.color, one.style.bgcolor)]
            strange = {colour.name for colour in colours if colour and colour.type not in OWN}
            assert strange == set(), [line for line in seat.text().splitlines() if strange & set(line)]


async def test_too_small_on_every_view(sit: Sit, jobs: JobQueue, world: World, buried: Buried) -> None:
    await timetable(jobs, world)
    async with sit() as seat:
        await seat.ready()
        for key, title in VIEWS:
            await seat.press(key)
            await seat.until(title)
            await seat.pilot.resize_terminal(*TINY)
            await seat.until("39×9; needs 40×10")
            await seat.press("R", "P", "T", "D", "j", "enter")
            assert isinstance(seat.app.screen, View)
            assert title not in seat.text()
            await seat.pilot.resize_terminal(*NARROW)
            await seat.until(title)
    assert not (await planned(jobs, "nightly")).paused


def grounds(seat: Seat) -> set[str]:
    """Return the colours that are behind the text."""
    return {segment.style.bgcolor.name for segment in segments(seat) if segment.style and segment.style.bgcolor}


async def test_in_ascii(sit: Sit, jobs: JobQueue, world: World, buried: Buried) -> None:
    await timetable(jobs, world)
    async with sit(WIDE) as seat:
        seat.app.glyphs = ASCII
        await seat.ready()
        await seat.until("TimeoutError")
        for key in ("2", "3", "5", "enter", "6", "1"):
            await seat.press(key)
            await seat.pilot.pause(0.4)
            strange = {char for char in seat.text() if not char.isascii()}
            assert strange == set(), [line for line in seat.text().splitlines() if strange & set(line)]


def test_every_action_has_somebody_who_carries_it_out() -> None:
    from jobconsole.tui.app import ConsoleApp
    from jobconsole.tui.navigation import Navigation
    from jobconsole.tui.screens.view import View
    from jobconsole.tui.views import VIEWS
    from jobconsole.tui.widgets.detail import Detail
    from jobconsole.tui.widgets.jobs import JobTable
    from jobconsole.tui.widgets.live import QueueTable

    views = [view.open() for view in VIEWS]
    held = [rows for view in views if isinstance(view, View) for rows in view.rows]
    owners = [ConsoleApp, Navigation, Detail, JobTable, QueueTable, *views, *held]
    lost = [action.id for action in ACTIONS if not any(hasattr(owner, f"do_{action.id}") for owner in owners)]
    assert lost == []


def test_keys_that_change_are_uppercase_and_keys_are_not_used_twice() -> None:
    assert all(action.keys.isupper() for action in ACTIONS if action.changes and action.id != "undo")
    keys = [key for action in ACTIONS for key in action.keys.split(",")]
    assert len(keys) == len(set(keys))
    assert not {"ctrl+s", "ctrl+q"} & set(keys), "flow control"


def test_without_a_terminal_it_says_what_to_run_instead() -> None:
    program = (
        "from queue_core.model.settings import JobsSettings\n"
        "from jobconsole.tui.run import run_console\n"
        "raise SystemExit(run_console(JobsSettings(queue_backend='memory')))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert "needs a terminal" in done.stderr


async def test_page_keys_in_the_commands_before_they_are_drawn(sit: Sit, buried: Buried) -> None:
    async with sit() as seat:
        await seat.ready()
        for keys in (("pagedown", "r"), ("r", "pagedown", "pageup"), ("x", "y", "pagedown", "end", "home")):
            await seat.pilot.press("colon", *keys, "escape", "escape")
        await seat.until("Dead letters")


async def test_a_search_that_begins_while_the_commands_are_closed(sit: Sit, buried: Buried) -> None:
    """Keys in a hurry once ended the console so: the list was gone, and the search for it went on."""
    async with sit() as seat:
        await seat.ready()
        await seat.press("colon")
        await seat.until("find an action")
        commands = seat.app.screen
        assert isinstance(commands, Commands)
        await commands.query(CommandList).remove()
        await commands._gather_commands("r").wait()
        commands.dismiss(None)
        await seat.until("Dead letters")


def contrast(style: Style) -> float:
    """Return how many times as bright the lighter of a style's two colours is, as WCAG measures it."""
    assert style.color is not None
    assert style.bgcolor is not None
    light = sorted(_luminance(colour.get_truecolor().hex) for colour in (style.color, style.bgcolor))
    return (light[1] + 0.05) / (light[0] + 0.05)


def _luminance(colour: str) -> float:
    parts = [part / 255 for part in TextualColor.parse(colour).rgb]
    red, green, blue = (part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("scheme", [NIGHT, DAY], ids=lambda scheme: scheme.name)
def test_every_tone_can_be_read_on_every_ground(scheme: Scheme) -> None:
    """Ids on the row under the cursor had a contrast of 1.9, and the counts of an old picture as little."""
    fresh, old = Palette(scheme), Palette(scheme, faded=True)
    for tone in ("text", "strong", "muted", "accent", "good", "warn", "bad"):
        assert min(contrast(fresh.style(f"{tone}/{ground}")) for ground in ("", "cursor", "off", "bar")) >= 4, tone
    assert min(contrast(fresh.style(f"faint/{ground}")) for ground in ("", "cursor", "off", "bar")) >= 3
    assert min(contrast(old.style(tone)) for tone in ("text", "strong")) >= 4
    assert min(contrast(old.style(tone)) for tone in ("muted", "accent", "bad")) >= 3


@pytest.mark.parametrize("scheme", SCHEMES.values(), ids=lambda scheme: scheme.name)
def test_no_text_has_the_colour_of_the_row_under_the_cursor_with_sixteen_colours(scheme: Scheme) -> None:
    palette = Palette(scheme)
    for tone in ("text", "strong", "muted", "faint", "accent", "chart", "good", "warn", "bad"):
        style = palette.style(f"{tone}/cursor")
        assert style.color is not None
        assert style.bgcolor is not None
        numbers = {colour.downgrade(ColorSystem.STANDARD).number for colour in (style.color, style.bgcolor)}
        assert len(numbers) == 2, tone
