"""A job's past, told from its attempts: lives, the timeline, how two attempts differ, what became of retries."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from jobconsole.core.history import RETRIED, difference, pairs, timeline
from jobconsole.core.progress import retried_before as retries_before
from jobconsole.core.progress import retries_of
from jobconsole.core.rows import lives, retried_before
from queue_core import JobQueue
from queue_core.model.job import Attempt
from queue_core.model.operation import UNTHROTTLED, Author, Operation, OperationRequest, Outcomes, Rollout
from tests.conformance.making import failure
from tests.conformance.world import World

SIGNATURE = "9f31c2aaaaaa"
NOW = datetime(2026, 3, 1, 3, 7, 41, tzinfo=UTC)


def attempt(number: int, token: int, **given: object) -> Attempt:
    at = NOW - timedelta(seconds=100 - token)
    one = Attempt("j", token, number, "error", "OSError", "full", "trace\n", "aa", "w1", at, at + timedelta(seconds=1))
    return replace(one, **given)  # type: ignore[arg-type]


def test_a_number_that_does_not_rise_begins_a_life() -> None:
    told = [attempt(1, 1), attempt(2, 2), attempt(1, 3), attempt(1, 4)]
    assert [[one.token for one in life] for life in lives(told)] == [[1, 2], [3], [4]]
    assert [one.token for one in retried_before(told)] == [2, 3]
    assert retried_before(told[:2]) == []


async def test_the_timeline_of_a_job_that_was_retried_by_hand(jobs: JobQueue, world: World) -> None:
    claim = await world.ended("dead", {}, max_retries=0)
    await jobs.operations.change("retry", [claim.id])
    job, attempts = await jobs.inspector.get(claim.id), await jobs.inspector.attempts(claim.id)
    told = [(one.kind, one.text) for one in timeline(job, attempts)]
    assert told == [
        ("enqueued", "enqueued"),
        ("failed", "attempt 1 failed"),
        ("operator", "retried by an operator, with all of its retries"),
        ("due", "ready since"),
    ]


async def test_the_timeline_of_a_job_in_the_trash(jobs: JobQueue, world: World) -> None:
    claim = await world.ended("dead", {}, max_retries=0)
    await jobs.operations.change("delete", [claim.id])
    told = [one.text for one in timeline(await jobs.inspector.get(claim.id), await jobs.inspector.attempts(claim.id))]
    assert told == ["enqueued", "attempt 1 failed", "dead: in the DLQ", "deleted, to the trash"]


def test_two_attempts_are_compared_by_fact_and_line() -> None:
    told = [attempt(1, 1), attempt(2, 2, message="very full", traceback="trace\nmore\n"), attempt(3, 3)]
    assert pairs(told) == 2
    newest, older = difference(told), difference(told, 1)
    assert newest is not None
    assert older is not None
    assert (newest.before.number, newest.after.number, older.before.number) == (2, 3, 1)
    assert {fact.name for fact in older.facts if not fact.same} == {"number", "message", "ended"}
    assert older.trace == (" trace", "+more")
    assert difference(told, 2) is None
    assert difference(told[:1]) is None


def test_tracebacks_of_any_length_are_compared_in_bounded_time() -> None:
    long = ["\n".join(f"line {n} {word}" for n in range(100_000)) for word in ("a", "b")]
    found = difference([attempt(1, 1, traceback=long[0]), attempt(2, 2, traceback=long[1])])
    assert found is not None
    assert 0 < len(found.trace) <= 800


async def test_what_became_of_earlier_retries_is_told(jobs: JobQueue, world: World) -> None:
    dead = [(await world.ended("dead", {}, max_retries=0)).id for _ in range(3)]
    done = await retry(jobs, dead)
    for one in dead[:2]:
        await world.settle(await world.claim_job(one), "dead", failure=failure())
    at = f"{done.created_at:%H:%M:%S} ana: "
    assert await retries_before(jobs.operations, SIGNATURE, done.created_at) == (
        f"{at}retried 3: 2 failed again, 1 not ended (#{done.number})"
    )
    await jobs.operations.change("delete", dead[:1])
    await jobs.operations.change("purge", dead[:1])
    outcomes = "1 failed again, 1 not ended, 1 gone"
    assert outcomes in await retries_before(jobs.operations, SIGNATURE, done.created_at)
    assert await retries_before(jobs.operations, "bbbb", done.created_at) == ""


async def test_what_was_counted_of_a_retry_that_has_ended_stays_its_outcome(jobs: JobQueue, world: World) -> None:
    """Its jobs may have been retried by a later operation since, or have died again of another signature."""
    dead = [(await world.ended("dead", {}, max_retries=0)).id for _ in range(2)]
    done = await retry(jobs, dead)
    await world.operations.note_outcomes(done.number, Outcomes(2, 0, 2, 0), True)
    came = await retries_before(jobs.operations, SIGNATURE, done.created_at)
    assert came.endswith(f" ana: retried 2: 2 failed again (#{done.number})")


async def test_a_retry_that_its_canary_stopped_is_told_so(jobs: JobQueue, world: World) -> None:
    dead = [(await world.ended("dead", {}, max_retries=0)).id for _ in range(4)]
    submitted = await jobs.operations.submit(asking(Rollout(1, None, 0.0)), dead)
    executor = jobs.operations.executor()
    await executor.run_once()
    await world.settle(await world.claim_job(dead[0]), "dead", failure=failure())
    await executor.run_once()
    (told,) = await retries_of(jobs.operations, SIGNATURE, submitted.created_at, 2)
    assert told.endswith(f" ana: canary of 1: 1 failed again, stopped (#{submitted.number})")


async def test_a_ramp_is_not_a_canary(jobs: JobQueue, world: World) -> None:
    dead = [(await world.ended("dead", {}, max_retries=0)).id for _ in range(4)]
    submitted = await jobs.operations.submit(asking(Rollout(0, None, 0.0, ramp=(1, 2))), dead)
    executor = jobs.operations.executor()
    await executor.run_once()
    (told,) = await retries_of(jobs.operations, SIGNATURE, submitted.created_at, 2)
    assert told.endswith(f" ana: ramp 1 of 2, retried 1: 1 not ended, running (#{submitted.number})")
    await world.settle(await world.claim_job(dead[0]), "dead", failure=failure())
    await executor.run_once()
    (told,) = await retries_of(jobs.operations, SIGNATURE, submitted.created_at, 2)
    assert told.endswith(f" ana: ramp 1 of 2, retried 1: 1 failed again, stopped (#{submitted.number})")


async def test_the_newest_retries_come_first_and_no_more_than_asked_for(jobs: JobQueue, world: World) -> None:
    dead = [(await world.ended("dead", {}, max_retries=0)).id for _ in range(3)]
    for one in dead:
        await retry(jobs, [one])
    await jobs.operations.submit(replace(asking(), verb="delete"), dead)
    told = await retries_of(jobs.operations, SIGNATURE, NOW, 2)
    assert len(told) == 2


async def test_the_timeline_tells_operations_where_attempts_only_let_one_guess(jobs: JobQueue, world: World) -> None:
    claim = await world.ended("dead", {}, max_retries=0)
    await retry(jobs, [claim.id], why="the field is back")
    await world.settle(await world.claim_job(claim.id), "dead", failure=failure())
    await jobs.operations.run((await jobs.operations.submit(replace(asking(), verb="delete"), [claim.id])).number)
    job, attempts = await jobs.inspector.get(claim.id), await jobs.inspector.attempts(claim.id)
    told = [one.text for one in timeline(job, attempts, await jobs.operations.list_for_job(claim.id))]
    assert told == [
        "enqueued", "attempt 1 failed", "retried by ana (#1): the field is back", "attempt 1 failed",
        "dead: in the DLQ", "deleted, to the trash by ana (#2)",
    ]  # fmt: skip


async def test_a_retry_that_no_operation_tells_of_is_still_found_out(jobs: JobQueue, world: World) -> None:
    claim = await world.ended("dead", {}, max_retries=0)
    await retry(jobs, [claim.id])
    await world.settle(await world.claim_job(claim.id), "dead", failure=failure())
    await jobs.operations.change("retry", [claim.id])
    job, attempts = await jobs.inspector.get(claim.id), await jobs.inspector.attempts(claim.id)
    told = [one.text for one in timeline(job, attempts, await jobs.operations.list_for_job(claim.id))]
    assert told == [
        "enqueued", "attempt 1 failed", "retried by ana (#1)", "attempt 1 failed", RETRIED, "ready since",
    ]  # fmt: skip


def asking(pace: Rollout = UNTHROTTLED, why: str = "") -> OperationRequest:
    return OperationRequest("retry", "x", Author("ana", "desk-7"), why, rollout=pace, signatures=(SIGNATURE,))


async def retry(jobs: JobQueue, ids: list[str], why: str = "") -> Operation:
    return await jobs.operations.run((await jobs.operations.submit(asking(why=why), ids)).number)
