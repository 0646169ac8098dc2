"""An event loop that a handler blocks: what has not begun is given back soon, and what never answers ends."""

from __future__ import annotations

import asyncio
import functools
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from queue_core import JobContext, JobQueue
from queue_core.errors import StoreUnavailable
from queue_core.model.job import Claim
from queue_core.model.settings import JobsSettings
from queue_core.ports.store import ClaimRequest
from queue_core.worker import attempt, fetcher
from queue_core.worker.attempt import LAG_SECONDS, Patience, Watchdog
from queue_core.worker.runner import Runner
from tests.architecture.sources import ROOT
from tests.conformance.working import PATIENCE, working
from tests.waiting import eventually
from tests.worker import process_tasks

LEASE = "300s"
"""No test waits for the end of one."""


class Hearts:
    """Hands out the store's hearts, and says when one of them has handed something back."""

    def __init__(self, jobs: JobQueue, monkeypatch: pytest.MonkeyPatch) -> None:
        self.handed_back = threading.Event()
        self.begun: list[str] = []
        # are called before something is handed back, and behind that
        self.before: Callable[[], object] = lambda: None
        self.behind: Callable[[], object] = lambda: None
        real = jobs.store.open_heartbeat

        def heart() -> Any:
            found = real()
            hand_back = found.hand_back

            def handing_back(worker: str, begun: Sequence[str], last: int) -> None:
                self.before()
                hand_back(worker, begun, last)
                self.behind()
                self.begun = list(begun)
                self.handed_back.set()

            monkeypatch.setattr(found, "hand_back", handing_back)
            return found

        monkeypatch.setattr(jobs.store, "open_heartbeat", heart)


@pytest.fixture
def jobs() -> JobQueue:
    settings = {"queue_backend": "memory", "defaults": {"stall": 0.5}}
    return JobQueue(settings=JobsSettings.model_validate(settings))


async def test_what_waits_for_a_slot_is_given_back(jobs: JobQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without blame, and it begins nowhere under its old lease."""
    hearts = Hearts(jobs, monkeypatch)
    monkeypatch.setattr(Runner, "_ahead", lambda self: 4)
    ran: list[tuple[str, int]] = []

    @jobs.task(timeout=0)
    async def blocks(ctx: JobContext) -> None:
        ran.append((ctx.job_id, ctx.attempt))
        if len(ran) == 1:
            assert hearts.handed_back.wait(PATIENCE)

    async with jobs:
        handles = await blocks.enqueue_many([{}] * 5)
        async with working(jobs, concurrency=1, lease=LEASE, heartbeat="0.2s"):
            for handle in handles:
                await handle.result(PATIENCE)
        found = [await jobs.inspector.get(handle.id) for handle in handles]
    first, *others = found
    assert hearts.begun == [first.id]
    assert sorted(ran) == sorted((job.id, 1) for job in found), "each ran once, and no attempt was used up"
    assert {(job.losses, job.crashes, job.retry_count) for job in found} == {(0, 0, 0)}
    assert min(job.token for job in others) > first.token + len(others), "under another lease than at first"


async def test_what_cannot_be_given_back_at_once_is_given_back_later(
    jobs: JobQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store was away while the loop stood still, and the loop goes on before the store is back."""
    hearts = Hearts(jobs, monkeypatch)
    monkeypatch.setattr(Runner, "_ahead", lambda self: 4)
    tried = threading.Event()
    real = jobs.store.open_heartbeat

    def heart() -> Any:
        found = real()
        hand_back = found.hand_back

        def handing_back(worker: str, begun: Sequence[str], last: int) -> None:
            if not tried.is_set():
                tried.set()
                raise StoreUnavailable("memory", "away")
            hand_back(worker, begun, last)

        monkeypatch.setattr(found, "hand_back", handing_back)
        return found

    monkeypatch.setattr(jobs.store, "open_heartbeat", heart)
    ran: list[str] = []

    @jobs.task(timeout=0)
    async def blocks(ctx: JobContext) -> None:
        ran.append(ctx.job_id)
        if len(ran) == 1:
            assert tried.wait(PATIENCE)

    async with jobs:
        handles = await blocks.enqueue_many([{}] * 5)
        async with working(jobs, concurrency=1, lease=LEASE, heartbeat="0.2s"):
            for handle in handles:
                await handle.result(PATIENCE)
    assert hearts.handed_back.is_set()
    assert sorted(ran) == sorted(handle.id for handle in handles)


async def test_what_is_claimed_meanwhile_is_not_given_back(jobs: JobQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop goes on just then."""
    hearts = Hearts(jobs, monkeypatch)
    monkeypatch.setattr(Runner, "_ahead", lambda self: 4)
    goes_on, claimed = threading.Event(), threading.Event()
    ended = asyncio.Event()
    ran: list[int] = []

    def before() -> None:
        goes_on.set()
        assert claimed.wait(PATIENCE)

    @jobs.task(timeout=0)
    async def blocks(n: int) -> None:
        if n == 0 and not goes_on.is_set():
            assert goes_on.wait(PATIENCE)

    @jobs.task(timeout=0)
    async def other(n: int) -> None:
        ran.append(n)
        claimed.set()
        await ended.wait()

    loop = asyncio.get_running_loop()
    hearts.before = before
    hearts.behind = lambda: asyncio.run_coroutine_threadsafe(jobs.store.reclaim(100), loop).result(PATIENCE)
    async with jobs:
        handles = await blocks.enqueue_many([{"n": n} for n in range(3)])
        async with working(jobs, concurrency=1, lease=LEASE, heartbeat="0.2s"):
            assert await eventually(goes_on.is_set)
            handles.append(await other.enqueue(0))
            await asyncio.to_thread(hearts.handed_back.wait, PATIENCE)
            ended.set()
            for handle in handles:
                await handle.result(PATIENCE)
    assert ran == [0], "its lease held all the time"


async def test_what_an_unread_answer_holds_is_given_back(jobs: JobQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store takes it for begun, for there was a free slot."""
    hearts = Hearts(jobs, monkeypatch)
    given: list[Claim] = []
    real = jobs.store.claim
    ran: list[int] = []

    async def claim(request: ClaimRequest) -> list[Claim]:
        claims = await real(request)
        if claims and not given:
            given.extend(claims)
            # The answer is there; before anybody reads it, a handler holds the loop up.
            assert hearts.handed_back.wait(PATIENCE)
        return claims

    @jobs.task(timeout=0)
    async def task(ctx: JobContext) -> None:
        ran.append(ctx.token)

    monkeypatch.setattr(jobs.store, "claim", claim)
    async with jobs:
        handle = await task.enqueue()
        async with working(jobs, lease=LEASE, heartbeat="0.2s"):
            await handle.result(PATIENCE)
        job = await jobs.inspector.get(handle.id)
    assert (job.losses, job.crashes, job.retry_count) == (0, 0, 0)
    assert (len(ran), ran[0] > given[0].token) == (1, True)


async def test_a_short_stall_changes_nothing(jobs: JobQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    hearts = Hearts(jobs, monkeypatch)
    monkeypatch.setattr(Runner, "_ahead", lambda self: 4)

    @jobs.task(timeout=0)
    async def task(ctx: JobContext) -> int:
        time.sleep(0.1)  # noqa: ASYNC251
        return ctx.token

    async with jobs:
        handles = await task.enqueue_many([{}] * 5)
        async with working(jobs, concurrency=1, lease=LEASE, heartbeat="0.2s"):
            tokens = await asyncio.gather(*(handle.result(PATIENCE) for handle in handles))
    assert not hearts.handed_back.is_set()
    assert sorted(tokens) == list(range(min(tokens), min(tokens) + 5))


PROGRAM = """
import asyncio, sys, time
from queue_core import JobQueue, Worker

jobs = JobQueue(memory=True)

@jobs.task(timeout=0)
async def blocks() -> None:
    print("blocks", flush=True)
    time.sleep(600)

async def main() -> None:
    async with jobs:
        await blocks.enqueue()
        await Worker(jobs, lease=1.5).run()

asyncio.run(main())
"""


def test_a_plain_worker_whose_loop_never_answers_ends(tmp_path: Path) -> None:
    """As a process of `worker run` does: with 1, so that whoever keeps it running starts it again."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, str(program)],
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT), "PATH": ""},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "blocks\n")
    assert "the event loop has not answered" in done.stderr


STALL = LAG_SECONDS * 2


async def blocks() -> None:
    time.sleep(STALL)  # noqa: ASYNC251


async def said_of(jobs: JobQueue, name: str, caplog: pytest.LogCaptureFixture, **options: Any) -> tuple[str, str]:
    """Run one job of a task; return its id and what the log says of the loop."""
    async with jobs:
        handle = await jobs.enqueue(name)
        with caplog.at_level("WARNING", "queue_core.worker"):
            async with working(jobs, lease=LEASE, heartbeat="0.2s", **options):
                await handle.result(PATIENCE)
    return handle.id, next(text for text in caplog.messages if "has not answered" in text).partition("\n")[0]


@pytest.mark.parametrize("handler", [blocks, functools.partial(blocks)])
async def test_a_handler_that_holds_the_loop_up_is_named(
    jobs: JobQueue, handler: Any, caplog: pytest.LogCaptureFixture
) -> None:
    jobs.task(name="blocks", timeout=0)(handler)
    job_id, said = await said_of(jobs, "blocks", caplog)
    assert f"job {job_id} of type 'blocks' holds it up" in said


async def test_a_job_whose_child_is_being_started_is_not_blamed(
    jobs: JobQueue, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """To fork takes seconds on a loaded machine: that is no doing of the handler."""
    loop = asyncio.get_running_loop()
    start = loop.subprocess_exec

    async def slow_start(*command: Any, **options: Any) -> Any:
        time.sleep(STALL)  # noqa: ASYNC251
        return await start(*command, **options)

    jobs.tasks.add(process_tasks.jobs.tasks.get("pid"))
    monkeypatch.setattr(loop, "subprocess_exec", slow_start)
    job_id, said = await said_of(jobs, "pid", caplog, target="tests.worker.process_tasks:jobs")
    assert job_id not in said
    assert "slow_start holds it up, which is no job's handler" in said


def test_the_time_for_which_all_of_the_process_stood_still_is_no_delay_of_its_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As on a machine that was suspended: no job is to blame, and none that waits here is given back."""
    blamed: list[str] = []
    # begins, asks the loop, and is stopped for a minute before it asks again
    times, stopping = iter([0.0, 0.0, 60.0]), iter([False, True])
    monkeypatch.setattr(attempt, "time", SimpleNamespace(monotonic=lambda: next(times)))
    patience = Patience(stall=5.0, wedged=30.0)
    watchdog = Watchdog(lambda *_: None, patience, lambda: blamed.append("stalled"), lambda: blamed.append("wedged"))
    monkeypatch.setattr(watchdog, "_stop", SimpleNamespace(wait=lambda seconds: next(stopping)))
    monkeypatch.setattr(watchdog, "_report", lambda *_: blamed.append("reported"))
    watchdog._answered = next(times)
    watchdog._run(cast("asyncio.AbstractEventLoop", SimpleNamespace(call_soon_threadsafe=lambda call: None)), 0)
    assert blamed == []


def test_a_loop_that_stands_still_again_is_reported_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once each time: what waits for a slot by then was claimed after the first time."""
    now, step = 0.0, LAG_SECONDS / 2
    # whether the loop answers when it is asked
    answers = iter([True, *[False] * 6, True, *[False] * 6])
    stalled: list[float] = []

    def wait(seconds: float) -> bool:
        nonlocal now
        now += step
        return len(asked) == 14

    def ask(answer: Callable[[], None]) -> None:
        asked.append(now)
        if next(answers):
            answer()

    asked: list[float] = []
    monkeypatch.setattr(attempt, "time", SimpleNamespace(monotonic=lambda: now))
    patience = Patience(stall=LAG_SECONDS * 1.5, wedged=PATIENCE)
    watchdog = Watchdog(lambda *_: None, patience, lambda: stalled.append(now), None)
    monkeypatch.setattr(watchdog, "_stop", SimpleNamespace(wait=wait))
    monkeypatch.setattr(watchdog, "_report", lambda *_: None)
    watchdog._run(cast("asyncio.AbstractEventLoop", SimpleNamespace(call_soon_threadsafe=ask)), 0)
    # The fourth time that it does not answer is the first that is too long.
    assert stalled == [asked[4], asked[11]]


async def test_what_an_unread_answer_to_the_end_of_others_holds_is_given_back(
    jobs: JobQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next job of an ordering key is claimed in the trip that ends the one before."""
    monkeypatch.setattr(fetcher, "HAND_ON_SECONDS", PATIENCE)
    hearts = Hearts(jobs, monkeypatch)
    real: Any = jobs.store.settle_and_claim  # type: ignore[attr-defined]
    given: list[Claim] = []
    ran: list[tuple[int, int]] = []

    async def handing(outcomes: Any, requests: Any) -> Any:
        answer = await real(outcomes, requests)
        if answer[1] and not given:
            given.extend(answer[1])
            # The answer is there; before it is read, a handler holds the loop up.
            assert hearts.handed_back.wait(PATIENCE)
        return answer

    @jobs.task(timeout=0)
    async def task(ctx: JobContext, number: int) -> None:
        ran.append((number, ctx.token))

    monkeypatch.setattr(jobs.store, "settle_and_claim", handing)
    async with jobs:
        handles = [await task.options(ordering_key="one").enqueue(number=number) for number in range(3)]
        async with working(jobs, lease=LEASE, heartbeat="0.2s"):
            for handle in handles:
                await handle.result(PATIENCE)
    assert [number for number, _ in ran] == [0, 1, 2]
    assert given[0].token not in {token for _, token in ran}
