"""States and owners of signatures on Triage: new ones come first, one key takes one."""

from __future__ import annotations

import getpass
from pathlib import Path

from queue_core import JobQueue
from tests.tui.conftest import Sit
from tests.tui.seat import WIDE

Buried = dict[str, list[str]]


async def test_one_key_takes_a_signature_and_gives_it_up(sit: Sit, jobs: JobQueue, buried: Buried) -> None:
    async with sit(WIDE) as seat:
        await seat.ready()
        await seat.until("NEW TimeoutError")
        signature = seat.table("signatures").selection.row.signature
        await seat.press("A")
        await seat.until("yours, A gives it up again")
        _, state = await jobs.signatures.get(signature)
        assert state.facts.owner == getpass.getuser()
        await seat.until(lambda: "NEW TimeoutError" not in seat.text())
        await seat.press("A")
        await seat.until("has no owner now")


async def test_what_others_set_comes_with_the_next_look(sit: Sit, jobs: JobQueue, buried: Buried) -> None:
    async with sit(WIDE) as seat:
        await seat.ready()
        await seat.until("NEW TimeoutError")
        signature = seat.table("signatures").selection.row.signature
        await jobs.signatures.mute(signature, until_growth=10)
        await jobs.signatures.note(signature, "mx-7 throttles us")
        await seat.until("muted TimeoutError")
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
