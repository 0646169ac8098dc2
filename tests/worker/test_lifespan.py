"""Lifespans: what handlers share is there before the first job, and left after the last one, also when that fails."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextvars import ContextVar
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from queue_core import ConfigurationError, JobContext, JobQueue, LifespanFailed, Middleware, Worker
from queue_core.client import lifespan as lifespans
from queue_core.worker.options import EXIT_LIFESPAN
from tests.conformance.working import PATIENCE, working
from tests.waiting import eventually
from tests.worker.test_supervisor import serving

TARGET = "tests.worker.lifespan_tasks:jobs"
tenant: ContextVar[str] = ContextVar("tenant", default="")


async def test_all_handlers_share_it(jobs: JobQueue) -> None:
    """In coroutines, in threads and in hooks; the last lifespan is left first, and after the last job."""
    done: list[str] = []

    @jobs.lifespan
    async def first(state: SimpleNamespace) -> AsyncIterator[None]:
        state.names = ["first"]
        tenant.set("acme")
        yield
        done.append("first left")

    @jobs.lifespan
    @contextlib.asynccontextmanager
    async def second(state: SimpleNamespace) -> AsyncIterator[None]:
        state.names.append("second")
        yield
        done.append("second left")

    class Look(Middleware):
        async def around_run(self, ctx: JobContext, call: Callable[[], Awaitable[Any]]) -> Any:
            done.append(f"hook sees {len(ctx.state.names)}")
            return await call()

    @jobs.task
    async def coroutine(ctx: JobContext) -> list[str]:
        return [*ctx.state.names, tenant.get()]

    @jobs.task
    def thread(ctx: JobContext) -> list[str]:
        return [*ctx.state.names, tenant.get()]

    @jobs.task
    async def last() -> None:
        started.set()
        await asyncio.sleep(0.05)
        done.append("last job")

    started = asyncio.Event()
    jobs.middleware(Look())
    async with working(jobs):
        for task in (coroutine, thread):
            assert await (await task.enqueue()).result(PATIENCE) == ["first", "second", "acme"]
        await last.enqueue()
        await asyncio.wait_for(started.wait(), PATIENCE)
    assert done == ["hook sees 2"] * 3 + ["last job", "second left", "first left"]


async def test_one_that_fails_claims_nothing(jobs: JobQueue) -> None:
    left = []

    @jobs.lifespan
    async def pool(state: SimpleNamespace) -> AsyncIterator[None]:
        yield
        left.append("pool")

    @jobs.lifespan
    async def cache(state: SimpleNamespace) -> AsyncIterator[None]:
        raise ConnectionError("refused\nby the server")
        yield

    @jobs.task
    async def never() -> None: ...

    handle = await never.enqueue()
    with pytest.raises(LifespanFailed) as caught:
        await Worker(jobs).run()
    sentence = "the lifespan 'cache' failed: ConnectionError: refused by the server (test_lifespan.py, line "
    assert str(caught.value).startswith(sentence)
    assert isinstance(caught.value.__cause__, ConnectionError)
    assert left == ["pool"]
    assert (await jobs.inspector.get(handle.id)).status == "queued"
    assert (await jobs.inspector.overview()).workers == ()


async def test_one_that_fails_at_the_end_loses_nothing(jobs: JobQueue) -> None:
    """The outcomes are stored by then, and the other lifespans are left."""
    left = []

    @jobs.lifespan
    async def pool(state: SimpleNamespace) -> AsyncIterator[None]:
        yield
        left.append("pool")

    @jobs.lifespan
    async def cache(state: SimpleNamespace) -> AsyncIterator[None]:
        yield
        raise ConnectionError

    @jobs.task
    async def quick() -> int:
        return 1

    handle = await quick.enqueue()
    with pytest.raises(LifespanFailed, match=r"^the lifespan 'cache' failed: ConnectionError \("):
        async with working(jobs):
            assert await handle.result(PATIENCE) == 1
    assert left == ["pool"]


async def test_one_that_is_not_left_in_time_is_given_up(jobs: JobQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    """A service ends with its grace period, whatever a lifespan waits for; the others are left all the same."""
    monkeypatch.setattr(lifespans, "MIN_LEAVE_SECONDS", 0.05)
    left = []

    @jobs.lifespan
    async def pool(state: SimpleNamespace) -> AsyncIterator[None]:
        yield
        left.append("pool")

    @jobs.lifespan
    async def slow(state: SimpleNamespace) -> AsyncIterator[None]:
        yield
        await asyncio.Event().wait()

    @jobs.task
    async def quick() -> int:
        return 1

    handle = await quick.enqueue()
    with pytest.raises(LifespanFailed, match=r"^the lifespan 'slow' failed: it was not left within 0"):
        async with working(jobs, grace=0.5):
            assert await handle.result(PATIENCE) == 1
    assert left == ["pool"]


@pytest.mark.parametrize("how", ["stop", "cancel"])
async def test_a_worker_can_be_ended_while_it_enters(jobs: JobQueue, how: str) -> None:
    entering, left = asyncio.Event(), []

    @jobs.lifespan
    async def slow(state: SimpleNamespace) -> AsyncIterator[None]:
        entering.set()
        try:
            await asyncio.sleep(600)
        finally:
            left.append("slow")
        yield

    @jobs.task
    async def never() -> None: ...

    worker = Worker(jobs)
    running = asyncio.create_task(worker.run())
    await asyncio.wait_for(entering.wait(), PATIENCE)
    if how == "stop":
        worker.stop()
        worker.stop()
        await asyncio.wait_for(running, PATIENCE)
    else:
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(running, PATIENCE)
    assert left == ["slow"]


async def test_a_worker_that_is_cancelled_leaves_it(jobs: JobQueue) -> None:
    left, entered = [], asyncio.Event()

    @jobs.lifespan
    async def pool(state: SimpleNamespace) -> AsyncIterator[None]:
        entered.set()
        yield
        left.append("pool")

    @jobs.task
    async def never() -> None: ...

    running = asyncio.create_task(Worker(jobs).run())
    await asyncio.wait_for(entered.wait(), PATIENCE)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(running, PATIENCE)
    assert left == ["pool"]


async def test_a_test_fills_the_state_by_itself(jobs: JobQueue) -> None:
    @jobs.lifespan
    async def never(state: SimpleNamespace) -> AsyncIterator[None]:
        raise AssertionError
        yield

    @jobs.task
    async def name(ctx: JobContext) -> str:
        return str(ctx.state.name)

    async with jobs.testing() as t:
        t.state.name = "fake"
        handle = await name.enqueue()
        await t.run_due()
        assert await handle.result() == "fake"


async def _coroutine(state: SimpleNamespace) -> None: ...


def _generator(state: SimpleNamespace) -> Iterator[None]:
    yield


async def _without_parameter() -> AsyncIterator[None]:
    yield


@pytest.mark.parametrize(("function", "why"), [
    (_coroutine, "lifespan '_coroutine' has to be an async function that yields once"),
    (_generator, "lifespan '_generator' has to be an async function that yields once"),
    (_without_parameter, "lifespan '_without_parameter' takes one parameter, the state to fill: "),
])  # fmt: skip
def test_what_cannot_be_one_is_refused(jobs: JobQueue, function: Any, why: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^{why}"):
        jobs.lifespan(function)


@pytest.mark.parametrize("function", ["_returns_nothing", "_never_yields", "_yields_twice", "_not_decorated"])
async def test_what_turns_out_to_be_none_fails(jobs: JobQueue, function: str) -> None:
    """With the place in its code."""
    jobs.lifespan(globals()[function])
    jobs.task(_nothing)
    line = globals()[function].__wrapped__ if function in ("_never_yields", "_yields_twice") else globals()[function]
    why = {
        "_returns_nothing": "TypeError: it returned NoneType, which is no async context manager",
        "_yields_twice": "it has to yield exactly once, and yielded again",
    }.get(function, "it has to yield exactly once, and did not")
    with pytest.raises(LifespanFailed) as caught:
        async with working(jobs) as worker:
            worker.stop()
    where = f"(test_lifespan.py, line {line.__code__.co_firstlineno})"
    assert str(caught.value) == f"the lifespan '{function}' failed: {why} {where}"


async def _nothing() -> None: ...


def _returns_nothing(state: SimpleNamespace) -> Any: ...


@contextlib.asynccontextmanager
async def _never_yields(state: SimpleNamespace) -> AsyncIterator[None]:
    if state is None:
        yield


@contextlib.asynccontextmanager
async def _yields_twice(state: SimpleNamespace) -> AsyncIterator[None]:
    yield
    yield


async def _not_decorated(state: SimpleNamespace) -> AsyncIterator[None]:
    if state is None:
        yield


# -- in a service


def notes(folder: Path) -> list[tuple[str, int]]:
    lines = (folder / "notes").read_text().splitlines() if (folder / "notes").exists() else []
    return [(what, int(pid)) for what, pid in (line.split() for line in lines)]


async def test_child_processes_have_their_own(tmp_path: Path) -> None:
    """Once each, however many jobs they run; all are left when the service ends."""
    async with JobQueue(sqlite=tmp_path / "jobs.db") as jobs:
        with serving(tmp_path, TARGET, processes=1) as service:
            here = [await (await jobs.enqueue("in_worker")).result(PATIENCE) for _ in range(2)]
            there = [await (await jobs.enqueue("in_child")).result(PATIENCE) for _ in range(2)]
            service.send(signal.SIGTERM)
            assert service.code() == 0, service.log
    (worker,), (child,) = ({pid for pair in pairs for pid in pair} for pairs in (here, there))
    assert worker != child
    assert notes(tmp_path) == [("entered", worker), ("entered", child), ("left", child), ("left", worker)]


async def test_a_service_ends_whose_lifespan_cannot_be_entered(tmp_path: Path) -> None:
    with serving(tmp_path, TARGET, {"BROKEN": "enter"}, processes=1) as service:
        assert service.code() == 1
        made, line = service.log.splitlines()
    assert " INFO " in made, "of the new file"
    assert line.partition("CRITICAL ")[2].startswith(
        "the lifespan 'connections' failed: ConnectionError: no ␛[2J database here (lifespan_tasks.py, line "
    )
    assert len(notes(tmp_path)) == 1, "it is not tried again"


def test_a_child_logs_in_the_form_of_its_service(tmp_path: Path) -> None:
    env = os.environ | {"SERVED_FOLDER": str(tmp_path), "BROKEN": "enter"}
    command = [
        sys.executable,
        "-m",
        "queue_core.worker.children.child",
        TARGET,
        "w",
        "1",
        str(os.getpid()),
        "json",
        "info",
    ]
    child = subprocess.run(command, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert child.returncode == EXIT_LIFESPAN
    (line,) = child.stderr.splitlines()
    entry = json.loads(line)
    assert (entry["level"], entry["message"].partition(" failed")[0]) == ("critical", "the lifespan 'connections'")


async def test_a_service_shows_that_a_lifespan_could_not_be_left(tmp_path: Path) -> None:
    with serving(tmp_path, TARGET, {"BROKEN": "leave"}, processes=1) as service:
        service.ready(1)
        assert await eventually(lambda: bool(notes(tmp_path)))
        service.send(signal.SIGTERM)
        assert service.code() == 1
        assert " CRITICAL the lifespan 'connections' failed: ConnectionError: it was gone (" in service.log
