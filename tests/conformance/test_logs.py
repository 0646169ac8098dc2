"""Log appends lines to the log of a job while the token of its attempt holds; a job keeps its newest 1,000 lines."""

import pytest

from queue_core.errors import JobNotFound
from queue_core.model.job import MAX_LOG_LINE_BYTES, MAX_LOG_LINES, Claim, LogLine
from queue_core.model.text import storable
from tests.conformance.making import LEASE, UNKNOWN
from tests.conformance.test_stale import Event, event  # noqa: F401  a fixture
from tests.conformance.world import FINISHED, STATES, World

DAY = 86400.0


def line(claim: Claim, number: int, text: str = "", age: float = 0.0) -> LogLine:
    return LogLine(claim.id, claim.token, claim.queue, number, text or f"line {number}", age)


def lines(claim: Claim, first: int, last: int) -> list[LogLine]:
    return [line(claim, number) for number in range(first, last + 1)]


async def texts(world: World, job_id: str) -> list[str]:
    return [entry.text for entry in (await world.inspector.logs(job_id)).entries]


async def test_a_job_without_lines(world: World) -> None:
    for state in STATES:
        page = await world.inspector.logs(await world.job_in(state))
        assert (page.entries, page.dropped) == ((), 0)
    assert await world.store.log([]) == []


@pytest.mark.parametrize("job_id", [UNKNOWN, "no id", ""])
async def test_a_job_that_is_not_known(world: World, job_id: str) -> None:
    with pytest.raises(JobNotFound):
        await world.inspector.logs(job_id)


async def test_lines_come_back_in_order_with_token_and_time(world: World) -> None:
    claim, before = await world.running(), await world.now()
    assert await world.store.log([line(claim, 1, "one"), line(claim, 2, "two")]) == [True, True]
    assert await world.store.log([line(claim, 3, "three")]) == [True]
    page = await world.inspector.logs(claim.id)
    assert [(entry.number, entry.token, entry.text) for entry in page.entries] == [
        (1, claim.token, "one"),
        (2, claim.token, "two"),
        (3, claim.token, "three"),
    ]
    after = await world.now()
    assert all(before - 0.001 <= entry.at.timestamp() <= after + 0.001 for entry in page.entries)
    assert page.dropped == 0


async def test_the_time_of_a_line_that_waited(world: World) -> None:
    claim, now = await world.running(), await world.now()
    await world.store.log([line(claim, 1, age=50.0), line(claim, 2, age=20.0)])
    ages = [now - entry.at.timestamp() for entry in (await world.inspector.logs(claim.id)).entries]
    assert ages == [pytest.approx(50, abs=10), pytest.approx(20, abs=10)]
    assert ages[0] - ages[1] == pytest.approx(30, abs=0.001)


async def test_lines_of_many_jobs_together(world: World) -> None:
    claims = [await world.running(queue=f"queue-{number % 3}") for number in range(7)]
    mixed = [line(claim, number) for number in range(1, 4) for claim in claims]
    assert await world.store.log(mixed) == [True] * 21
    for claim in claims:
        assert await texts(world, claim.id) == ["line 1", "line 2", "line 3"]


async def test_texts_stay_as_they_are(world: World) -> None:
    claim = await world.running()
    given = [
        "",
        " ",
        "quotes \" ' and \\ backslashes {} , NULL",
        "two\nlines\r\n\ttab",
        storable("\0\x1b[2J\u202e日本 😀\udc80"),
    ]
    await world.store.log([LogLine(claim.id, claim.token, claim.queue, at, text) for at, text in enumerate(given, 1)])
    assert await texts(world, claim.id) == given


async def test_the_longest_lines(world: World) -> None:
    claim = await world.running()
    given = ["é" * (MAX_LOG_LINE_BYTES // 2)] * MAX_LOG_LINES
    assert all(await world.store.log([line(claim, number, text) for number, text in enumerate(given, 1)]))
    assert await texts(world, claim.id) == given


async def test_the_newest_lines_are_kept(world: World) -> None:
    claim = await world.running()
    await world.store.log(lines(claim, 1, MAX_LOG_LINES - 1))
    await world.store.log(lines(claim, MAX_LOG_LINES, MAX_LOG_LINES))
    assert (await world.inspector.logs(claim.id)).dropped == 0
    assert all(await world.store.log(lines(claim, MAX_LOG_LINES + 1, MAX_LOG_LINES + 2)))
    page = await world.inspector.logs(claim.id)
    assert (page.dropped, len(page.entries)) == (2, MAX_LOG_LINES)
    assert [page.entries[0].number, page.entries[-1].number] == [3, MAX_LOG_LINES + 2]


async def test_more_than_a_job_keeps_at_once(world: World) -> None:
    claim, other = await world.running(), await world.running()
    assert all(await world.store.log([*lines(claim, 1, 3 * MAX_LOG_LINES), *lines(other, 1, 2)]))
    page = await world.inspector.logs(claim.id)
    assert (page.dropped, len(page.entries), page.entries[0].text) == (
        2 * MAX_LOG_LINES,
        MAX_LOG_LINES,
        f"line {2 * MAX_LOG_LINES + 1}",
    )
    assert await texts(world, other.id) == ["line 1", "line 2"]


async def test_lines_that_were_dropped_on_the_way_are_counted(world: World) -> None:
    claim = await world.running()
    await world.store.log([*lines(claim, 1, 2), line(claim, 10)])
    page = await world.inspector.logs(claim.id)
    assert [entry.number for entry in page.entries] == [1, 2, 10]
    assert page.dropped == 7


async def test_lines_that_were_written_before_change_nothing(world: World) -> None:
    """Their answer got lost, and more lines have come since."""
    claim = await world.running()
    await world.store.log(lines(claim, 1, 3))
    before = (await world.inspector.logs(claim.id)).entries
    assert await world.store.log(lines(claim, 1, 5)) == [True] * 5
    page = await world.inspector.logs(claim.id)
    assert page.entries[:3] == before
    assert [entry.text for entry in page.entries] == [f"line {number}" for number in range(1, 6)]


async def test_attempts_count_on(world: World) -> None:
    first = await world.running()
    await world.store.log(lines(first, 1, 2))
    await world.settle(first, "retrying", delay=0.0)
    await world.store.promote(10)
    second = await world.claim_job(first.id)
    await world.store.log(lines(second, 1, 2))
    await world.store.log(lines(second, 1, 3))
    found = (await world.inspector.logs(first.id)).entries
    assert [(entry.number, entry.token) for entry in found] == [
        (1, first.token),
        (2, first.token),
        (3, second.token),
        (4, second.token),
        (5, second.token),
    ]


async def test_an_attempt_pushes_out_the_lines_of_earlier_ones(world: World) -> None:
    first = await world.running()
    await world.store.log(lines(first, 1, 5))
    await world.settle(first, "released")
    second = await world.claim_job(first.id)
    await world.store.log(lines(second, 1, MAX_LOG_LINES))
    await world.store.log(lines(second, MAX_LOG_LINES - 1, MAX_LOG_LINES + 1))
    page = await world.inspector.logs(first.id)
    assert (page.dropped, {entry.token for entry in page.entries}) == (6, {second.token})
    assert [page.entries[0].number, page.entries[-1].number] == [7, MAX_LOG_LINES + 6]


async def test_the_last_lines(world: World) -> None:
    claim = await world.running()
    await world.store.log(lines(claim, 1, 30))
    for limit, wanted in ((1, [30]), (3, [28, 29, 30]), (30, [*range(1, 31)]), (99, [*range(1, 31)]), (0, [])):
        assert [entry.number for entry in (await world.inspector.logs(claim.id, limit)).entries] == wanted


async def test_the_lines_after_one(world: World) -> None:
    claim = await world.running()
    await world.store.log([*lines(claim, 1, 5), *lines(claim, 8, 10)])
    for limit, after, wanted in (
        (3, 0, [1, 2, 3]),
        (3, 3, [4, 5, 8]),
        (99, 5, [8, 9, 10]),
        (99, 6, [8, 9, 10]),
        (2, 8, [9, 10]),
        (2, 10, []),
        (2, 99, []),
        (0, 1, []),
    ):
        page = await world.inspector.logs(claim.id, limit, after)
        assert ([entry.number for entry in page.entries], page.dropped) == (wanted, 2)


async def test_a_worker_that_wakes_up_too_late_is_refused(world: World, event: Event) -> None:  # noqa: F811
    claim = await world.running(worker="asleep")
    await world.store.log(lines(claim, 1, 1))
    await event(world, claim.id)
    assert await world.store.log(lines(claim, 2, 3)) == [False, False]
    assert await texts(world, claim.id) == ["line 1"]


@pytest.mark.parametrize("kind", ["completed", "retrying", "dead", "released", "cancelled"])
async def test_an_attempt_that_has_ended_is_refused(world: World, kind: str) -> None:
    claim = await world.ended(kind)
    assert await world.store.log(lines(claim, 1, 1)) == [False]
    assert await texts(world, claim.id) == []


async def test_a_lease_that_expired_holds_until_the_job_is_reclaimed(world: World) -> None:
    claim = await world.running()
    await world.advance(LEASE + 1)
    assert await world.store.log(lines(claim, 1, 1)) == [True]


@pytest.mark.parametrize("change", [-1, 1, 1 << 40])
async def test_tokens_that_are_not_the_jobs_are_refused_among_others(world: World, change: int) -> None:
    claim, other = await world.running(), await world.running()
    wrong = claim._replace(token=claim.token + change)
    unknown = LogLine(UNKNOWN, claim.token, claim.queue, 1, "nobody's")
    answers = await world.store.log(
        [line(wrong, 1), *lines(other, 1, 2), unknown, line(claim, 1, "mine"), line(wrong, 2)]
    )
    assert answers == [False, True, True, False, True, False]
    assert await texts(world, claim.id) == ["mine"]
    assert await texts(world, other.id) == ["line 1", "line 2"]


async def test_lines_stay_with_a_job_that_operators_move(world: World) -> None:
    claim = await world.running()
    await world.store.log(lines(claim, 1, 2))
    await world.settle(claim, "dead")
    await world.change("delete", [claim.id])
    assert len(await texts(world, claim.id)) == 2
    await world.change("restore", [claim.id])
    await world.change("retry", [claim.id])
    again = await world.claim_job(claim.id)
    await world.store.log([line(again, 1, "again")])
    await world.settle(again, "completed")
    assert await texts(world, claim.id) == ["line 1", "line 2", "again"]


async def test_purged_with_the_job(world: World) -> None:
    claim, kept = await world.running(), await world.running()
    await world.store.log([*lines(claim, 1, 3), *lines(kept, 1, 1)])
    await world.settle(claim, "dead")
    await world.change("delete", [claim.id])
    await world.change("purge", [claim.id])
    with pytest.raises(JobNotFound):
        await world.inspector.logs(claim.id)
    await world.insert(id=claim.id)
    assert await texts(world, claim.id) == []
    assert await texts(world, kept.id) == ["line 1"]


@pytest.mark.parametrize("state", [state for state in FINISHED if state != "dead"])
async def test_gone_with_the_job_after_its_retention(world: World, state: str) -> None:
    claim, dead = await world.running(), await world.running()
    await world.store.log([*lines(claim, 1, 3), *lines(dead, 1, 2)])
    await world.settle(dead, "dead")
    await world.settle(claim, "dead" if state == "trashed" else state)
    if state == "trashed":
        await world.change("delete", [claim.id])
    await world.advance(40 * DAY)
    await world.upkeep()
    with pytest.raises(JobNotFound):
        await world.inspector.logs(claim.id)
    await world.insert(id=claim.id)
    assert await texts(world, claim.id) == []
    assert await texts(world, dead.id) == ["line 1", "line 2"]
