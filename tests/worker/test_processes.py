"""Tasks that run in child processes: what a job does to its process costs that job only."""

import asyncio
import contextlib
import gc
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from queue_core import ConfigurationError, Job, JobFailed, JobQueue, Worker
from queue_core.ports.store import ClaimRequest
from queue_core.worker.children import starter
from queue_core.worker.children.process import ChildProcess
from tests.conformance.making import new_job
from tests.conformance.working import PATIENCE, until, until_status, working
from tests.waiting import is_running
from tests.worker import process_tasks

TARGET = "tests.worker.process_tasks:jobs"


@pytest.fixture
async def jobs() -> AsyncIterator[JobQueue]:
    """A queue object of this test alone, with the tasks of the module that children import."""
    async with JobQueue(memory=True) as jobs:
        for name in process_tasks.jobs.tasks.types():
            jobs.tasks.add(process_tasks.jobs.tasks.get(name))
        yield jobs


async def result(jobs: JobQueue, name: str, **payload: Any) -> Any:
    return await (await jobs.enqueue(name, payload)).result(PATIENCE)


async def dead(jobs: JobQueue, name: str, **payload: Any) -> Job:
    handle = await jobs.enqueue(name, payload)
    with pytest.raises(JobFailed):
        await handle.result(PATIENCE)
    return await jobs.inspector.get(handle.id)


def gone(path: Path) -> bool:
    """Tell whether the process that wrote its id there has ended."""
    try:
        os.kill(int(path.read_text()), 0)
    except ProcessLookupError:
        return True
    return False


async def test_children_stay_warm(jobs: JobQueue) -> None:
    async with working(jobs, target=TARGET):
        first = await result(jobs, "pid", at=datetime(2026, 1, 1, tzinfo=UTC))
        again = [await result(jobs, "pid") for _ in range(3)]
    assert first[1:] == [os.getpid(), 2026]
    assert first[0] != os.getpid()
    assert {pid for pid, _, _ in again} == {first[0]}
    with pytest.raises(ProcessLookupError):
        os.kill(first[0], 0)


async def test_a_child_is_started_where_the_worker_was(
    jobs: JobQueue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A handler that leaves the folder made all later children fail to import their program."""
    async with working(jobs, target=TARGET):
        monkeypatch.chdir(tmp_path)
        assert (await result(jobs, "pid"))[1] == os.getpid()


async def test_no_job_is_to_blame_while_its_program_cannot_be_imported(
    jobs: JobQueue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As while a deployment replaces it: attempts were used up, and jobs died of an exit code."""
    monkeypatch.setattr(starter, "FIRST_PAUSE", 0.01)
    monkeypatch.setenv("BROKEN_CHILDREN", str(tmp_path / "broken"))
    (tmp_path / "broken").touch()
    async with working(jobs, target=TARGET):
        handle = await jobs.enqueue("pid", {})

        async def lost() -> bool:
            return (await jobs.inspector.get(handle.id)).losses > 0

        await until(lost)
        job = await jobs.inspector.get(handle.id)
        (tmp_path / "broken").unlink()
        await handle.result(PATIENCE)
    assert str(job.error) == (
        "ProcessDied: the process that was to run this job could not start: importing 'tests.worker.process_tasks' "
        "failed: ImportError: half of a release, before it had the job"
    )
    assert (await jobs.inspector.get(handle.id)).retry_count == 0


async def test_a_stop_gives_back_what_waits_for_its_program(
    jobs: JobQueue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paused = asyncio.Event()
    note = starter.ChildStarter.note_failure
    monkeypatch.setattr(starter, "FIRST_PAUSE", 10 * PATIENCE)
    monkeypatch.setattr(starter.ChildStarter, "note_failure", lambda given: (note(given), paused.set())[0])
    monkeypatch.setenv("BROKEN_CHILDREN", str(tmp_path))
    handle = await jobs.enqueue("pid", {})
    async with working(jobs, target=TARGET, stops=True, grace=10 * PATIENCE) as worker:
        await asyncio.wait_for(paused.wait(), PATIENCE)
        worker.stop()
    job = await jobs.inspector.get(handle.id)
    assert (job.status, job.losses, job.retry_count) == ("queued", 0, 0)


async def test_context_variables_stay_in_their_job(jobs: JobQueue) -> None:
    async with working(jobs, target=TARGET):
        assert [await result(jobs, "change_tenant", new=new) for new in "abc"] == [""] * 3


async def test_context_progress_and_errors(jobs: JobQueue) -> None:
    async with working(jobs, target=TARGET):
        assert await result(jobs, "steps") == "steps 1"
        job = await dead(jobs, "fail")
    assert (job.error, job.failure_kind, job.retry_count) == ("OSError: no such file", "error", 1)
    assert "process_tasks.py" in str(job.traceback)


@pytest.mark.parametrize("handler", ["raise_it", "raise_it_async"])
@pytest.mark.parametrize("which", process_tasks.ERRORS)
async def test_whatever_a_handler_raises_fails_its_attempt_as_in_the_worker(
    jobs: JobQueue, capfd: pytest.CaptureFixture[str], handler: str, which: str
) -> None:
    async with working(jobs, target=TARGET):
        (pid, _, _) = await result(jobs, "pid")
        child, here = [await dead(jobs, f"{handler}_in_{where}", which=which) for where in ("a_child", "the_worker")]
        assert (await result(jobs, "pid"))[0] == pid, "its process goes on"
    assert (child.error, child.failure_kind, child.retry_count) == (here.error, here.failure_kind, here.retry_count)
    assert (child.failure_kind, child.retry_count) == ("error", 0 if "CancelledError" in which else 1)
    assert str(child.error).startswith(
        "RuntimeError" if (handler, which) == ("raise_it", "GeneratorExit") else which.rpartition(".")[2]
    )
    assert f"in {handler}\n" in str(child.traceback)
    assert "Traceback" not in capfd.readouterr().err


async def test_a_handler_that_cancels_itself_fails_its_attempt(jobs: JobQueue) -> None:
    async with working(jobs, target=TARGET):
        (pid, _, _) = await result(jobs, "pid")
        job = await dead(jobs, "cancel_itself_in_a_child", which="given up")
        assert (await result(jobs, "pid"))[0] == pid, "its process goes on"
    assert (job.error, job.failure_kind, job.retry_count) == ("CancelledError: given up", "error", 0)


async def test_a_handler_that_cancels_its_process_takes_that_down(
    jobs: JobQueue, capfd: pytest.CaptureFixture[str]
) -> None:
    async with working(jobs, target=TARGET):
        job = await dead(jobs, "cancel_all_in_a_child", which="given up")
    assert (job.failure_kind, job.retry_count) == ("crashed", 1)
    assert "exit code 1" in str(job.error)
    said = capfd.readouterr().err
    assert "Traceback" not in said
    assert said.count("the event loop of this process was ended: asyncio.exceptions.CancelledError") == 2


@pytest.mark.parametrize("where", ["a_child", "the_worker"])
async def test_a_handler_that_returns_what_nothing_runs_fails(
    jobs: JobQueue, capfd: pytest.CaptureFixture[str], recwarn: pytest.WarningsRecorder, where: str
) -> None:
    async with working(jobs, target=TARGET):
        for handler, sentence in process_tasks.UNFINISHED.items():
            job = await dead(jobs, f"{handler.__name__}_in_{where}")
            assert str(job.error).startswith(f"TypeError: {sentence}")
            assert job.failure_kind == "error"
    gc.collect()
    assert [str(one.message) for one in recwarn] == []
    assert "never awaited" not in capfd.readouterr().err


async def test_no_transaction_of_its_own(jobs: JobQueue) -> None:
    async with working(jobs, target=TARGET):
        job = await dead(jobs, "transact")
    assert "task 'transact' runs in a child process" in str(job.error)


@pytest.mark.parametrize(
    ("name", "payload", "how"),
    [("leave", {"code": 0}, "exit code 0"), ("leave", {"code": 7}, "exit code 7"), ("segfault", {}, "SIGSEGV")],
)
async def test_a_process_that_dies_costs_its_job_only(
    jobs: JobQueue, tmp_path: Path, name: str, payload: dict[str, Any], how: str
) -> None:
    async with working(jobs, target=TARGET):
        neighbour = await jobs.enqueue("wait", {"path": str(tmp_path / "pid")})
        job = await dead(jobs, name, **payload)
        assert (job.failure_kind, job.retry_count, job.crashes) == ("crashed", 1, 0)
        assert how in str(job.error)
        assert str(await neighbour.status()) == "running"
        assert (await result(jobs, "pid"))[1] == os.getpid()
        await jobs.operations.change("cancel", [neighbour.id])
        await until_status(jobs, neighbour.id, "cancelled")


async def test_a_payload_that_does_not_fit_is_tried_again_there_too(jobs: JobQueue) -> None:
    bad = new_job(type="leave", queue="default", payload='{"code":"seven"}', max_retries=0)
    await jobs.store.insert([bad])
    async with working(jobs, target=TARGET):
        with pytest.raises(JobFailed):
            await jobs.result(bad.id, PATIENCE)
    attempts = await jobs.inspector.attempts(bad.id)
    assert [attempt.kind for attempt in attempts] == ["invalid_payload"] * 2


async def test_a_time_limit_kills_what_does_not_listen(jobs: JobQueue, tmp_path: Path) -> None:
    async with working(jobs, target=TARGET):
        job = await dead(jobs, "hang", path=str(tmp_path / "pid"))
        assert job.failure_kind == "timeout"
        assert gone(tmp_path / "pid")


async def test_cancelling_kills(jobs: JobQueue, tmp_path: Path) -> None:
    path = tmp_path / "pid"
    async with working(jobs, target=TARGET):
        handle = await jobs.enqueue("wait", {"path": str(path)})
        await until(lambda: _written(path))
        await jobs.operations.change("cancel", [handle.id])
        await until_status(jobs, handle.id, "cancelled")
    assert gone(path)


async def test_a_stop_gives_back_what_does_not_end(jobs: JobQueue, tmp_path: Path) -> None:
    path = tmp_path / "pid"
    async with working(jobs, target=TARGET, stops=True, grace=0) as worker:
        handle = await jobs.enqueue("wait", {"path": str(path)})
        await until(lambda: _written(path))
        worker.stop()
    job = await jobs.inspector.get(handle.id)
    assert (job.status, job.retry_count, job.crashes) == ("queued", 0, 0)
    assert gone(path)


async def _written(path: Path) -> bool:
    return await asyncio.to_thread(lambda: path.exists() and path.read_text() != "")


async def test_more_jobs_than_children(jobs: JobQueue) -> None:
    async with working(jobs, target=TARGET, concurrency=50):
        handles = await jobs.enqueue_many("pid", [{}] * 40)
        pids = {(await handle.result(PATIENCE))[0] for handle in handles}
    assert len(pids) <= max(2, os.cpu_count() or 1)


async def test_a_stop_gives_back_what_waits_for_a_child(jobs: JobQueue, tmp_path: Path) -> None:
    children = max(2, os.cpu_count() or 1)
    handles = await jobs.enqueue_many("take_turns", [{"folder": str(tmp_path)}] * 3 * children)

    async def busy() -> bool:
        return await asyncio.to_thread(lambda: len(list(tmp_path.iterdir()))) == children

    async with working(jobs, target=TARGET, stops=True, concurrency=3 * children) as worker:
        await until(busy)
        worker.stop()
        await asyncio.to_thread((tmp_path / "go").touch)
    ends = [str(await handle.status()) for handle in handles]
    assert sorted(ends) == ["completed"] * children + ["queued"] * 2 * children


async def test_a_soft_time_limit_is_told_in_the_child(jobs: JobQueue) -> None:
    async with working(jobs, target=TARGET):
        assert await result(jobs, "patient") == "soft_timeout"


async def test_handlers_do_not_reach_the_pipes(jobs: JobQueue) -> None:
    async with working(jobs, target=TARGET):
        read, files, _ = await result(jobs, "inside")
    assert read == ""
    assert int(files) <= 5  # its own three, the folder that it lists, and one of the event loop at most


async def test_a_child_that_died_while_idle_is_nobodys_fault(jobs: JobQueue) -> None:
    async with working(jobs, target=TARGET):
        (pid, _, _) = await result(jobs, "pid")
        os.kill(pid, 9)
        handle = await jobs.enqueue("pid", {})
        assert (await handle.result(PATIENCE))[0] != pid
        assert (await jobs.inspector.get(handle.id)).retry_count == 0


async def test_the_worker_has_to_know_what_children_import() -> None:
    Worker(process_tasks.jobs)  # found by the module of its tasks
    jobs = JobQueue(memory=True)
    jobs.task(process=True)(test_the_worker_has_to_know_what_children_import)
    with pytest.raises(ConfigurationError, match="target="):
        Worker(jobs)


async def test_the_rest_goes_on_beside_a_busy_child(jobs: JobQueue, tmp_path: Path) -> None:
    @jobs.task
    async def quick() -> float:
        return time.monotonic()

    async with working(jobs, target=TARGET):
        handle = await jobs.enqueue("wait", {"path": str(tmp_path / "pid")})
        await until(lambda: _written(tmp_path / "pid"))
        async with asyncio.timeout(PATIENCE):
            await (await quick.enqueue()).result()
        await jobs.operations.change("cancel", [handle.id])


def ended(path: Path) -> bool:
    """Tell whether the process whose id stands there runs no more; its new parent may not have asked for it yet."""
    return not is_running(int(path.read_text()))


@pytest.fixture
def forked(tmp_path: Path) -> Iterator[Path]:
    """Where the id of a fork stands that is to be ended in any case."""
    path = tmp_path / "fork"
    yield path
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        os.kill(int(path.read_text()), signal.SIGKILL)


@pytest.mark.parametrize("apart", [False, True])
async def test_the_end_of_a_child_is_seen_although_a_fork_of_it_lives(
    jobs: JobQueue, forked: Path, tmp_path: Path, apart: bool
) -> None:
    """That holds all pipes open. It ends, too, unless it has made a session of its own."""
    async with working(jobs, target=TARGET):
        job = await dead(jobs, "leave_a_fork", folder=str(tmp_path), apart=apart, then="die")
        assert (job.failure_kind, job.error) == (
            "crashed", "ProcessDied: the process that ran this job was killed by SIGKILL",
        )  # fmt: skip
        if not apart:
            await until(partial(answered, ended, forked))
    assert apart != ended(forked)


async def test_the_end_of_a_warm_child_is_seen_although_an_earlier_job_left_a_fork(
    jobs: JobQueue, forked: Path, tmp_path: Path
) -> None:
    async with working(jobs, target=TARGET, concurrency=1):
        fork = await result(jobs, "leave_a_fork", folder=str(tmp_path), apart=True, then="go on")
        try:
            job = await dead(jobs, "leave_a_fork", folder=str(tmp_path), apart=True, then="die")
        finally:
            os.kill(fork, signal.SIGKILL)
    assert job.failure_kind == "crashed"


async def test_what_a_cancelled_job_has_started_ends_with_it(jobs: JobQueue, forked: Path, tmp_path: Path) -> None:
    async with working(jobs, target=TARGET):
        handle = await jobs.enqueue("leave_a_fork", {"folder": str(tmp_path), "apart": False, "then": "wait"})
        await until(partial(answered, (tmp_path / "ready").exists))
        await jobs.operations.change("cancel", [handle.id])
        await until_status(jobs, handle.id, "cancelled")
        await until(partial(answered, ended, forked))


async def answered(question: Callable[..., bool], *args: Path) -> bool:
    return question(*args)


DYING = """
import os, subprocess, sys, time
command = [sys.executable, "-m", "queue_core.worker.children.child", sys.argv[1], "w", "1", str(os.getpid())]
child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True, text=True)
child.stdin.write(sys.argv[2] + "\\n")
child.stdin.flush()
while not os.path.exists(sys.argv[3]):
    time.sleep(0.01)
os._exit(0)
"""
"""A worker that hands a child one job, and is gone as soon as a file is there."""


async def test_what_a_job_has_started_ends_with_a_worker_that_is_gone(
    jobs: JobQueue, forked: Path, tmp_path: Path
) -> None:
    await jobs.enqueue("leave_a_fork", {"folder": str(tmp_path), "apart": False, "then": "wait"})
    (claim,) = await jobs.store.claim(ClaimRequest("default", "w", None, 1, 60.0))
    command = [sys.executable, "-c", DYING, TARGET, json.dumps(claim), str(tmp_path / "ready")]
    await asyncio.to_thread(subprocess.run, command, check=True, timeout=PATIENCE)
    await until(partial(answered, ended, forked))


async def test_a_child_is_ended_whose_job_is_stopped_while_it_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """No other code knows of it yet."""
    listen, started = ChildProcess._listen, []

    async def stopping(child: ChildProcess, pipe: BinaryIO) -> None:
        started.append(child)
        starting.cancel()
        await listen(child, pipe)

    monkeypatch.setattr(ChildProcess, "_listen", stopping)
    starting = asyncio.create_task(ChildProcess.start(TARGET, "worker", None))
    await asyncio.wait([starting])
    assert starting.cancelled()
    (child,) = started
    try:
        async with asyncio.timeout(PATIENCE):
            await child._ended.wait()
    finally:
        child._kill_group()
