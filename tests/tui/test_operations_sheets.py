"""The sheets before a change: they never make one wait, say what is known, and take how carefully it goes on."""

from __future__ import annotations

import pytest

from jobconsole.tui.base.operations import OperationReader
from jobconsole.tui.base.operator import Operator
from jobconsole.tui.widgets.fields import Field
from jobconsole.tui.widgets.pane import Drawn
from queue_core import JobQueue
from queue_core.model.operation import ChangeOptions, Rollout
from queue_core.model.states import Status
from tests.conformance.world import World
from tests.tui.asking import ask, crowd, end_ready
from tests.tui.conftest import Sit
from tests.tui.seat import COMPACT, NARROW, WIDE, Seat, seated
from tests.tui.still import show, still_app
from tests.tui.test_triage import SIZES

Buried = dict[str, list[str]]


async def open_sheet(seat: Seat, key: str = "R", error: str = "TimeoutError") -> None:
    """Open the sheet of a key for the group under the cursor."""
    await seat.ready()
    await seat.until(error)
    await seat.press(key)
    await seat.until("exactly these")


async def at_field(seat: Seat, label: str) -> None:
    """Go up to a field."""
    while f"❯ {label}" not in seat.text():
        await seat.press("up")


async def unfold(seat: Seat) -> None:
    """Unfold the fields that are rarely wanted, and go down to the reason."""
    await at_field(seat, "more")
    await seat.press("enter")
    await seat.until("❯ delay")
    while "❯ reason" not in seat.text():
        await seat.press("down")


@SIZES
async def test_the_sheet_of_a_retry_fits_and_says_what_it_is_about(
    sit: Sit, buried: Buried, size: tuple[int, int]
) -> None:
    async with sit(size) as seat:
        await open_sheet(seat)
        await seat.until("sample   ")
        await seat.until("never retried by signature")
        text = seat.text()
        for part in (
            "Retry dead jobs", "5, exactly", "died     ", " on mail, all send_email", "before",
            "TimeoutError: smtp mx-7:25", "begins   [now]", "canary   [none]", "verdict   first failure",
            "[at the end]", "ramp     [none]", "rate     [at once]", "stop if", "[never]", "more      delay none",
            "queue and priority as they were", "reason", "❯ Retry 5 jobs", "Go back",
            "no live worker runs send_email: the jobs wait",
        ):  # fmt: skip
            assert part in text, part


async def test_retries_that_named_no_signature_are_known_by_the_newest_job(
    sit: Sit, world: World, jobs: JobQueue
) -> None:
    """By a filter, or job by job; the sheet has the words of the pane beside the list."""
    await crowd(world, 3)
    for _ in range(2):
        (newest,) = (await jobs.list("status:dead", limit=1)).jobs
        assert (await jobs.operations.change("retry", [newest.id])).ids
        await end_ready(jobs, world, "dead", 1)
    async with sit() as seat:
        await open_sheet(seat, error="KeyError")
        await seat.until("before   2 times, its newest job died at", but="never retried")


async def test_fields_are_stepped_through_and_typed_into(sit: Sit, jobs: JobQueue, buried: Buried) -> None:
    async with sit() as seat:
        await open_sheet(seat)
        await unfold(seat)
        await seat.press(*"jkhlqR 7")
        await seat.until("jkhlqR 7_")
        await seat.press("up", "right")
        await seat.until("[urgent]")
        await seat.press("up", *"bulk")
        await seat.until("[bulk_]")
        await at_field(seat, "spread")
        await seat.press("9", "0", "s", "k", "2", "m")
        await seat.until("[2m_]")
        await seat.press("backspace", "backspace", "k")
        await at_field(seat, "stop if")
        await seat.press("h")
        await seat.until("[50%]")
        await seat.press("k", "l")
        await seat.until("[1000/s]")
        await at_field(seat, "canary")
        await seat.press("1", "2", "0", "backspace")
        await seat.until("[12_]")
        await seat.press("enter")
        await seat.until("❯ Retry 5 jobs")
        await seat.until("1,000/s; stops above 50% failed")
        await seat.press("enter")
        await seat.until("retried 5 jobs")
        asked = (await jobs.operations.get(1)).request
        assert (asked.why, asked.options) == ("jkhlqR 7", ChangeOptions(spread=90.0, queue="bulk", priority=20))
        assert asked.rollout == Rollout(canary=12, rate=1000.0, stop_percent=50.0)
        job = await jobs.inspector.get(buried["send_email"][0])
        assert (job.queue, job.priority) == ("bulk", 20)
        assert job.status in {Status.SCHEDULED, Status.QUEUED}


async def test_a_ramp_takes_the_mark_of_the_canary_away(sit: Sit, world: World, jobs: JobQueue) -> None:
    await crowd(world, 12)
    async with sit() as seat:
        await open_sheet(seat, error="KeyError")
        await seat.until("canary   [none]")
        await at_field(seat, "ramp")
        await seat.press("right")
        await seat.until("[1,10,100]", but="[none]")
        await at_field(seat, "canary")
        await seat.until("a ramp is chosen")
        await seat.press("right", "5", "down", "down")
        await seat.until("❯ ramp")
        await seat.press("left")
        await seat.until("canary   [none]")


@pytest.mark.parametrize(
    ("label", "keys", "said"),
    [
        ("ramp", "100,10", "each step of a ramp has more jobs than"),
        ("rate", "0", "a rate is more than 0 jobs a second"),
        ("stop if", "101", "a threshold is 0 to 100 percent"),
        ("delay", "5d5", "is no duration"),
        ("queue", "a{", "cannot hold braces"),
        ("priority", "128", "a whole number from -128 to 127"),
    ],
)
async def test_what_cannot_be_is_said_and_nothing_goes_on(
    sit: Sit, jobs: JobQueue, buried: Buried, label: str, keys: str, said: str
) -> None:
    async with sit() as seat:
        await open_sheet(seat)
        await unfold(seat)
        await at_field(seat, label)
        await seat.press(*keys)
        await seat.until(said)
        await seat.press("enter", "enter")
        await seat.until(f"{label}: ")
        assert "Retry dead jobs" in seat.text()
        await seat.press("escape")
        assert await jobs.operations.list_operations() == []


async def test_enter_before_the_jobs_are_frozen_goes_on_as_soon_as_they_are(
    sit: Sit, jobs: JobQueue, buried: Buried, monkeypatch: pytest.MonkeyPatch
) -> None:
    freeze, waiting = Operator.freeze, []

    async def slowly(self: Operator, verb, target):  # type: ignore[no-untyped-def]
        while not waiting:
            await seat.pilot.pause(0.01)
        return await freeze(self, verb, target)

    monkeypatch.setattr(Operator, "freeze", slowly)
    async with sit() as seat:
        await seat.ready()
        await seat.until("TimeoutError")
        await seat.press("R")
        await seat.until("about 5, being counted")
        await seat.press("enter")
        await seat.until("starts as soon as they are")
        waiting.append(True)
        await seat.until("retried 5 jobs")


async def test_facts_that_cannot_be_read_keep_nobody_from_going_on(
    sit: Sit, buried: Buried, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(self: object, target: object) -> None:
        await seat.pilot.pause(60)

    monkeypatch.setattr(OperationReader, "facts", never)
    async with sit() as seat:
        await open_sheet(seat)
        assert "reading ..." in seat.text()
        await seat.press("enter")
        await seat.until("retried 5 jobs")


async def test_a_canary_of_one_is_no_several(sit: Sit, buried: Buried) -> None:
    async with sit() as seat:
        await open_sheet(seat)
        await at_field(seat, "canary")
        await seat.press("1", "enter")
        await seat.until("1 job first, the rest once it succeeds")


async def test_more_than_fifty_get_a_canary_and_a_rate(sit: Sit, jobs: JobQueue, world: World) -> None:
    await crowd(world, 51)
    async with sit() as seat:
        await open_sheet(seat, error="KeyError")
        for part in ("[10]", "[200/s]", "[20%]", "10 jobs first, the rest once these succeed"):
            await seat.until(part)
        await seat.press("enter")
        await seat.until("canary 10 of 10: 10 not ended")
        assert (await jobs.operations.get(1)).request.rollout == Rollout(10, 200.0, 20.0)


async def test_earlier_retries_and_what_came_of_them_are_told(sit: Sit, jobs: JobQueue, world: World) -> None:
    ids = await crowd(world, 4)
    await jobs.operations.run((await ask(jobs, ids[:3])).number)
    await end_ready(jobs, world, "dead", 3)
    async with sit() as seat:
        await open_sheet(seat, error="KeyError")
        await seat.until("ana: retried 3: 3 failed again")


async def test_marked_jobs_bring_their_breakdown(sit: Sit, buried: Buried) -> None:
    async with sit() as seat:
        await seat.ready()
        await seat.press("3")
        await seat.until("TimeoutError")
        await seat.press("right_square_bracket", "asterisk", "R")
        await seat.until("everything that matches")
        await seat.until("send_email 5, resize_image 3, sync_crm 2")
        await seat.until("crm, images, mail")


async def test_types_and_queues_of_the_newest_are_told_as_such(
    sit: Sit, buried: Buried, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The queue of the newest 200 jobs stood there as that of 50,000."""
    monkeypatch.setattr("jobconsole.actions.plan.LOOKED_AT_JOBS", 4)
    async with sit() as seat:
        await seat.ready()
        await seat.press("3")
        await seat.until("TimeoutError")
        await seat.press("right_square_bracket", "asterisk", "R")
        await seat.until("Retry 10 jobs")
        await seat.until("types    of the newest 4: send_email 4")
        await seat.until("queues   of the newest 4: mail")


async def test_a_delete_and_a_cancel_take_a_reason(sit: Sit, jobs: JobQueue, buried: Buried) -> None:
    async with sit() as seat:
        await open_sheet(seat, "D")
        await at_field(seat, "reason")
        await seat.press(*"old", "enter", "enter")
        await seat.until("deleted 5 jobs")
        assert (await jobs.operations.get(1)).request.why == "old"
        await seat.press("3", "slash", *"status:scheduled", "enter")
        await seat.until("sync_crm")
        await seat.press("X")
        await seat.until("Cancel 1 job")
        await seat.press("up", "up", *"no", "enter", "enter")
        await seat.until("cancelled 1 job")
        assert (await jobs.operations.get(2)).request.why == "no"


class TestTrash:
    """What was deleted is found, goes for good only after its count was typed, and comes back."""

    async def at_trash(self, seat: Seat, jobs: JobQueue, buried: Buried) -> None:
        """Go to three deleted jobs."""
        await jobs.operations.change("delete", buried["resize_image"])
        await seat.ready()
        await seat.press("3", "left_square_bracket")
        await seat.until("[trash")
        await seat.until(lambda: len(seat.table("all-jobs").selection.rows) == 3)

    async def test_a_purge_asks_for_the_count(self, sit: Sit, jobs: JobQueue, buried: Buried) -> None:
        async with sit() as seat:
            await self.at_trash(seat, jobs, buried)
            await seat.press("asterisk", "D")
            await seat.until("Remove jobs in the trash for good")
            await seat.until("(Purge 3 jobs)")
            await seat.press("enter", "enter")
            await seat.until("type 3 first")
            await seat.press("up", "up", "4")
            await seat.press("enter", "enter")
            assert "(Purge 3 jobs)" in seat.text()
            await seat.press("up", "up", "backspace", "3")
            await seat.until("Purge 3 jobs", but="(Purge")
            await seat.press("enter", "enter")
            await seat.until("purged 3 jobs")
            await seat.until("the trash is empty")
            assert (await jobs.inspector.overview()).queues[1].trashed == 0

    async def test_they_are_brought_back(self, sit: Sit, jobs: JobQueue, buried: Buried) -> None:
        async with sit(WIDE) as seat:
            await self.at_trash(seat, jobs, buried)
            await seat.until("B bring back")
            await seat.press("space", "space", "B")
            await seat.until("Bring back 2 jobs")
            await seat.press("enter")
            await seat.until("restored 2 jobs")
            await seat.until(lambda: len(seat.table("all-jobs").selection.rows) == 1)

    async def test_they_are_retried(self, sit: Sit, jobs: JobQueue, buried: Buried) -> None:
        async with sit() as seat:
            await self.at_trash(seat, jobs, buried)
            chosen = seat.table("all-jobs").selection.row.id
            await seat.press("R")
            await seat.until("Retry 1 job")
            await seat.press("enter")
            await seat.until("retried 1 job")
            status = {job_id: (await jobs.inspector.get(job_id)).status for job_id in buried["resize_image"]}
            assert {job_id for job_id, one in status.items() if one is Status.QUEUED} == {chosen}

    async def test_a_filter_finds_them_too(self, sit: Sit, jobs: JobQueue, buried: Buried) -> None:
        await jobs.operations.change("delete", buried["resize_image"])
        async with sit() as seat:
            await seat.ready()
            await seat.press("3", "B")
            await seat.until("only jobs in the trash can be brought back")
            await seat.press("slash", *"trash:yes", "enter")
            await seat.until(lambda: len(seat.table("all-jobs").selection.rows) == 3)
            await seat.press("enter")
            await seat.until("in the trash")
            await seat.press("D")
            await seat.until("Remove jobs in the trash for good")


async def test_the_timeline_says_who_did_what_and_why(sit: Sit, jobs: JobQueue, world: World) -> None:
    (one,) = await crowd(world, 1)
    await jobs.operations.run((await ask(jobs, [one], why="the field is back")).number)
    await end_ready(jobs, world, "dead", 1)
    await jobs.operations.run((await ask(jobs, [one], "delete")).number)
    async with sit(WIDE) as seat:
        await seat.ready()
        await seat.press("3", "left_square_bracket")
        await seat.until(lambda: seat.table("all-jobs").selection.row is not None)
        await seat.press("enter", "left_square_bracket", "left_square_bracket", "left_square_bracket")
        await seat.until("[Timeline]")
        await seat.until("deleted, to the trash by ana (#2)")
        lines = seat.text().splitlines()
        said = (
            "deleted, to the trash by ana (#2)",
            "dead: in the DLQ",
            "retried by ana (#1): the field is back",
        )
        places = [next(y for y, line in enumerate(lines) if part in line and "│" in line) for part in said]
        assert places == sorted(places), "the newest first"
        assert "retried by an operator" not in seat.text()


async def test_the_first_field_is_below_the_buttons(sit: Sit, jobs: JobQueue, world: World, buried: Buried) -> None:
    """And a release that the store knows is completed while it is typed."""
    for name in ("r123", "r124"):
        await jobs.store.register_release(name)
    async with sit() as seat:
        await open_sheet(seat)
        await seat.press("down")
        await seat.until("❯ begins   [now] when r124 is live")
        await seat.press("up")
        await seat.until("❯ Retry 5 jobs")
        await seat.press("down", *"r12")
        await seat.until("[r12_] r124 is not live yet; right arrow takes it")
        await seat.press("3")
        await seat.until("[r123_]")
        await seat.press("backspace", "right")
        await seat.until("[r124_]")
        await seat.press("enter")
        await seat.until("❯ Retry 5 jobs")
        await seat.until("then, attempts start over")
        await seat.press("enter")
        await seat.until("waits r124")
        (asked,) = await seat.app.connection.operations.list_operations(5)
        assert asked.request.rollout.when_release == "r124"


@pytest.mark.parametrize(
    ("field", "typed", "problem"),
    [("begins", "--", "has a letter or a digit"), ("rate", "9" * 400, "a rate is more than 0 jobs a second, not inf")],
)
async def test_what_no_rollout_can_have_is_a_problem_of_its_field(
    sit: Sit, buried: Buried, field: str, typed: str, problem: str
) -> None:
    async with sit(WIDE) as seat:
        await open_sheet(seat)
        await at_field(seat, field)
        seat.app.screen.query_one(f"#{field}", Field).typed = typed[:-1]
        await seat.press(typed[-1])
        await seat.until(problem)
        await seat.press("enter")
        await seat.until("❯ Retry 5 jobs")
        await seat.until(f"{field}: ")
        await seat.press("enter")
        assert "exactly these" in seat.text()


async def test_a_verdict_is_chosen_and_not_typed(sit: Sit, buried: Buried) -> None:
    async with sit(WIDE) as seat:
        await open_sheet(seat)
        await at_field(seat, "verdict")
        await seat.press("0")
        await seat.until("[at the end]")


async def test_what_was_done_before_is_whole_where_the_sheet_has_a_line_more_for_it() -> None:
    whole = "02:58:00 ana: canary of 10: 10 failed again, stopped (#81)"
    for size, shown in ((NARROW, True), (COMPACT, False)):
        async with seated(still_app(), size) as seat:
            await show(seat)
            await seat.press("D")
            await seat.until("Delete 38,902 jobs")
            await seat.until("before ")
            sheet = seat.app.screen.query_one("#sheet-text", Drawn)
            lines = "".join(strip.text for y in range(sheet.size.height) for strip in [sheet.render_line(y)])
            assert (whole in " ".join(lines.split())) is shown
            assert "Go back" in seat.text()
