"""States and owners of signatures on Triage: new ones come first, one key takes one."""

from __future__ import annotations

import getpass

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
