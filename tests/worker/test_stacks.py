"""Stacks of jobs in child processes, and of workers that are frozen."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from jobconsole.present.stack import SILENT, read_stack, unmoved_since
from queue_core import JobQueue
from queue_core.model.report import JobStack
from tests.conformance.making import UNKNOWN
from tests.conformance.working import PATIENCE, until, until_status, working
from tests.worker import process_tasks
from tests.worker.test_processes import TARGET


@pytest.fixture
async def jobs() -> AsyncIterator[JobQueue]:
    async with JobQueue(memory=True) as jobs:
        for name in process_tasks.jobs.tasks.types():
            jobs.tasks.add(process_tasks.jobs.tasks.get(name))
        yield jobs


@pytest.mark.parametrize(("task", "kind"), [("reads_a_block", "child thread"), ("waits_for_a_block", "child task")])
async def test_a_child_shows_its_handler_and_a_frozen_one_is_named(
    jobs: JobQueue, tmp_path: Path, task: str, kind: str
) -> None:
    end = tmp_path / "end"
    async with working(jobs, target=TARGET) as worker:
        handle = await jobs.enqueue(task, {"until": str(end)})
        await until_status(jobs, handle.id, "running")

        async def taken() -> bool:
            """Wait until the child has imported its module and begun."""
            stack = await jobs.operations.ask_stack(handle.id, PATIENCE)
            return stack is not None and json.loads(stack.text).get("kind") == kind

        await until(taken)
        child = worker._held[handle.id].child
        assert child is not None
        os.kill(child.pid, signal.SIGSTOP)
        frozen = await jobs.operations.ask_stack(handle.id, PATIENCE)
        os.kill(child.pid, signal.SIGCONT)
        stacks = [read_stack(one) for one in await jobs.operations.stacks(handle.id)]
        end.touch()
        await until_status(jobs, handle.id, "completed")
    assert frozen is not None
    assert read_stack(frozen).problem == f"the child process {child.pid} did not answer in 0.5 s"
    assert stacks[1].frames
    own = [frame.function for frame in stacks[1].frames if not frame.library]
    assert task in own[:2]


async def test_an_ended_child_is_not_waited_for(jobs: JobQueue, tmp_path: Path) -> None:
    async with working(jobs, target=TARGET):
        handle = await jobs.enqueue("reads_a_block", {"until": str(tmp_path)})
        await until_status(jobs, handle.id, "completed")
        assert await jobs.operations.ask_stack(handle.id) is None
        again = [jobs.enqueue("pid", {}) for _ in range(2)]
        assert all([await (await one).result(20) for one in again]), "the child takes jobs as before"


def stack(number: int, place: int, text: str | None = None) -> JobStack:
    from datetime import UTC, datetime, timedelta

    at = datetime(2026, 2, 25, 3, number, tzinfo=UTC)
    frames = [["lib/x.py", number, "wait", "", True], ["app/nfs.py", place, "read", "pread()", False]]
    answer = json.dumps({"kind": "task", "frames": frames, "lag": 0.1, "memory": 1})
    return JobStack(number, UNKNOWN, "w", at, at + timedelta(seconds=1), answer if text is None else text)


def test_it_has_not_moved_as_long_as_the_programs_own_code_has_not() -> None:
    stacks = [read_stack(stack(number, place)) for number, place in ((9, 40), (7, 40), (5, 40), (3, 41), (1, 40))]
    assert unmoved_since(stacks) == stacks[2].taken_at
    assert unmoved_since(stacks[:1]) is None
    assert unmoved_since(stacks[2:]) is None


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"frames": 7}', '{"frames": [[1]]}', '{"problem": "\\u001b[2J no"}', '{"lag": "x"}']
)
def test_whatever_an_answer_holds_it_is_read(text: str) -> None:
    found = read_stack(stack(1, 1, text))
    assert "\x1b" not in found.problem
    assert read_stack(stack(1, 1, text)._replace(taken_at=None)).problem == SILENT


async def test_a_frozen_process_does_not_hold_up_who_asks(jobs: JobQueue) -> None:
    """As of a worker that is stopped: nothing reads the request."""
    await jobs.enqueue("x", {})
    claimed = await jobs.claim_next(types=["x"], wait=10)
    assert claimed is not None
    began = asyncio.get_running_loop().time()
    asked = await jobs.operations.ask_stack(claimed.id)
    assert 1.9 < asyncio.get_running_loop().time() - began < 2.6
    assert asked is not None
    assert asked.taken_at is None
    await claimed.complete()
