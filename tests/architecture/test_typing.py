"""A type checker knows what `enqueue` takes and what `result` gives, for every kind of handler."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = """
from queue_core import BlockingHandle, BlockingQueue, JobContext, JobQueue, Priority
from queue_core import Jbo  # E
from jobconsole.notebook import conect  # E

jobs = JobQueue(memory=True)


@jobs.task(queue="images", timeout=60)
async def with_context(ctx: JobContext, path: str, width: int = 200) -> dict[str, int]:
    await ctx.progress(40, "decoded")
    return {"width": width}


@jobs.task
async def without_context(n: int) -> str:
    return str(n)


@jobs.task
def plain(ctx: JobContext, n: int) -> float:
    ctx.progress_now(50)
    return n / 2


async def right() -> None:
    handle = await with_context.enqueue("a.png", width=100)
    made: dict[str, int] = await handle.result(timeout=30)
    text: str = await (await without_context.enqueue(3)).result()
    half: float = await (await plain.options(priority=Priority.HIGH, delay="5m", tags=["x"]).enqueue(n=3)).result()
    many = await plain.enqueue_many([{"n": 1}, {"n": 2}])
    by_name = await jobs.enqueue("with_context", {"path": "a.png"}, queue="images", priority="high")
    print(made, text, half, many[0].id, by_name.created)


def plain_callers() -> None:
    with jobs.blocking() as queue:
        made: dict[str, int] = queue.enqueue(with_context, "a.png", width=100).result(timeout=30)
        half: float = queue.enqueue(plain.options(delay="5m"), n=3).result()
        texts: list[BlockingHandle[str]] = queue.enqueue_many(without_context, [{"n": 1}])
        by_name = queue.enqueue("with_context", {"path": "a.png"}, queue="images", priority="high")
        paused: bool = queue.schedules.pause("nightly")
        names: dict[str, bool] = queue.call(jobs.store.queues)
        print(made, half, texts, by_name.created, queue.get("x").payload, queue.stats().dlq, paused, names)
        queue.operations.change("retry", ["x"])


def wrong_plain_callers(queue: BlockingQueue) -> None:
    queue.enqueue(with_context, 3)  # E
    queue.enqueue(without_context, 3, delay="5m")  # E
    number: int = queue.enqueue(without_context, 3).result()  # E
    queue.enqueue("with_context", {}, qeue="images")  # E
    queue.schedules.pause(3)  # E
    queue.operations.change("retry", "x", 3)  # E
    print(number)


async def wrong() -> None:
    await with_context.enqueue(3)  # E
    await with_context.enqueue("a.png", height=3)  # E
    await without_context.enqueue("three")  # E
    await plain.enqueue()  # E
    number: int = await (await without_context.enqueue(3)).result()  # E
    plain.options(priorty=3)  # E
    plain.options(priority="hihg")  # E
    await jobs.enqueue("with_context", {}, qeue="images")  # E
    print(number)
"""


@pytest.mark.timeout(600)
def test_a_checker_finds_each_mistake_and_nothing_else(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(EXAMPLE)
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--config-file=",
        "--cache-dir",
        str(tmp_path / "cache"),
        program,
    ]
    output = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    found = {int(line) for line in re.findall(r"program\.py:(\d+): error", output)}
    expected = {number for number, line in enumerate(EXAMPLE.splitlines(), 1) if line.endswith("# E")}
    assert found == expected, output
