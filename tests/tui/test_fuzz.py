"""Any keys in any order, in a window that changes its size, while the store changes: nothing ends, the console answers.

With CONSOLE_LONG for a minute at each size; CONSOLE_SEED chooses another order.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest
from textual.errors import NoWidget

from jobconsole.tui.app import ConsoleApp
from jobconsole.tui.base.bindings import ACTIONS
from jobconsole.tui.screens.view import View
from jobconsole.tui.sheets.confirm import Confirm
from queue_core import JobQueue
from queue_core.errors import FilterError
from queue_core.model.filters import parse
from tests.conformance.world import World
from tests.longer import LONG, SEED
from tests.tui.bustle import bustling
from tests.tui.conftest import Sit
from tests.tui.plans import timetable
from tests.tui.seat import NARROW, WIDE, Seat
from tests.waiting import eventually

SECONDS = 60.0 if LONG else 5.0
BOUND = tuple(key for action in ACTIONS for key in action.keys.split(","))
OTHER = ("left", "right", "h", "l", "a", "x", "=", "f5", "delete", "tab", "escape", "enter", "enter", "j", "down", "é")
WRITTEN = (
    "type:send_email", "err:~smtp age:<1h", 'queue:"a b" !tag:x', "payload.n=3", "[/foo]", "paused", "status:dead",
    "nosuch:field", "日本語", "id:0197", "age:<", '"', "retries:>1 priority:5",
)  # fmt: skip
MOST_WAITING = 20
"""Keys that are pressed before the first of them has been dealt with."""
VIEWS = tuple(action for action in ACTIONS if action.id.startswith("view_"))


class Monkey:
    """Presses keys, clicks, turns the wheel, writes filters, pulls at the window's corner."""

    def __init__(self, seat: Seat, chance: Random) -> None:
        self._seat, self._chance = seat, chance
        # what it did last, for whoever wants to do it again
        self.did: deque[str] = deque(maxlen=40)
        self.views: set[str] = set()
        self.sizes = self.acts = 0

    async def act(self) -> None:
        """Do something."""
        luck = self._chance.random()
        if self._chance.random() < 0.2 and self._held():
            await self._press(self._chance.choice(("escape", "escape", "enter")))
        elif luck < 0.86:
            await self._press(self._chance.choice(BOUND + OTHER))
        elif luck < 0.92:
            await self._press(self._chance.choice(VIEWS).key)
        elif luck < 0.96:
            await self._write()
        elif luck < 0.99:
            await self._point()
        else:
            await self._resize()
        self.acts += 1
        if self._seat.app.view is not None:
            self.views.add(type(self._seat.app.view).__name__)

    async def _press(self, key: str) -> None:
        self.did.append(key)
        await self._keys(key)

    async def _write(self) -> None:
        text = self._chance.choice(WRITTEN)
        self.did.append(f"/{text}")
        await self._keys("slash", *text, self._chance.choice(("enter", "escape", "tab")))

    async def _keys(self, *keys: str) -> None:
        """Press keys, some before the last one has been dealt with."""
        for key in keys:
            self._seat.app.simulate_key(key)
            await asyncio.sleep(self._chance.choice((0, 0, 0.005)))
        assert await eventually(lambda: self._seat.app.message_queue_size <= MOST_WAITING), "it does not answer"

    def _held(self) -> bool:
        """Whether a sheet or the filter takes all keys."""
        screen = self._seat.app.screen
        return not isinstance(screen, View) or (screen.complete and screen.filter_line.is_open)

    async def _point(self) -> None:
        width, height = self._seat.app.size
        at = (self._chance.randrange(width), self._chance.randrange(height))
        times = self._chance.choice((1, 1, 2))
        self.did.append(f"click{at}x{times}")
        # A screen that was just opened is not drawn yet: a terminal's click there is nothing, the pilot's an error.
        with suppress(NoWidget):
            await self._seat.pilot.click(offset=at, times=times)

    async def _resize(self) -> None:
        size = self._chance.choice(
            (NARROW, WIDE, (60, 20), (self._chance.randint(60, 200), self._chance.randint(20, 50)))
        )
        self.did.append(f"size{size}")
        self.sizes += 1
        await self._seat.pilot.resize_terminal(*size)


@pytest.mark.timeout(SECONDS + 100)
@pytest.mark.parametrize("size", [NARROW, WIDE], ids=["80x24", "200x50"])
async def test_any_keys_in_any_order(
    sit: Sit, jobs: JobQueue, world: World, buried: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    size: tuple[int, int],
) -> None:  # fmt: skip
    # Where `e` writes its files.
    monkeypatch.chdir(tmp_path)
    # Leaving is an end that is wanted, by key, by mouse or by the commands.
    monkeypatch.setattr(ConsoleApp, "do_quit", lambda self: None)
    await timetable(jobs, world)
    seed = SEED * 1_000 + size[0]
    async with bustling(jobs, world, seed) as bustle, sit(size, drawn=True) as seat:
        await seat.ready()
        monkey, end = Monkey(seat, Random(seed)), time.monotonic() + SECONDS
        # A slow machine has more time, until it has been around.
        while time.monotonic() < end or len(monkey.views) < 3 or not monkey.sizes:
            await monkey.act()
            assert seat.app.is_running, (seed, list(monkey.did))
            assert seat.app.refresher.problem == "", (seed, list(monkey.did))
        assert bustle.steps > SECONDS
        await calm(seat, size)
        for view in VIEWS:
            await seat.press(view.key)
            await seat.until(lambda view=view: seat.app.place == view.id and seat.view.complete)
            await seat.until(view.label)
        assert seat.app.refresher.problem == "", (seed, list(monkey.did))


async def calm(seat: Seat, size: tuple[int, int]) -> None:
    """Come back to a view of this size, without sheets and full screens."""
    await seat.pilot.resize_terminal(*size)
    while not isinstance(seat.app.screen, View):
        # With Esc the question whether to drop what was edited leads back to it.
        await seat.press(*(("down", "enter") if isinstance(seat.app.screen, Confirm) else ("escape",)))
    if seat.app.frozen:
        await seat.press("escape", "escape", "p")
    for view in VIEWS:
        await seat.press("escape", view.key)
        while seat.view.can_go_back():
            await seat.press("escape")


def test_what_is_written_is_understood_or_refused() -> None:
    refused = []
    for text in WRITTEN:
        try:
            parse(text)
        except FilterError:
            refused.append(text)
    assert refused == ["nosuch:field", "age:<", '"']
