"""`jobconsole schedule`: what it shows, what it changes, and what it says about mistakes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest

from queue_core.model.schedule import Announcement, Schedule
from tests.cli.conftest import Scene
from tests.cli.running import Cli
from tests.cli.test_usage import NOWHERE
from tests.conformance.making import new_job
from tests.conformance.test_schedules import tick_of
from tests.conformance.world import World

HOUR = 3600.0
NIGHTLY = Schedule("nightly", "0 3 * * *", "Europe/Paris", "report", '{"n":1}', "reports", 10, 2)


async def scene(world: World) -> None:
    """One schedule that has ticked, one that is late, one that is paused, and one that wants to rule the terminal."""
    now = float(int(await world.now()))
    later = [NIGHTLY, NIGHTLY._replace(name="weekly", cron="0 3 * * MON", tz="UTC")]
    hostile = NIGHTLY._replace(name="x\x1b[2J", type="\x1b]0;owned\x07", queue="q")
    await world.schedules.announce([Announcement(one, now + HOUR) for one in (*later, hostile)])
    await world.schedules.announce([Announcement(NIGHTLY._replace(name="late", queue="q"), now - HOUR)])
    await world.schedules.pause("weekly")
    (planned,) = [one for one in (await world.schedules.planning()).schedules if one.schedule == NIGHTLY]
    job = new_job(id="01900000-0000-7000-8000-000000000001", queue="reports", type="report")
    await world.schedules.fire(tick_of(planned)._replace(job=job))


@pytest.fixture
def planned(cli: Cli, play: Callable[[Scene], None]) -> Cli:
    play(scene)
    return cli


def schedules(cli: Cli) -> dict[str, dict[str, object]]:
    return {one["name"]: one for one in cli("schedule", "list", "--json").body["schedules"]}


def test_the_table(planned: Cli) -> None:
    answer = planned("schedule", "list")
    assert (answer.code, answer.err) == (0, "")
    moment = "2000-01-01 00:00:00Z"
    lines = [line.split("  ") for line in answer.still.splitlines()]
    rows = [[cell.strip() for cell in line if cell.strip()] for line in lines]
    assert rows == [
        ["NAME", "CRON", "ZONE", "STATE", "NEXT", "LAST", "TYPE", "QUEUE"],
        ["late", "0 3 * * *", "Europe/Paris", "late", moment, "-", "report", "q"],
        ["nightly", "0 3 * * *", "Europe/Paris", "open", moment, moment, "report", "reports"],
        ["weekly", "0 3 * * MON", "UTC", "paused", "-", "-", "report", "reports"],
        ["x␛[2J", "0 3 * * *", "Europe/Paris", "open", moment, "-", "␛]0;owned␇", "q"],
    ]


def test_the_same_as_json(planned: Cli) -> None:
    body = planned("schedule", "list", "--json").body
    assert body["now"].endswith("+00:00")
    nightly, weekly = schedules(planned)["nightly"], schedules(planned)["weekly"]
    assert (nightly["cron"], nightly["tz"], nightly["type"], nightly["queue"]) == (*NIGHTLY[1:4], "reports")
    assert (nightly["payload"], nightly["priority"], nightly["max_retries"]) == ('{"n":1}', 10, 2)
    assert (nightly["state"], nightly["paused"]) == ("open", False)
    assert nightly["last_job"] == "01900000-0000-7000-8000-000000000001"
    assert (weekly["state"], weekly["paused"], weekly["next_tick"], weekly["last_tick"]) == ("paused", True, None, None)


def test_nothing_is_planned(cli: Cli) -> None:
    assert cli("schedule", "list").out.split() == ["NAME", "CRON", "ZONE", "STATE", "NEXT", "LAST", "TYPE", "QUEUE"]
    assert cli("schedule", "list", "--json").body["schedules"] == []


def test_trigger_prints_the_id_of_a_job_of_its_kind(planned: Cli) -> None:
    before = schedules(planned)
    answer = planned("schedule", "trigger", "nightly")
    assert (answer.code, answer.err) == (0, "")
    job = planned("job", "show", answer.out.strip(), "--json").body["job"]
    assert (job["type"], job["queue"], job["priority"], job["payload"], job["max_retries"]) == (
        "report", "reports", 10, {"n": 1}, 2,
    )  # fmt: skip
    body = planned("schedule", "trigger", "weekly", "--json").body
    assert body == {"version": 1, "schedule": "weekly", "id": body["id"], "queue": "reports", "type": "report"}
    assert schedules(planned) == before


def test_pause_and_resume(planned: Cli) -> None:
    assert planned("schedule", "pause", "nightly", "weekly").out == "paused nightly\nweekly was paused already\n"
    assert schedules(planned)["nightly"]["paused"]
    body = planned("schedule", "resume", "nightly", "weekly", "nightly", "--json").body
    assert body["schedules"] == [
        {"name": "nightly", "state": "resumed", "changed": True},
        {"name": "weekly", "state": "resumed", "changed": True},
    ]
    assert planned("schedule", "resume", "nightly").out == "nightly was resumed already\n"
    assert {one["paused"] for one in schedules(planned).values()} == {False}


def test_a_tick_of_a_wrong_clock_is_put_back(cli: Cli, play: Callable[[Scene], None]) -> None:
    """As docs/operating.md advises: the next tick was computed while the server's clock was years ahead."""

    async def ahead(world: World) -> None:
        await world.schedules.announce([Announcement(NIGHTLY, 4e9)])

    play(ahead)
    assert (cli("schedule", "pause", "nightly").code, cli("schedule", "resume", "nightly").code) == (0, 0)
    body = cli("schedule", "list", "--json").body
    now, following = (datetime.fromisoformat(text) for text in (body["now"], body["schedules"][0]["next_tick"]))
    assert timedelta() < following - now <= timedelta(days=1, hours=1)


def test_remove_asks(planned: Cli) -> None:
    answer = planned("schedule", "remove", "nightly", "late", typed="n\n")
    assert (answer.code, answer.err) == (5, "remove 2 schedules? [y/N] jobconsole: nothing was done\n")
    assert planned("schedule", "remove", "nightly", typed="y\n").out == "removed nightly\n"
    assert planned("schedule", "remove", "late", "--yes", "--json").body["schedules"] == [
        {"name": "late", "state": "removed", "changed": True}
    ]
    assert set(schedules(planned)) == {"weekly", "x\x1b[2J"}


@pytest.mark.parametrize("verb", ["trigger", "pause", "resume", "remove --yes"])
def test_a_name_that_is_not_there_is_exit_code_4(planned: Cli, verb: str) -> None:
    answer = planned("schedule", *verb.split(), "nihgtly")
    assert (answer.code, answer.out) == (4, "")
    assert answer.err == "jobconsole: no schedule named 'nihgtly'; did you mean 'nightly'?\n"
    assert planned("schedule", *verb.split(), "other").err == "jobconsole: no schedule named 'other'\n"


def test_a_mistyped_name_leaves_the_others_as_they_are(planned: Cli) -> None:
    assert planned("schedule", "pause", "nightly", "nosuch").code == 4
    assert not schedules(planned)["nightly"]["paused"]


def test_a_zone_that_this_machine_does_not_know(cli: Cli, play: Callable[[Scene], None]) -> None:
    async def martian(world: World) -> None:
        await world.schedules.announce([Announcement(NIGHTLY._replace(tz="Mars/Olympus"), 1000.0)])
        await world.schedules.pause("nightly")

    play(martian)
    answer = cli("schedule", "resume", "nightly")
    assert (answer.code, answer.err) == (2, "jobconsole: there is no time zone 'Mars/Olympus'\n")
    assert cli("schedule", "list").code == 0


REFUSED = {
    "pause q --read-only": "'schedule pause' was refused: this connection is read-only",
    "resume q --read-only": "'schedule resume' was refused: this connection is read-only",
    "trigger q --read-only": "'schedule trigger' was refused: this connection is read-only",
    "remove q --yes --read-only": "'schedule remove' was refused: this connection is read-only",
    "remove q": "refused to remove schedules without --yes, since standard input is no terminal to ask at",
}


@pytest.mark.parametrize(("line", "sentence"), REFUSED.items(), ids=list(REFUSED))
def test_what_is_refused_is_exit_code_5(line: str, sentence: str) -> None:
    answer = Cli(NOWHERE)("schedule", *line.split())
    assert (answer.code, answer.out, answer.err) == (5, "", f"jobconsole: {sentence}\n")


def test_mistakes_and_servers_that_are_down() -> None:
    cli = Cli(NOWHERE)
    assert cli("schedule", "lst").err == "jobconsole: no verb 'lst'; did you mean 'list'?\n"
    assert cli("schedule", "pause").code == cli("schedule").code == 2
    answer = cli("schedule", "list")
    assert (answer.code, answer.err.startswith("jobconsole: postgres cannot be reached: ")) == (3, True)
    assert cli("schedule", "--help").code == 0


def test_trigger_into_a_closed_queue_is_refused_and_leaves_no_record(
    planned: Cli, play: Callable[[Scene], None]
) -> None:
    async def close(world: World) -> None:
        await world.operations.set_closed("reports", True)

    play(close)
    answer = planned("schedule", "trigger", "nightly")
    assert (answer.code, "queue 'reports' is closed" in answer.err) == (5, True)
    assert planned("op", "list", "--json").body["operations"] == []
