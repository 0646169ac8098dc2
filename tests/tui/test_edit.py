"""Edit and retry: the payload of a dead job, changed, becomes a new job; whatever goes wrong, no text is lost."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from textual import events

from jobconsole.tui.base.operator import Operator
from jobconsole.tui.sheets.edit import EditScreen
from jobconsole.tui.widgets.fields import Push
from queue_core import JobQueue
from queue_core.errors import StoreUnavailable
from queue_core.model.job import Job
from queue_core.model.states import Status
from queue_core.model.text import safe
from tests.conformance.world import World
from tests.tui.conftest import Sit
from tests.tui.seat import NARROW, WIDE, Seat

Buried = dict[str, list[str]]
SIZES = pytest.mark.parametrize("size", [NARROW, WIDE], ids=["80x24", "200x50"])
HOSTILE = {
    "a": "\x1b]0;x\x07\x9b31m",
    "b": "\u202eevil\u2066",
    "c": "\u200b\ufeff\u3164",
    "d": ["x" * 5000],
    "e": "\t\r\n",
}


async def editing(seat: Seat) -> EditScreen:
    """Press E and wait for the editor."""
    await seat.press("E")
    await seat.until(lambda: isinstance(seat.app.screen, EditScreen))
    screen = seat.app.screen
    assert isinstance(screen, EditScreen)
    await seat.until("nothing is changed")
    return screen


async def write(seat: Seat, text: str) -> None:
    """Put a text in place of the payload, as a paste does."""
    screen = seat.app.screen
    assert isinstance(screen, EditScreen)
    screen.area.focus()
    screen.area.select_all()
    seat.app.post_message(events.Paste(text))
    await seat.pilot.pause()


async def enqueue(seat: Seat) -> None:
    """Over the reason to the button."""
    seat.app.screen.query_one("#edit-why").focus()
    await seat.press("enter", "enter")


async def newest(jobs: JobQueue) -> Job:
    """Return the job that was enqueued last."""
    page = await jobs.list("", limit=100)
    return await jobs.get(max(page.jobs, key=lambda job: job.id).id)


async def at_the_odd_one(seat: Seat, world: World, payload: str) -> None:
    """Go to the only job, a dead one with this stored payload."""
    await world.ended("dead", payload=payload, type="odd", queue="odd")
    await seat.ready()
    await seat.press("3")
    await seat.until(lambda: seat.table("all-jobs").selection.row is not None)


@SIZES
async def test_a_changed_payload_becomes_a_new_job(
    sit: Sit, jobs: JobQueue, buried: Buried, size: tuple[int, int]
) -> None:
    async with sit(size) as seat:
        await seat.ready()
        await seat.until("TimeoutError")
        await seat.press("enter")
        await seat.until(lambda: seat.table("jobs").selection.row is not None)
        before = await jobs.get(seat.table("jobs").selection.key or "")
        await editing(seat)
        await seat.press("down", "end", "left", *"!", "tab")
        if size == WIDE:
            await seat.press("tab")
        await seat.press(*"typo", "enter", "enter")
        await seat.until("the old job stays dead")
        new = await newest(jobs)
        assert new.payload == {"to": "a@example.org!"}
        assert (new.type, new.queue, new.status) == (before.type, before.queue, Status.QUEUED)
        assert await jobs.get(before.id) == before
        (noted,) = await jobs.operations.list_for_job(before.id)
        assert (noted.request.verb, noted.request.why, noted.note) == ("edit", "typo", new.id)


async def test_on_a_signature_it_is_one_of_its_jobs(sit: Sit, jobs: JobQueue, buried: Buried) -> None:
    async with sit(WIDE) as seat:
        await seat.ready()
        await seat.until("TimeoutError")
        await editing(seat)
        assert "this job alone, out of TimeoutError: smtp <host>:<n>" in seat.text()
        await write(seat, '{"to": "b"}')
        await enqueue(seat)
        await seat.until("the old job stays dead")
        assert (await newest(jobs)).payload == {"to": "b"}
        assert {(await jobs.get(one)).status for one in buried["send_email"]} == {Status.DEAD}


async def test_a_job_that_was_retried_meanwhile_is_named_before_it_is_enqueued(
    sit: Sit, jobs: JobQueue, world: World
) -> None:
    """It had done the work, and the new job did it once more."""
    async with sit(WIDE) as seat:
        await at_the_odd_one(seat, world, '{"to": "a"}')
        old = seat.table("all-jobs").selection.key or ""
        screen = await editing(seat)
        await write(seat, '{"to": "b"}')
        await world.change("retry", [old])
        await world.settle(await world.claim_job(old, queue="odd", types=("odd",)), "completed")
        await enqueue(seat)
        await seat.until("the old job is completed by now, no longer dead; enqueue it once more")
        assert "a new job beside the completed one" in seat.text()
        assert (screen.area.text, await jobs.count("")) == ('{"to": "b"}', 1)
        await enqueue(seat)
        await seat.until("the old job stays completed")
        assert (await newest(jobs)).payload == {"to": "b"}


async def test_a_mistake_is_shown_as_one_types_and_is_not_enqueued(sit: Sit, jobs: JobQueue, buried: Buried) -> None:
    async with sit() as seat:
        await seat.ready()
        await seat.until("TimeoutError")
        screen = await editing(seat)
        await write(seat, '{"to":\n "b" "c"}')
        await seat.until("line 2 column 6: the payload is not JSON: a comma is expected")
        await enqueue(seat)
        await seat.until(lambda: seat.app.screen.focused is screen.area)
        assert screen.area.cursor_location == (1, 5), "the cursor is at the mistake"
        assert await jobs.operations.list_operations() == []
        await write(seat, '{"to": "c"}')
        await enqueue(seat)
        await seat.until("the old job stays dead")


async def test_the_schema_of_the_type_is_held_against_it(sit: Sit, jobs: JobQueue, buried: Buried) -> None:
    schema = {"type": "object", "properties": {"to": {"type": "string"}}, "additionalProperties": False}
    await jobs.store.register_types({"send_email": schema})
    async with sit() as seat:
        await seat.ready()
        await seat.until("TimeoutError")
        await editing(seat)
        await write(seat, '{"to": 5, "cc": []}')
        await seat.until("parameter 'to' must be string, not integer")
        assert "parameter 'cc' is not known" in seat.text()


async def test_leaving_asks_before_it_throws_changes_away(sit: Sit, jobs: JobQueue, buried: Buried) -> None:
    async with sit() as seat:
        await seat.ready()
        await seat.until("TimeoutError")
        screen = await editing(seat)
        await seat.press("escape")
        await seat.until("Dead letters")
        screen = await editing(seat)
        await seat.press("x", "escape")
        await seat.until("Discard your changes?")
        await seat.press("enter")
        await seat.until(lambda: seat.app.screen is screen)
        assert screen.area.text.startswith("x{")
        await seat.press("escape")
        await seat.until("Discard your changes?")
        await seat.press("left", "enter")
        await seat.until("Dead letters")
        assert await jobs.operations.list_operations() == []


async def test_a_store_that_does_not_answer_loses_no_text(
    sit: Sit, jobs: JobQueue, buried: Buried, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*given: Any) -> Any:
        raise StoreUnavailable("postgres", "the connection was closed")

    async with sit() as seat:
        await seat.ready()
        await seat.until("TimeoutError")
        screen = await editing(seat)
        await write(seat, '{"to": "b"}')
        with monkeypatch.context() as patch:
            patch.setattr(jobs.operations, "record", away)
            await enqueue(seat)
            await seat.until("postgres cannot be reached: the connection was closed")
        assert screen.area.text == '{"to": "b"}'
        await enqueue(seat)
        await seat.until("the old job stays dead")
        assert (await newest(jobs)).payload == {"to": "b"}


async def test_a_fault_loses_no_text_and_can_be_left(
    sit: Sit, jobs: JobQueue, buried: Buried, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def faulty(*_: object) -> None:
        raise RuntimeError("a fault of this program")

    monkeypatch.setattr(Operator, "edit", faulty)
    async with sit() as seat:
        await seat.ready()
        await editing(seat)
        await write(seat, '{"to": "somewhere@else.example"}')
        await enqueue(seat)
        await seat.until("RuntimeError: a fault of this program")
        assert "somewhere@else.example" in seat.text()
        await seat.press("escape")
        await seat.until("Discard your changes?")


async def test_two_presses_enqueue_one_job(sit: Sit, jobs: JobQueue, buried: Buried) -> None:
    async with sit() as seat:
        await seat.ready()
        await seat.until("TimeoutError")
        before = await jobs.count("")
        await editing(seat)
        await write(seat, '{"to": "b"}')
        button = seat.app.screen.query_one("#go", Push)
        button.action_press()
        button.action_press()
        await seat.until("the old job stays dead")
        assert await jobs.count("") == before + 1


@SIZES
async def test_without_colour(sit: Sit, buried: Buried, monkeypatch: pytest.MonkeyPatch, size: tuple[int, int]) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with sit(size) as seat:
        await seat.ready()
        await seat.until("TimeoutError")
        await editing(seat)
        await seat.press("x", "shift+right", "shift+down")
        await seat.until("line 1 column 1: the payload is not JSON: a value is expected")
        strips = seat.strips()
        assert all(segment.style is not None for strip in strips for segment in strip)


class TestHostilePayloads:
    """Neither break the editor nor are they changed by an edit elsewhere."""

    async def test_what_a_terminal_obeys(self, sit: Sit, jobs: JobQueue, world: World) -> None:
        async with sit() as seat:
            await at_the_odd_one(seat, world, json.dumps(HOSTILE, ensure_ascii=False))
            screen = await editing(seat)
            text = screen.area.text
            assert safe(text, len(text), newlines=True) == text
            await write(seat, text.replace("{", '{"z": "\x1b[2J\u202e",', 1))
            await seat.press("ctrl+t")
            await seat.until("+   ")
            assert all(char.isprintable() for line in seat.text().splitlines() for char in line)
            await enqueue(seat)
            await seat.until("the old job stays dead")
            assert (await newest(jobs)).payload == HOSTILE | {"z": "\x1b[2J\u202e"}

    async def test_numbers_and_keys_stay_as_they_are_written(self, sit: Sit, jobs: JobQueue, world: World) -> None:
        stored = '{"a":1.10,"b":12345678901234567890,"c":1e400,"d":1E+2,"a":2.0,"e":0}'
        async with sit(WIDE) as seat:
            await at_the_odd_one(seat, world, stored)
            screen = await editing(seat)
            await write(seat, screen.area.text.replace('"e": 0', '"e": 1'))
            await seat.until("1e400 is more than a float can hold")
            assert "the key 'a' stands twice here" in seat.text()
            await enqueue(seat)
            await seat.until("the old job stays dead")
            assert (await newest(jobs)).payload_text == stored.replace('"e":0', '"e":1')

    async def test_a_mebibyte(self, sit: Sit, jobs: JobQueue, world: World) -> None:
        stored = {"long": "x" * 500_000, "many": ["y" * 50] * 9_000}
        async with sit() as seat:
            await at_the_odd_one(seat, world, json.dumps(stored, separators=(",", ":")))
            await editing(seat)
            await seat.press("down", "home", *'"n":1,', "ctrl+t")
            await seat.until("+   ")
            await enqueue(seat)
            await seat.until("the old job stays dead")
            assert (await newest(jobs)).payload == stored | {"n": 1}


class TestWhatIsNotEdited:
    async def test_several_marked_jobs(self, sit: Sit, buried: Buried) -> None:
        async with sit() as seat:
            await seat.ready()
            await seat.until("TimeoutError")
            await seat.press("enter")
            await seat.until(lambda: seat.table("jobs").selection.row is not None)
            await seat.press("space", "j", "space", "E")
            await seat.until("E edits one job at a time; Backspace takes the marks away")

    @pytest.mark.parametrize(
        ("state", "said"),
        [("queued", "it is queued and will run as it is; X cancels it first"), ("running", "it is running; X asks")],
    )
    async def test_jobs_that_have_not_ended(self, sit: Sit, world: World, state: str, said: str) -> None:
        await world.job_in(state)
        async with sit() as seat:
            await seat.ready()
            await seat.press("3")
            await seat.until(lambda: seat.table("all-jobs").selection.row is not None)
            await seat.press("E")
            await seat.until(said)

    async def test_anything_while_the_console_is_read_only(self, sit: Sit, buried: Buried) -> None:
        async with sit(read_only=True) as seat:
            await seat.ready()
            await seat.until("TimeoutError")
            await seat.press("E")
            await seat.until("edit is disabled: this console is read-only")


async def test_it_is_copied_as_a_command(sit: Sit, jobs: JobQueue, buried: Buried, state: Path) -> None:
    copied = state / "jobconsole" / "copied.txt"
    async with sit() as seat:
        await seat.ready()
        await seat.until("TimeoutError")
        await editing(seat)
        await write(seat, '{"to": "it\'s@example.org"}')
        await seat.press("ctrl+y")
        await seat.until("copied as a command")
        words = shlex.split(copied.read_text())
        assert words[:3] == ["jobconsole", "job", "edit"]
        assert words[4:] == ['--payload={"to":"it\'s@example.org"}']
        assert (await jobs.get(words[3])).status == "dead"
        await write(seat, "{")
        await seat.until("the payload is not JSON")
        await seat.press("ctrl+y")
        await seat.until(lambda: "copied as a command" not in seat.text())
        assert len(shlex.split(copied.read_text())) == 5
