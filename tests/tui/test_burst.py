"""Keys that come at once have the same effect as keys with pauses between them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from textual import events
from textual.pilot import Pilot
from textual.widgets import Input

from jobconsole.core.connection import Connection
from jobconsole.tui.app import ConsoleApp
from jobconsole.tui.screens.help import Commands
from jobconsole.tui.screens.view import View
from jobconsole.tui.sheets.edit import EditScreen
from queue_core import JobQueue
from queue_core.errors import StoreUnavailable
from tests.tui.asking import in_state
from tests.tui.conftest import Sit
from tests.tui.seat import NARROW, Seat, seated
from tests.tui.still import show, still_app
from tests.waiting import eventually

Buried = dict[str, list[str]]
NAMES = {"?": "question_mark", "/": "slash", ":": "colon", "_": "underscore", " ": "space", "~": "tilde"}

# keys, and what is on the screen after them
BURSTS = (
    ("R down down x y", "retry: a line further down is typed into"),
    ("R tab down escape", "back, and the cursor has not moved"),
    ("D N o t e", "delete: a reason would be typed only in its field"),
    ("M i m a g e s down", "move: the queue is typed"),
    ("Z down", "the state of a signature"),
    ("W n o t e space r R D", "a note: capitals are letters there"),
    ("? down down pagedown", "help scrolls"),
    ("? escape j", "help is left, and the cursor moves"),
    ("2 tab tab", "another view"),
    ("3 enter ] ]", "a job, and its third tab"),
    ("enter ] escape", "in and out of a signature"),
    ("/ t y p e : s e n d _ e m a i l enter", "a filter"),
    (": p a g e", "the commands"),
    ("e down", "the format of an export"),
)


def key_of(name: str) -> events.Key:
    """Return the event of a key."""
    key = NAMES.get(name, name)
    return events.Key(key, " " if name == "space" else name if len(name) == 1 else None)


async def type_on(seat: Seat, *names: str) -> None:
    """Send keys, whatever becomes of those before them."""
    for name in names:
        seat.app.post_message(key_of(name))
    await seat.pilot.pause(0.1)


async def burst(seat: Seat, names: Sequence[str]) -> None:
    """Send keys as a terminal does that had them all in its buffer."""
    await type_on(seat, *names)
    await seat.until(lambda: not seat.app._taking_turns)


def chosen(seat: Seat) -> str:
    """Return the signature under the cursor."""
    row = seat.table("signatures").selection.row
    assert row is not None
    return str(row.signature)


async def picture(keys: Sequence[str], at_once: bool) -> tuple[str, str, str]:
    """Return what is on the screen after keys, where the focus is, and what is in the fields."""
    async with seated(still_app(), NARROW) as seat:
        await show(seat)
        if at_once:
            await burst(seat, keys)
        else:
            for key in keys:
                await burst(seat, [key])
                await seat.pilot.pause(0.1)
        for _ in range(3):
            await seat.pilot.pause(0.2)
        screen, focused = seat.app.screen, seat.app.focused
        fields = [one.value for one in screen.query(Input)]
        cursor = str(seat.view.focused)
        seat.view.flush()
        for widget in seat.view.line_widgets():
            widget.repaint()
        await seat.pilot.pause()
        return f"{type(screen).__name__} {focused} over {cursor}", str(fields), seat.text()


@pytest.mark.parametrize("keys", [keys for keys, _ in BURSTS], ids=[about for _, about in BURSTS])
async def test_at_once_or_one_by_one(keys: str) -> None:
    slow, fast = await picture(keys.split(" "), False), await picture(keys.split(" "), True)
    assert fast == slow


async def test_a_retry_in_one_go(sit: Sit, jobs: JobQueue, buried: Buried) -> None:
    """`R` and Enter, and `2` for the view below: in this order, whatever is ready when."""
    async with sit() as seat:
        await seat.ready()
        await seat.until("TimeoutError")
        await burst(seat, ["R", "enter", "2"])
        await seat.until("Queues")
        await seat.until("retried 5 jobs")
        assert await in_state(jobs, "dead") == 5


async def test_a_filter_and_a_change_of_what_it_finds_in_one_go(sit: Sit, jobs: JobQueue, buried: Buried) -> None:
    """The change was off while the list was read, and the letters of its reason acted on the list."""
    async with sit() as seat:
        await seat.ready()
        await seat.until("TimeoutError")
        await burst(seat, ["/", *"type:sync_crm", "enter", "D", "up", *"seen", "enter", "enter"])
        await seat.until("deleted 2 jobs")
        assert await in_state(jobs, "dead") == 8


async def test_an_enter_of_before_the_console_had_the_terminal_is_one(sit: Sit, jobs: JobQueue, buried: Buried) -> None:
    """The terminal makes a line feed of it: it was lost, and the keys behind it were typed into the filter."""
    async with sit() as seat:
        await seat.ready()
        await seat.until("TimeoutError")
        await burst(seat, ["/", *"type:sync_crm", "ctrl+j", "D", "ctrl+j"])
        await seat.until("deleted 2 jobs")
        assert await in_state(jobs, "dead") == 8


@pytest.mark.parametrize("key", ["R", "D", "Z", "V", "W", "M", "e", "E", "b", "?", ":"])
async def test_no_key_reaches_the_list_below(key: str, sit: Sit, buried: Buried) -> None:
    async with sit() as seat:
        await seat.ready()
        await seat.until("TimeoutError")
        row = chosen(seat)
        await burst(seat, [key, "down", "j", "k", "G"])
        assert seat.app.screen is not seat.view
        assert seat.app.focused is not None
        assert chosen(seat) == row
        assert not seat.table("signatures").selection.marks


async def test_a_sheet_that_is_not_opened_takes_its_keys_with_it(
    sit: Sit, buried: Buried, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was typed for the editor is nothing for the list."""
    async with sit() as seat:
        await seat.ready()
        await seat.until("TimeoutError")
        row = chosen(seat)
        reading = asyncio.Event()

        async def lost(job_id: str) -> None:
            await reading.wait()
            raise StoreUnavailable("PostgreSQL", "it is away")

        monkeypatch.setattr(seat.app.refresher, "original", lost)
        await type_on(seat, "E", "down", "D")
        reading.set()
        await seat.until("cannot be reached")
        await seat.until(lambda: not seat.app._taking_turns)
        assert seat.app.screen is seat.view
        assert chosen(seat) == row
        await burst(seat, ["down"])
        assert chosen(seat) != row


async def test_escape_gives_a_sheet_up_that_is_still_read(
    sit: Sit, buried: Buried, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with sit() as seat:
        await seat.ready()
        await seat.until("TimeoutError")

        async def never(job_id: str) -> None:
            await asyncio.Event().wait()

        monkeypatch.setattr(seat.app.refresher, "original", never)
        await type_on(seat, "E", "down")
        await burst(seat, ["escape"])
        await seat.until("given up")
        row = chosen(seat)
        await burst(seat, ["down"])
        assert chosen(seat) != row
        assert not isinstance(seat.app.screen, EditScreen)


async def test_the_commands_choose_what_was_typed(sit: Sit, buried: Buried) -> None:
    """Enter once chose from the list before the search for the last letters."""
    async with sit() as seat:
        await seat.ready()
        await burst(seat, [":", *"view", "space", "5"])
        assert isinstance(seat.app.screen, Commands)
        await burst(seat, ["escape", "escape", ":", *"resync", "enter", "enter"])
        await seat.until("reading everything again")


async def test_a_key_works_out_once_what_its_bar_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    """For every binding and every key of the bar it was worked out again: a third of the processor time of a key."""
    looks: list[View] = []
    missing = View.missing

    def noted(view: View) -> frozenset[str]:
        looks.append(view)
        return missing(view)

    async with seated(still_app()) as seat:
        await show(seat)
        monkeypatch.setattr(View, "missing", noted)
        await burst(seat, "jkjkjkjkjk")
    # Its binding, whether it is on, the key itself, and the bar once.
    assert 10 <= len(looks) <= 60


async def test_tasks_begin_in_their_turn(jobs: JobQueue) -> None:
    """Run as a program is: from Python 3.12 on, Textual would let them begin at once, and the console not start."""
    drawn: list[bool] = []

    async def look(pilot: Pilot[int]) -> None:
        assert await eventually(lambda: app.view is not None)
        drawn.append(asyncio.get_running_loop().get_task_factory() is None)
        app.exit()

    app = ConsoleApp(Connection(lambda: jobs))
    await app.run_async(headless=True, size=NARROW, auto_pilot=look)
    assert (drawn, app._exception) == ([True], None)
