"""Why jobs died, on the screen: from a value of a breakdown to its jobs, and from one completed payload to another."""

from __future__ import annotations

import json

import pytest

from jobconsole.tui.app import ConsoleApp
from queue_core import JobQueue
from queue_core.client.causes import breakdown as module
from tests.conformance.world import World
from tests.tui.conftest import Sit
from tests.tui.scenes import smtp
from tests.tui.seat import NARROW, WIDE, seated
from tests.tui.still import show, still_app


async def shop(world: World) -> None:
    for number in range(6):
        payload = json.dumps({"region": "eu" if number else "us", "n": number})
        await world.ended("dead", {"failure": smtp()}, type="send_email", queue="mail", payload=payload)
        payload = json.dumps({"region": "us", "n": number})
        await world.ended("completed", {}, type="send_email", queue="mail", payload=payload)


async def test_a_value_leads_to_its_jobs(jobs: JobQueue, world: World) -> None:
    await shop(world)
    async with seated(ConsoleApp(jobs), NARROW) as seat:
        await seat.ready()
        await seat.until("TimeoutError")
        await seat.press("f")
        await seat.until("[Breakdown]")
        await seat.until("region        eu")
        await seat.press("G")
        await seat.until("❯ region")
        await seat.press("enter")
        await seat.until("payload.region=eu")
        await seat.until("5 jobs")


async def test_a_breakdown_is_read_again_as_more_jobs_die(
    jobs: JobQueue, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobconsole.tui.base.causes.AGAIN_SECONDS", 0.0)
    await shop(world)
    async with seated(ConsoleApp(jobs), WIDE) as seat:
        await seat.ready()
        await seat.until("TimeoutError")
        await seat.press("f")
        await seat.until(" 6 dead, ")
        await world.ended("dead", {"failure": smtp()}, type="send_email", queue="mail", payload="{}")
        await seat.press("r")
        await seat.until("jobs 7 ")
        await seat.until(" 7 dead, ")


async def test_payloads_beside_each_other(jobs: JobQueue, world: World) -> None:
    await shop(world)
    async with seated(ConsoleApp(jobs), WIDE) as seat:
        await seat.ready()
        await seat.until("TimeoutError")
        await seat.press("c")
        await seat.until('~ region  "eu"')
        assert "~ n" not in seat.text()
        await seat.until("1 field is equal")
        await seat.press("t")
        await seat.until("= n")
        await seat.press("n")
        await seat.until("~ n ")
        await seat.press("N")
        await seat.until("= n")


async def test_it_is_read_once_the_cursor_rests(sit: Sit, world: World, jobs: JobQueue) -> None:
    """A job whose type has not completed has nothing to be compared with."""
    assert module.READ_SECONDS < 0.5
    await world.ended("cancelled", {}, type="send_email", queue="mail")
    async with sit(WIDE) as seat:
        await seat.ready()
        await seat.press("3")
        await seat.until("send_email")
        await seat.press("enter", "right_square_bracket")
        await seat.until("completed lately")


async def test_a_comparison_names_both_workers_whole_at_80_columns() -> None:
    """'web-1:…' named none: which of many workers, and so which release, is what the line is for."""
    async with seated(still_app(), NARROW) as seat:
        await show(seat)
        await seat.press("c")
        await seat.until("FIELD")
        assert seat.text().count("web-1:4711:0a1b2c") == 2


@pytest.mark.parametrize("size", [(120, 36), (44, 24), (40, 18)], ids=lambda size: f"{size[0]}x{size[1]}")
async def test_a_comparison_names_both_jobs_whole_where_it_is_narrow(size: tuple[int, int]) -> None:
    """An id was cut to what the jobs of one batch have in common."""
    async with seated(still_app(), size) as seat:
        await show(seat)
        await seat.press("c")
        await seat.until("FIELD")
        for part in ("0197f3a2-5c1b-7000-8000-000000000001", "0197f3a2-5c1b-7000-8000-000000000028"):
            assert part in seat.text()
        assert seat.text().count("web-1:4711:0a1b2c") == 2


async def test_sentences_of_a_comparison_are_broken_for_its_width() -> None:
    async with seated(still_app(), (120, 36)) as seat:
        await show(seat)
        await seat.press("c")
        await seat.until("FIELD")
        await seat.press("n")
        await seat.until("newer one")
        assert "types send_email" in seat.text()
