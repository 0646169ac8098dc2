"""Lines on their way to the store: bounded, in batches, kept while it is away, and free for those who write none."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from math import inf

import pytest

from queue_core import JobContext, JobQueue
from queue_core.errors import InvalidJob, StoreUnavailable
from queue_core.model.job import MAX_LOG_LINES, Claim, LogLine
from queue_core.worker import journal as journals
from queue_core.worker.attempt import RunningAttempt
from queue_core.worker.journal import LINES_AT_ONCE, Journal, Relay
from tests.conformance.working import working
from tests.waiting import PATIENCE, eventually
from tests.worker.breaking import BreakingStore


class Book:
    """A store that only keeps lines, and that a test can stop."""

    def __init__(self) -> None:
        self.batches: list[list[LogLine]] = []
        self.error: Exception | None = None
        self.held = True
        self.go_on = asyncio.Event()
        self.go_on.set()

    async def log(self, lines: Sequence[LogLine]) -> list[bool]:
        await self.go_on.wait()
        if self.error is not None:
            raise self.error
        self.batches.append(list(lines))
        return [self.held] * len(lines)

    def lines(self, job_id: str) -> list[int]:
        return [line.line for batch in self.batches for line in batch if line.id == job_id]


@pytest.fixture
def book() -> Book:
    return Book()


@pytest.fixture
def journal(book: Book) -> Journal:
    return Journal(book)  # type: ignore[arg-type]


def attempt(journal: Journal, job_id: str = "a") -> RunningAttempt:
    claim = Claim(job_id, 7, "work", "task", "{}", 5, 1, 0, 3, 0, 0.0, ())
    return RunningAttempt(claim, 0.0, journal)


async def test_lines_of_attempts_go_together(book: Book, journal: Journal) -> None:
    first, second = attempt(journal), attempt(journal, "b")
    for number in range(3):
        assert not first.log(f"a {number}")
        assert not second.log(f"b {number}")
    assert journal.busy
    await journal.write()
    assert not journal.busy
    assert len(book.batches) == 1
    assert (book.lines("a"), book.lines("b")) == ([1, 2, 3], [1, 2, 3])
    assert book.batches[0][0][:3] == ("a", 7, "work")


async def test_what_waits_of_an_attempt_is_bounded(book: Book, journal: Journal) -> None:
    one = attempt(journal)
    answers = [one.log("x") for _ in range(10 * MAX_LOG_LINES)]
    assert (answers[MAX_LOG_LINES - 1], answers[MAX_LOG_LINES], answers[-1]) == (False, True, True)
    await journal.write()
    assert book.lines("a") == list(range(9 * MAX_LOG_LINES + 1, 10 * MAX_LOG_LINES + 1))


async def test_what_waits_of_a_worker_is_bounded(book: Book, journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who writes much loses its own lines, and nobody else's."""
    monkeypatch.setattr(journals, "MAX_BYTES", 10_000)
    quiet, loud = attempt(journal), attempt(journal, "b")
    quiet.log("x")
    for _ in range(100):
        loud.log("y" * 1000)
    quiet.log("x")
    await journal.write()
    assert book.lines("a")[-1] == 2
    assert len(book.lines("b")) <= 10
    assert book.lines("b")[-1] == 100


async def test_what_is_written_makes_room_for_others(
    book: Book, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a worker would lose lines from the day on which it has written so many characters in all."""
    monkeypatch.setattr(journals, "MAX_BYTES", 20)
    one = attempt(journal)
    for _ in range(10):
        assert [one.log("x" * 8), one.log("y" * 8)] == [False, False]
        await journal.write()
    assert book.lines("a") == list(range(1, 21))


async def test_lines_are_kept_while_the_store_is_away(book: Book, journal: Journal) -> None:
    one = attempt(journal)
    one.log("first")
    book.error = StoreUnavailable("memory", "somebody pulled the plug")
    with pytest.raises(StoreUnavailable):
        await journal.write()
    one.log("second")
    book.error = None
    await journal.write()
    assert book.lines("a") == [1, 2]


async def test_while_the_store_is_away_the_newest_are_kept(book: Book, journal: Journal) -> None:
    one = attempt(journal)
    for _ in range(MAX_LOG_LINES):
        one.log("x")
    book.error = StoreUnavailable("memory", "somebody pulled the plug")
    book.go_on.clear()
    writing = asyncio.create_task(journal.write())
    await asyncio.sleep(0)
    for _ in range(300):
        one.log("y")
    book.go_on.set()
    with pytest.raises(StoreUnavailable):
        await writing
    book.error = None
    await journal.write()
    assert book.lines("a") == list(range(301, MAX_LOG_LINES + 301))


async def test_an_end_waits_for_lines_that_are_on_their_way(book: Book, journal: Journal) -> None:
    one, other = attempt(journal), attempt(journal, "b")
    one.log("first")
    book.go_on.clear()
    writing = asyncio.create_task(journal.write())
    await asyncio.sleep(0)
    ending = asyncio.create_task(journal.write_first([one]))
    await asyncio.wait_for(journal.write_first([other]), PATIENCE)  # who wrote nothing waits for nobody
    await asyncio.sleep(0)
    assert not ending.done()
    one.log("second")
    book.go_on.set()
    await asyncio.wait_for(asyncio.gather(writing, ending), PATIENCE)
    assert book.lines("a") == [1, 2]


async def test_an_attempt_that_is_over_is_not_listened_to_any_more(book: Book, journal: Journal) -> None:
    one = attempt(journal)
    book.held = False
    one.log("late")
    await journal.write()
    one.log("later")
    one.relay([(5, "from a process")])
    assert not journal.busy


async def test_what_cannot_be_stored_costs_no_job(
    book: Book, journal: Journal, caplog: pytest.LogCaptureFixture
) -> None:
    one = attempt(journal)
    one.log("x")
    book.error = InvalidJob("the database refused a value")
    await journal.write_first([one])
    assert not journal.busy
    assert "1 lines of job logs cannot be stored" in caplog.text


async def test_the_time_that_lines_waited(book: Book) -> None:
    now = [100.0]
    journal = Journal(book, lambda: now[0])  # type: ignore[arg-type]
    one = attempt(journal)
    one.log("first")
    now[0] += 30
    one.log("second")
    await journal.write()
    assert [line.age for line in book.batches[0]] == [30.0, 0.0]


async def test_a_job_that_writes_nothing_costs_the_store_nothing(jobs: JobQueue, store: BreakingStore) -> None:
    @jobs.task
    async def work() -> None:
        """Nothing."""

    handles = await jobs.enqueue_many("work", [{}] * 50)
    async with working(jobs):
        for handle in handles:
            await handle.result(PATIENCE)
    assert store.calls["log"] == 0


async def test_a_loop_of_lines_does_not_keep_the_store_busy(jobs: JobQueue, store: BreakingStore) -> None:
    """Batches rest between each other while jobs go on; the loop of the worker stays free."""
    end = asyncio.Event()

    @jobs.task
    async def work(ctx: JobContext) -> None:
        while not end.is_set():
            await ctx.log("again")

    handle = await jobs.enqueue("work")
    began = time.monotonic()
    async with working(jobs):
        assert await eventually(lambda: store.calls["log"] >= 4)
        took = time.monotonic() - began
        end.set()
        await handle.result(PATIENCE)
    assert took >= 3 * journals.WRITE_INTERVAL * 0.9


async def test_ends_wait_for_their_lines_while_the_store_is_away(jobs: JobQueue, store: BreakingStore) -> None:
    @jobs.task
    async def work(ctx: JobContext) -> None:
        await ctx.log("before the end")
        store.failing["log"] = StoreUnavailable("memory", "somebody pulled the plug")

    handle = await jobs.enqueue("work")
    async with working(jobs):
        assert await eventually(lambda: store.calls["log"] >= 2)
        assert store.calls["settle"] == 0
        store.failing.clear()
        await handle.result(PATIENCE)
        assert [entry.text for entry in (await jobs.inspector.logs(handle.id)).entries] == ["before the end"]


def test_a_childs_first_lines_are_handed_on_at_once() -> None:
    """They outlive the process; those of a loop gather, and the newest are kept."""
    said: list[Sequence[tuple[int, str]]] = []
    relay = Relay(said.append)
    for number in range(1, LINES_AT_ONCE + 1):
        relay.log(f"line {number}")
        assert said[-1] == [(number, f"line {number}")]
    for _ in range(3 * MAX_LOG_LINES):
        relay.log("again")
    relay.flush()
    handed = [number for lines in said for number, _ in lines]
    assert handed[-MAX_LOG_LINES:] == list(
        range(LINES_AT_ONCE + 2 * MAX_LOG_LINES + 1, LINES_AT_ONCE + 3 * MAX_LOG_LINES + 1)
    )
    assert handed == sorted(set(handed))
    relay.flush()
    assert [number for lines in said for number, _ in lines] == handed


async def test_a_childs_gathered_lines_do_not_wait_for_its_next_one() -> None:
    said: list[Sequence[tuple[int, str]]] = []
    relay = Relay(said.append)
    for _ in range(LINES_AT_ONCE + 3):
        relay.log("x")
    assert await eventually(lambda: said[-1][-1][0] == LINES_AT_ONCE + 3)
    relay._since, relay._at_once = inf, LINES_AT_ONCE  # the window goes on
    relay.log("later")
    assert await eventually(lambda: said[-1][-1][1] == "later"), "nor do those of another time"


async def test_lines_of_jobs_that_run_in_a_test() -> None:
    jobs = JobQueue(memory=True)

    @jobs.task
    async def work(ctx: JobContext) -> None:
        await ctx.log("seen")

    async with jobs.testing() as t:
        handle = await work.enqueue()
        assert await t.run_due() == 1
        (entry,) = (await jobs.inspector.logs(handle.id)).entries
        assert (entry.text, entry.at.timestamp()) == ("seen", t.clock.now())
