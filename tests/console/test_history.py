"""A job's past, told from its attempts: lives, the timeline, how two attempts differ, what became of retries."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime, timedelta

from jobconsole.core.differences import difference, pairs
from jobconsole.core.lives import lives, retried_before
from jobconsole.core.operations import Plan, Report
from jobconsole.core.retries import LOOKED_AT, RetryBook
from jobconsole.core.timeline import timeline
from queue_core import JobQueue
from queue_core.job import Attempt
from queue_core.states import Status
from tests.conformance.world import World

NOW = datetime(2026, 3, 1, 3, 7, 41, tzinfo=UTC)


def attempt(number: int, token: int, **given: object) -> Attempt:
    at = NOW - timedelta(seconds=100 - token)
    one = Attempt("j", token, number, "error", "OSError", "full", "trace\n", "aa", "w1", at, at + timedelta(seconds=1))
    return dataclasses.replace(one, **given)  # type: ignore[arg-type]


def test_a_number_that_does_not_rise_begins_a_life() -> None:
    told = [attempt(1, 1), attempt(2, 2), attempt(1, 3), attempt(1, 4)]
    assert [[one.token for one in life] for life in lives(told)] == [[1, 2], [3], [4]]
    assert [one.token for one in retried_before(told)] == [2, 3]
    assert retried_before(told[:2]) == []


async def test_the_timeline_of_a_job_that_was_retried_by_hand(jobs: JobQueue, world: World) -> None:
    claim = await world.ended("dead", {}, max_retries=0)
    await jobs.control.retry([claim.id])
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
    await jobs.control.delete([claim.id])
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


async def test_the_outcome_of_a_retry_is_looked_up(jobs: JobQueue, world: World) -> None:
    dead = [(await world.ended("dead", {}, max_retries=0)).id for _ in range(3)]
    book = RetryBook()
    plan = Plan("retry", "x", tuple(dead), signatures=("9f31c2aaaaaa",))
    book.note(Report(plan, processed=3, finished=True, changed=tuple(dead)), NOW)
    assert await book.outcome(jobs.inspector, "9f31c2aaaaaa", NOW) == "03:07:41: 3, 3 dead again"
    await jobs.control.retry(dead[:1])
    await jobs.control.delete(dead[1:2])
    await jobs.control.purge(dead[1:2])
    assert (
        await book.outcome(jobs.inspector, "9f31c2aaaaaa", NOW) == "03:07:41: 3, 1 on their way, 1 gone, 1 dead again"
    )
    assert await book.outcome(jobs.inspector, "bbbb", NOW) == ""
    assert (await jobs.inspector.get(dead[0])).status is Status.QUEUED


async def test_of_a_large_retry_a_few_jobs_are_looked_at(jobs: JobQueue, world: World) -> None:
    ids = tuple(await world.insert_many(100))
    book = RetryBook()
    book.note(Report(Plan("retry", "x", ids, signatures=("aa",)), processed=100, changed=ids), NOW)
    assert await book.outcome(jobs.inspector, "aa", NOW) == f"03:07:41: 100, {LOOKED_AT} on their way of 20 looked at"
