"""Text of jobs is an attacker's: nothing of it reaches the terminal raw, and no markup in it ends the console."""

from __future__ import annotations

import pytest

from queue_core import JobQueue
from queue_core.model.events import Event, EventBatch
from queue_core.model.filters import parse
from queue_core.model.schedule import Schedule
from queue_core.model.text import storable
from tests.conformance.making import failure
from tests.conformance.world import World
from tests.tui.conftest import Sit
from tests.tui.plans import announce, tick
from tests.tui.scenes import dead
from tests.tui.seat import NARROW, WIDE, Seat

EVIL = (
    "boom [/foo] [bold]x[/bold] \x1b]0;owned\x07\x1b[2J\x9b31m \u202eevil\u200b [@click=app.quit]go[/] \x00 "
    "日本語 \U0001f469\u200d\U0001f467 e\u0301"
)
FORBIDDEN = {chr(code) for code in (*range(32), *range(0x7F, 0xA0), 0x202E, 0x200B)} - {"\n"}


def assert_harmless(seat: Seat) -> None:
    """Nothing on the screen controls a terminal."""
    text = seat.text()
    assert not [text[max(0, at - 40) : at + 20] for at, char in enumerate(text) if char in FORBIDDEN]
    assert all(strip.cell_length == seat.app.size.width for strip in seat.strips())


@pytest.mark.parametrize("size", [NARROW, WIDE], ids=["80x24", "200x50"])
async def test_hostile_text_everywhere(sit: Sit, jobs: JobQueue, world: World, size: tuple[int, int]) -> None:
    text = storable(EVIL)
    trace = (
        f'Traceback (most recent call last):\n  File "/srv/{text}.py", line 1, in {text}\n    {text}\n{text}: {text}\n'
    )
    why = failure(text, exception=text, traceback=trace, signature="eeeeeeeeeeee", title=text)
    given = {"type": text, "queue": text, "tags": (text,), "payload": '{"[red]": "\\u001b[2J\\u202e [/x]"}'}
    await dead(world, 3, why, **given)
    claim = await world.running(**given)
    await announce(jobs, Schedule(text[:100], "* * * * *", "UTC", text, given["payload"], text, ordering_key=text), 60)
    await announce(jobs, Schedule("plain", text, text, text, text, text), 60)
    await tick(jobs, text[:100])
    await world.beat(types=(text,), queues=(text,), host=text, version=text)
    async with sit(size, drawn=True, hints=[f"{text}: {text}"]) as seat:
        await seat.ready()
        await seat.until("boom [/foo]")
        for keys in (
            "tab tab tab", "enter", "enter", "]", "]", "t", "R", "escape", "escape", "2", "tab", "X", "escape", "enter",
            "escape", "3", "space", "D", "escape", "question_mark", "escape", "y", "P", "slash", "escape",
            "5", "j", "k", "P", "T", "escape", "enter", "end", "tab", "enter", "escape", "Y", "escape", "y", "6",
        ):  # fmt: skip
            await seat.press(*keys.replace("]", "right_square_bracket").split())
            assert_harmless(seat)
        one = Event("dead", text, claim.id, text, 1, {"error": text, text: text})
        for event in (one, Event(text, text, text, text, extra={"worker": text})):
            seat.app.model.apply(EventBatch(text, "g", 1, 0.0, [event]))
        await seat.until("2 events since ")
        for keys in ("j", "enter", "escape", "slash", "escape", "Y", "question_mark", "escape"):
            await seat.press(keys)
            assert_harmless(seat)
        seat.app.show_notice(text, "warn")
        await seat.pilot.pause()
        assert_harmless(seat)
    assert claim.id


async def test_a_filter_of_control_characters_is_harmless_in_sheets(sit: Sit, buried: dict[str, list[str]]) -> None:
    async with sit(drawn=True) as seat:
        await seat.ready()
        for view, name in (("1", "signatures"), ("3", "all-jobs")):
            await seat.press(view)
            await seat.until(lambda name=name: seat.table(name).selection.rows)
            # As pasted, or from a link.
            seat.view.filter_line.hold(parse('!"\x1b]0;owned\x07"'), '!"\x1b]0;owned\x07"')
            await seat.until("/!")
            await seat.until(lambda name=name: seat.table(name).selection.rows)
            await seat.press("asterisk", "R")
            await seat.until("owned")
            assert_harmless(seat)
            await seat.press("escape", "escape")


async def test_hostile_text_in_the_filter(sit: Sit, buried: dict[str, list[str]]) -> None:
    async with sit(drawn=True) as seat:
        await seat.ready()
        await seat.press("slash", *"[/foo]", "enter")
        await seat.until("0 signatures")
        assert "/[/foo]" in seat.text()
        assert_harmless(seat)
