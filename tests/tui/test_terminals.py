"""The console in terminals with little: no colour, no Unicode, no terminal at all; and keys in any order."""

from __future__ import annotations

import random
import subprocess
import sys
import time

import pytest
from rich.segment import Segment

from jobconsole.core.glyphs import ASCII
from jobconsole.tui.bindings import ACTIONS
from jobconsole.tui.screens.base import View
from jobconsole.tui.themes import SCHEMES
from tests.tui.conftest import Sit
from tests.tui.seat import NARROW, WIDE, Seat

Buried = dict[str, list[str]]
FUZZ_SECONDS = 5.0


def segments(seat: Seat) -> list[Segment]:
    """Return every segment on the screen."""
    return [segment for strip in seat.app.screen._compositor.render_strips() for segment in strip]


async def test_without_colour(sit: Sit, buried: Buried, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with sit(WIDE) as seat:
        await seat.ready()
        await seat.until("TimeoutError")
        for keys in ("R", "escape", "2", "3", "1", "question_mark", "escape", "slash", "escape", "colon", "escape"):
            await seat.press(keys)
            assert all(segment.style is not None for segment in segments(seat))
        assert "❯" in seat.text(), "the cursor shows without colour"


@pytest.mark.parametrize("scheme", SCHEMES)
async def test_themes(sit: Sit, buried: Buried, scheme: str) -> None:
    async with sit() as seat:
        await seat.ready()
        seat.app.set_theme(scheme)
        await seat.until("TimeoutError")
        grounds = {segment.style.bgcolor.name for segment in segments(seat) if segment.style and segment.style.bgcolor}
        assert SCHEMES[scheme].background in grounds


async def test_in_ascii(sit: Sit, buried: Buried) -> None:
    async with sit(WIDE) as seat:
        seat.app.glyphs = ASCII
        await seat.ready()
        await seat.until("TimeoutError")
        for key in ("2", "3", "1"):
            await seat.press(key)
            await seat.pilot.pause(0.4)
            strange = {char for char in seat.text() if not char.isascii()}
            assert strange == set()


@pytest.mark.parametrize("size", [NARROW, WIDE], ids=["80x24", "200x50"])
async def test_any_keys_in_any_order(sit: Sit, buried: Buried, size: tuple[int, int]) -> None:
    seed = random.randrange(1 << 30)
    chance = random.Random(seed)
    keys = [key for action in ACTIONS if action.id != "quit" for key in action.keys.split(",")]
    keys += ["left", "right", "h", "l", "a", "x", "=", "colon", "f5"]
    async with sit(size) as seat:
        await seat.ready()
        end, pressed = time.monotonic() + FUZZ_SECONDS, []
        while time.monotonic() < end:
            key = chance.choice(keys)
            pressed.append(key)
            await seat.pilot.press(key)
            assert seat.app.is_running, (seed, pressed[-30:])
        while not isinstance(seat.app.screen, View):
            await seat.press("escape")
        await seat.press("1")
        await seat.until("Triage")
        assert seat.app.refresher.problem == "", (seed, pressed[-30:])


def test_every_action_has_somebody_who_carries_it_out() -> None:
    from jobconsole.tui.app import ConsoleApp
    from jobconsole.tui.modes import MODES
    from jobconsole.tui.widgets.detail import Detail
    from jobconsole.tui.widgets.joblist import JobTable
    from jobconsole.tui.widgets.queuelist import QueueTable

    owners = [ConsoleApp, Detail, JobTable, QueueTable, *MODES.values()]
    lost = [action.id for action in ACTIONS if not any(hasattr(owner, f"do_{action.id}") for owner in owners)]
    assert lost == []


def test_keys_that_change_are_uppercase_and_keys_are_not_used_twice() -> None:
    assert all(action.keys.isupper() for action in ACTIONS if action.changes and action.id != "undo")
    keys = [key for action in ACTIONS for key in action.keys.split(",")]
    assert len(keys) == len(set(keys))
    assert not {"ctrl+s", "ctrl+q"} & set(keys), "flow control"


def test_without_a_terminal_it_says_what_to_run_instead() -> None:
    program = (
        "from queue_core.settings import JobsSettings\n"
        "from jobconsole.tui.app import run_console\n"
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
