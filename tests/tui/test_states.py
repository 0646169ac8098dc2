"""States, owners and notes of signatures: new ones come first, one key takes one, three open their sheet, u undoes."""

from __future__ import annotations

import getpass
import re
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from queue_core import JobQueue
from queue_core.model.operation import Author
from queue_core.model.report import SignatureInfo
from queue_core.model.triage.checks import LONGEST_NOTE
from queue_core.model.triage.signatures import NEXT, SignatureFacts, SignatureState
from tests.conformance.world import World
from tests.tui.asking import SYNC
from tests.tui.conftest import Sit
from tests.tui.scenes import crm, dead
from tests.tui.seat import COMPACT, LOW, NARROW, WIDE, Seat

Buried = dict[str, list[str]]
BO = Author("bo", "desk-2")
SMTP, CRM = "9f31c2aaaaaa", "77aa00cccccc"
EVERY = pytest.mark.parametrize("size", [COMPACT, NARROW, WIDE], ids=["60x20", "80x24", "200x50"])


async def state_of(jobs: JobQueue, signature: str = SMTP) -> SignatureState:
    return (await jobs.signatures.known(signature))[1]


async def at(seat: Seat, signature: str = SMTP) -> None:
    """Put the cursor on a signature."""
    await seat.ready()
    table = seat.table("signatures")
    await seat.until(lambda: signature in table.selection.places)
    await seat.until(lambda: table.states)
    table.move_to(table.selection.places[signature])


def stated(seat: Seat, word: str) -> bool:
    """Whether the list has the signature in this state: before its title, or in a column of a wide screen."""
    return re.search(rf"\b{word} .*TimeoutError", seat.text()) is not None


async def test_one_key_takes_a_signature_and_gives_it_up(sit: Sit, jobs: JobQueue, buried: Buried) -> None:
    async with sit(WIDE) as seat:
        await seat.ready()
        await seat.until(lambda: stated(seat, "NEW"))
        signature = seat.table("signatures").selection.row.signature
        await seat.press("A")
        await seat.until(f"owner {getpass.getuser()}, u undoes it")
        _, state = await jobs.signatures.get(signature)
        assert state.facts.owner == getpass.getuser()
        await seat.until(lambda: not stated(seat, "NEW"))
        await seat.press("A")
        await seat.until("no owner, u undoes it")
        assert not (await state_of(jobs, signature)).owner
        await seat.press("u", "u")
        await seat.until("undone: the owner of TimeoutError")
        await seat.until(lambda: not seat.app.operator.undoable)
        assert not (await state_of(jobs, signature)).owner


async def test_what_others_set_comes_with_the_next_look(sit: Sit, jobs: JobQueue, buried: Buried) -> None:
    async with sit(WIDE) as seat:
        await seat.ready()
        await seat.until(lambda: stated(seat, "NEW"))
        signature = seat.table("signatures").selection.row.signature
        await jobs.signatures.mute(signature, until_growth=10)
        await jobs.signatures.note(signature, "mx-7 throttles us")
        await seat.until(lambda: stated(seat, "muted"))
        await seat.until("mx-7 throttles us")


async def test_the_runbook_is_shown_and_copied_and_then_the_id(
    sit: Sit, jobs: JobQueue, buried: Buried, state: Path
) -> None:
    await jobs.store.register_types({"send_email": {"type": "object", "x-runbook": "https://run.example.org/smtp"}})
    copied = state / "jobconsole" / "copied.txt"
    async with sit(WIDE) as seat:
        await seat.ready()
        await seat.until("https://run.example.org/smtp (task send_email)")
        await seat.press("y")
        await seat.until("copied the runbook; y again copies the id: https://run.example.org/smtp")
        assert copied.read_text() == "https://run.example.org/smtp\n"
        await seat.press("y")
        await seat.until("copied the signature's id 9f31c2aaaaaa")
        assert copied.read_text() == "9f31c2aaaaaa\n"
        await seat.press("j", "y")
        await seat.until(lambda: copied.read_text().strip() == seat.table("signatures").selection.row.signature)
        await seat.press("k", "R")
        await seat.until("runbook  https://run.example.org/smtp")


@EVERY
async def test_a_mute_is_set_and_undone(sit: Sit, jobs: JobQueue, buried: Buried, size: tuple[int, int]) -> None:
    async with sit(size) as seat:
        await at(seat)
        await seat.press("Z")
        await seat.until("[4h]")
        await seat.until("Silent and last in the list for that time; its deaths")
        assert (await state_of(jobs)).word == "new"
        await seat.press("enter")
        await seat.until("muted for 4h, u undoes it")
        await seat.until("muted 4h" if size != COMPACT else "muted")
        state = await state_of(jobs)
        assert state.word == "muted"
        assert state.facts.until is not None
        await seat.press("u")
        await seat.until("undone: the mute of")
        assert (await state_of(jobs)).word == "new"


async def test_a_release_is_chosen_or_typed(sit: Sit, jobs: JobQueue, buried: Buried) -> None:
    async with sit() as seat:
        await at(seat)
        await seat.press("V")
        # No worker here has announced a release.
        await seat.until("[now]")
        await seat.press("left", "enter")
        await seat.until("resolved in the next release, u undoes it")
        assert (await state_of(jobs)).facts.release == NEXT
        await seat.press("V", *"r126")
        await seat.until("Deaths on r126 or older stay counted and do not bring it back")
        await seat.press("enter")
        await seat.until("resolved in r126, u undoes it")
        assert (await state_of(jobs)).facts.release == "r126"
        await seat.press("V")
        await seat.until("[in r126]")
        await seat.press("right", "right", "right", "enter")
        await seat.until("not resolved, u undoes it")
        assert (await state_of(jobs)).word == "known"


async def test_muted_and_resolved_exclude_each_other(sit: Sit, jobs: JobQueue, buried: Buried) -> None:
    await jobs.signatures.mute(SMTP, for_="1h")
    async with sit() as seat:
        await at(seat)
        await seat.until("muted 1h")
        await seat.press("V")
        await seat.until("[now]")
        await seat.until("[not]")
        await seat.press("down", "right")
        await seat.until("[not resolved]")
        await seat.press("up", "left")
        await seat.until("[not]")
        await seat.press("enter")
        await seat.until("resolved as of now, u undoes it")
        state = await state_of(jobs)
        assert (state.word, state.facts.until) == ("resolved", None)


async def test_owner_and_note_are_one_change_for_undo(sit: Sit, jobs: JobQueue, buried: Buried) -> None:
    await jobs.signatures.note(SMTP, "mx-7 throttles us", link="https://issues.example.org/81")
    async with sit() as seat:
        await at(seat)
        await seat.press("W")
        await seat.until("mx-7 throttles us_")
        await seat.press(*" again", "up", *"ana", "enter")
        await seat.until("owner ana, note kept, u undoes it")
        state = await state_of(jobs)
        assert (state.facts.owner, state.facts.note) == ("ana", "mx-7 throttles us again")
        assert state.facts.link == "https://issues.example.org/81"
        await seat.press("u")
        await seat.until("undone: the owner and note of")
        state = await state_of(jobs)
        assert (state.facts.owner, state.facts.note) == ("", "mx-7 throttles us")
        assert len(await seat.app.connection.operations.list_operations(10)) == 5


async def test_what_cannot_be_is_not_saved(sit: Sit, jobs: JobQueue, buried: Buried) -> None:
    async with sit() as seat:
        await at(seat)
        await seat.press("W", *("x" * 30), "up", "up", *"12")
        await seat.until("'12' is no time: 90m, 2d, 09:00, or 10x for until it grows so often")
        await seat.press("enter")
        await seat.until("owner")
        assert seat.app.screen is not seat.view
        await seat.press("escape")
        await seat.until(lambda: seat.app.screen is seat.view)
        assert (await state_of(jobs)).facts.changes == ()


async def test_a_note_takes_no_more_than_the_store(sit: Sit, jobs: JobQueue, buried: Buried) -> None:
    async with sit(WIDE) as seat:
        await at(seat)
        await seat.press("W")
        await seat.until("one line, which every console shows")
        field = seat.app.screen.query_one("#note")
        field.typed = "y" * (LONGEST_NOTE - 1)
        await seat.press("z", "z", "enter")
        await seat.until("note kept, u undoes it")
        assert (await state_of(jobs)).facts.note == "y" * (LONGEST_NOTE - 1) + "z"


async def test_marked_ones_get_the_same_and_keep_the_rest(sit: Sit, jobs: JobQueue, buried: Buried) -> None:
    await jobs.signatures.own(SMTP, "ana")
    async with sit() as seat:
        await at(seat)
        await seat.press("g", "space", "space", "space", "Z")
        await seat.until("3 signatures")
        await seat.until("[as they are]")
        await seat.press("enter")
        await seat.until("muted for 4h, u undoes it: 3 signatures")
        states = [await state_of(jobs, name) for name in (SMTP, CRM)]
        assert [state.word for state in states] == ["muted", "muted"]
        assert (await state_of(jobs)).facts.owner == "ana"
        await seat.press("u")
        await seat.until("undone: the mute of 3 signatures")
        assert (await state_of(jobs, CRM)).word == "new"


async def test_the_sheet_is_copied_as_commands(sit: Sit, jobs: JobQueue, buried: Buried, state: Path) -> None:
    copied = state / "jobconsole" / "copied.txt"
    async with sit() as seat:
        await at(seat)
        await seat.press("Z", "right", "right", "right", "down", "right", "ctrl+y")
        await seat.until("copied as a command")
        commands = (f"own {SMTP} --to={getpass.getuser()}", f"mute {SMTP} --until-growth=2")
        assert copied.read_text() == " && ".join(f"jobconsole dlq {one}" for one in commands) + "\n"


async def test_others_were_quicker(sit: Sit, jobs: JobQueue, buried: Buried) -> None:
    async with sit() as seat:
        await at(seat)
        await seat.press("W", *"here")
        await jobs.signatures.own(SMTP, "bo")
        await seat.until("changed by others since this was opened: only your changes are saved")
        await seat.press("enter")
        await seat.until("note kept")
        state = await state_of(jobs)
        assert (state.facts.owner, state.facts.note) == ("bo", "here")


async def test_a_second_console_shows_it_within_two_seconds(
    sit: Sit, jobs: JobQueue, buried: Buried, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobconsole.tui.base.refresher.COMPARE_SECONDS", 60.0)
    async with sit(WIDE) as first, sit(WIDE) as second:
        await at(first)
        await at(second)
        await first.press("W", *"mx-7 throttles us", "enter")
        await first.until("note kept")
        saved = time.monotonic()
        await second.until("mx-7 throttles us")
        assert time.monotonic() - saved < 2.0


async def test_a_read_only_console_has_a_sentence(sit: Sit, jobs: JobQueue, buried: Buried) -> None:
    async with sit(read_only=True) as seat:
        await at(seat)
        assert "Z mute" not in seat.text()
        for key in "ZVWA":
            await seat.press(key)
            await seat.until("this console is read-only")
            assert seat.app.screen is seat.view
            await seat.press("j")
        assert (await state_of(jobs)).facts.changes == ()


async def test_a_low_screen_has_a_sentence(sit: Sit, jobs: JobQueue, buried: Buried) -> None:
    async with sit(LOW) as seat:
        await at(seat)
        await seat.press("V")
        await seat.until("the sheet needs 18 lines")


async def test_it_is_undone_where_operations_are_listed(sit: Sit, jobs: JobQueue, buried: Buried) -> None:
    await jobs.signatures.own(SMTP, "ana")
    async with sit() as seat:
        await seat.ready()
        await seat.press("4")
        await seat.until("✓ done")
        await seat.press("u")
        await seat.until("undone by #2")
        await seat.until("undone: ana")
        assert (await state_of(jobs)).owner == ""


async def retry_with_success(seat: Seat, world: World) -> None:
    """Retry both jobs of a signature; they succeed."""
    await at(seat, CRM)
    await seat.press("R", "enter")
    await seat.until("retried 2 jobs")
    for claim in await world.claim(2, queue="crm", types=("sync_crm",)):
        await world.settle(claim, "completed")
    await seat.until("2 of 2 completed; V resolves KeyError: <str>")


async def test_resolving_is_offered_once_all_have_succeeded(
    sit: Sit, jobs: JobQueue, world: World, buried: Buried
) -> None:
    async with sit() as seat:
        await retry_with_success(seat, world)
        await seat.press("V")
        await seat.until("no dead job left")
        await seat.press("enter")
        await seat.until("resolved as of now, u undoes it")
        assert (await state_of(jobs, CRM)).word == "resolved"


async def test_the_sheet_of_what_was_retried_counts_what_has_died_since(
    sit: Sit, jobs: JobQueue, world: World, buried: Buried
) -> None:
    async with sit() as seat:
        await retry_with_success(seat, world)
        await dead(world, 3, crm(), **SYNC)
        await seat.until(lambda: [row.count for row in signatures_of(seat) if row.signature == CRM] == [3])
        await seat.press("V")
        await seat.until("3 jobs, sync_crm")


def signatures_of(seat: Seat) -> Sequence[SignatureInfo]:
    snapshot = seat.app.model.snapshot
    return snapshot.signatures if snapshot is not None else ()


async def test_hostile_owners_and_notes_are_shown_safely(sit: Sit, jobs: JobQueue, world: World) -> None:
    await world.beat()
    await dead(world, 1, crm(), **SYNC)
    facts = (await state_of(jobs, CRM)).facts
    hostile = "\x1b]52;c;aGk=\x07\u202e\n" + "a" * 400
    await world.operations.set_facts(CRM, facts, _given(facts, hostile))
    async with sit() as seat:
        await at(seat, CRM)
        await seat.press("W")
        await seat.until("owner")
        assert not set(seat.text()) & {"\x1b", "\x07", "\u202e"}
        await seat.press("escape")


def _given(facts: SignatureFacts, text: str) -> SignatureFacts:
    return replace(facts, owner=text[:64], note=text, note_by=text, link=text, state="resolved", release=text, by=text)


async def test_what_another_sets_at_the_same_time_is_shown_whoever_was_the_last(
    sit: Sit, jobs: JobQueue, buried: Buried
) -> None:
    """Both notes were called kept, and one was not there any more."""
    async with sit(NARROW) as seat:
        await at(seat)
        await seat.press("W")
        await seat.until("❯ note")
        await jobs.signatures.note(SMTP, "restart mx-7", author=BO)
        await seat.press(*"mx-8", "enter")
        await seat.until("a note of bo was set meanwhile, and is replaced: TimeoutError")
        assert (await state_of(jobs)).facts.note == "mx-8"
        await seat.press("A")
        await seat.until(f"owner {getpass.getuser()}, u undoes it")
        await jobs.signatures.own(SMTP, "bo", author=BO)
        await seat.until("owner bo was set since, in place of yours: TimeoutError")
        await seat.press("A")
        await seat.until(f"owner {getpass.getuser()}, u undoes it")
        await seat.press("u")
        await seat.until("undone: the owner of TimeoutError")
        assert (await state_of(jobs)).facts.owner == "bo"
