"""What a key answers: unbound ones, old sentences, the kept theme, `u` on an operation's row, jobs not counted yet."""

from __future__ import annotations

import asyncio

import pytest

from jobconsole.actions.plan import Target, Verb
from jobconsole.core.connection import Connection
from jobconsole.tui.app import ConsoleApp
from jobconsole.tui.base.messages import PlanReady
from jobconsole.tui.base.themes import DAY, NIGHT, TERMINAL, keep_theme, kept_theme
from jobconsole.tui.widgets.fields import Push
from queue_core import JobQueue
from queue_core.model.operation import Author, OperationRequest
from queue_core.model.states import Status
from tests.tui.conftest import Sit
from tests.tui.seat import NARROW, seated
from tests.tui.still import show, still_app

Buried = dict[str, list[str]]


@pytest.mark.parametrize(("key", "shown"), [("h", "h"), ("f5", "f5"), ("semicolon", ";")])
async def test_a_key_without_an_action_says_so(key: str, shown: str) -> None:
    async with seated(still_app(), NARROW) as seat:
        await show(seat)
        await seat.press(key)
        assert f"{shown} does nothing here; ? lists the keys" in seat.text()


async def test_an_action_that_another_view_has_says_so() -> None:
    async with seated(still_app(), NARROW) as seat:
        await show(seat)
        await seat.press("T")
        assert "T does nothing here; ? lists the keys" in seat.text()


async def test_a_key_before_the_first_picture_is_not_about_nothing() -> None:
    async with seated(still_app(), NARROW) as seat:
        for key in ("R", "D", "enter", "e"):
            await seat.press("h", key)
            assert "still loading; press it again in a moment" in seat.text(), key
            assert "nothing selected" not in seat.text().splitlines()[-2], key
        await show(seat)
        await seat.press("R")
        await seat.until("Retry dead jobs")


async def test_a_key_before_the_connection_is_no_loss() -> None:
    held = asyncio.Event()

    class Slow(Connection):
        async def check(self) -> None:
            await held.wait()
            await super().check()

    async with JobQueue(memory=True) as jobs, seated(ConsoleApp(Slow(jobs)), NARROW) as seat:
        await seat.press("R")
        await seat.until("retry is disabled: still connecting")
        held.set()
        await seat.until("LIVE", but="still connecting")


async def test_an_old_sentence_is_no_answer_to_the_next_key() -> None:
    async with seated(still_app(), NARROW) as seat:
        await show(seat)
        await seat.press("h")
        await seat.press("j")
        assert "does nothing here" in seat.text(), "moving on answers nothing"
        await seat.press("tab", "slash")
        assert "does nothing here" not in seat.text()


async def test_the_theme_is_kept_for_later_consoles() -> None:
    assert kept_theme() == kept_theme("truecolor") == kept_theme("256") == NIGHT.name
    assert kept_theme("standard") == TERMINAL.name, "tones of sixteen colours vanish on its cursor's ground"
    async with seated(still_app(), NARROW) as seat:
        seat.app.set_theme(DAY.name)
        here = seat.app.console.color_system
    assert kept_theme(here) == DAY.name
    keep_theme(DAY.name, "truecolor")
    keep_theme(NIGHT.name, "standard")
    assert kept_theme() == kept_theme("256") == DAY.name
    assert kept_theme("standard") == NIGHT.name, "who chose it there has seen it there"
    for colours, usual in (("truecolor", NIGHT), ("standard", TERMINAL)):
        keep_theme("\x1b[2J no theme", colours)
        assert kept_theme(colours) == usual.name


async def test_u_in_operations_means_the_row_and_an_undone_one_says_by_which(
    sit: Sit, jobs: JobQueue, buried: Buried
) -> None:
    async with sit() as seat:
        await seat.ready()
        await seat.until("TimeoutError")
        await seat.press("D", "enter")
        await seat.until("deleted 5 jobs")
        await seat.until("2 signatures")
        await seat.press("D", "enter")
        await seat.until("deleted 3 jobs")
        await seat.press("4")
        await seat.until("2 kept")
        await seat.press("j", "u")
        await seat.until("undone by #3")
        assert (await jobs.inspector.get(buried["send_email"][0])).trashed_at is None
        assert (await jobs.inspector.get(buried["resize_image"][0])).trashed_at is not None
        await seat.press("u")
        await seat.until("#1 was undone by #3 already")


async def test_the_operation_of_another_person_asks_first(sit: Sit, jobs: JobQueue, buried: Buried) -> None:
    request = OperationRequest("delete", "theirs", Author("ana", "elsewhere"))
    await jobs.operations.submit(request, buried["send_email"])
    async with sit() as seat:
        await seat.ready()
        await seat.press("4")
        await seat.until("1 kept")
        await seat.until("done")
        await seat.press("u")
        await seat.until("Undo an operation of another person")
        assert "ana@elsewhere made it" in seat.text()
        await seat.press("tab", "enter")
        await seat.until("undone by #2")
        states = [(await jobs.inspector.get(one)).status for one in buried["send_email"]]
        assert set(states) == {Status.DEAD}


@pytest.mark.parametrize(
    ("keys", "done"), [("R", "retried 5 jobs"), ("M i m a g e s", "moved 5 jobs")], ids=["retry", "move"]
)
async def test_jobs_that_could_not_be_counted_are_counted_again_when_a_sheet_is_confirmed(
    sit: Sit, buried: Buried, monkeypatch: pytest.MonkeyPatch, keys: str, done: str
) -> None:
    async def lost(verb: Verb, target: Target) -> PlanReady:
        return PlanReady(target, None, "postgres went away")

    async with sit(NARROW) as seat:
        await seat.ready()
        await seat.until("TimeoutError")
        with monkeypatch.context() as away:
            away.setattr(seat.app.operator, "freeze", lost)
            await seat.press(*keys.split(" "))
            await seat.until("postgres went away")
            seat.app.screen.query_one("#go", Push).focus()
            await seat.press("enter")
            await seat.until("postgres went away")
        await seat.press("enter")
        await seat.until(done)
