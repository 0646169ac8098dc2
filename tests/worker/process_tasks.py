"""Handlers that child processes import, some of which take their process down."""

import asyncio
import concurrent.futures
import ctypes
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator
from contextvars import ContextVar
from datetime import datetime
from pathlib import Path

from queue_core import JobContext, JobQueue, Retry, SoftTimeLimitExceeded

if slow := os.environ.get("SLOW_CHILDREN"):
    time.sleep(float(slow))
if (broken := os.environ.get("BROKEN_CHILDREN")) and Path(broken).exists():
    raise ImportError("half of a release")

jobs = JobQueue(memory=True)
ONCE = Retry(max_retries=1, delay=0.01)
tenant: ContextVar[str] = ContextVar("tenant", default="")


@jobs.task(process=True)
def pid(at: datetime | None = None) -> list[int]:
    return [os.getpid(), os.getppid(), at.year if at else 0]


@jobs.task(process=True)
def writes_a_line() -> None:
    logging.getLogger("app").info("from a child")


@jobs.task(timeout=0)
def alone(folder: str, how: str) -> int:
    """Note the process, and end it so, or wait to be ended."""
    Path(folder, "alone.new").write_text(str(os.getpid()))
    Path(folder, "alone.new").rename(Path(folder, "alone"))
    if how == "segfault":
        ctypes.string_at(0)
    if how == "exit":
        os._exit(3)
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(600)
    return os.getpid()


@jobs.task(process=True, timeout=0, retry=Retry(max_retries=0))
def leave_a_fork(folder: str, apart: bool, then: str) -> int:
    """Leave a process behind that holds all that this one has open, and end, or wait to be ended."""
    if (fork := os.fork()) == 0:
        if apart:
            os.setsid()
        time.sleep(600)
        os._exit(0)
    Path(folder, "fork").write_text(str(fork))
    if then == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    Path(folder, "ready").touch()
    while then == "wait":
        time.sleep(600)
    return fork


@jobs.task(timeout=0)
def alone_in_turn(folder: str) -> None:
    take_turns.definition.function(folder)


@jobs.task(timeout=0.5, retry=Retry(max_retries=0))
def alone_at_once() -> int:
    return os.getpid()


@jobs.task(process=True)
async def change_tenant(new: str) -> str:
    before = tenant.get()
    tenant.set(new)
    return before


@jobs.task(process=True)
async def steps(ctx: JobContext) -> str:
    await ctx.progress(50, "half")
    print("what a handler prints does not disturb")  # noqa: T201
    await asyncio.sleep(0.01)
    return f"{ctx.type} {ctx.attempt}"


@jobs.task(process=True, retry=Retry(max_retries=0))
async def transact(ctx: JobContext) -> None:
    async with ctx.transaction():
        pass


@jobs.task(process=True)
def tell(ctx: JobContext, lines: int) -> None:
    for number in range(lines):
        ctx.log_now(f"line {number + 1}")


@jobs.task(process=True, retry=ONCE)
async def tell_and_leave(ctx: JobContext) -> None:
    await ctx.log(f"attempt {ctx.attempt}")
    os._exit(7)


@jobs.task(process=True, retry=ONCE)
def fail() -> None:
    raise OSError("no such file")


class OwnError(BaseException):
    """What no `except Exception` of a handler would catch."""


ERRORS: dict[str, type[BaseException]] = {
    "asyncio.CancelledError": asyncio.CancelledError,
    "futures.CancelledError": concurrent.futures.CancelledError,
    "futures.InvalidStateError": concurrent.futures.InvalidStateError,
    "GeneratorExit": GeneratorExit,
    "KeyboardInterrupt": KeyboardInterrupt,
    "SystemExit": SystemExit,
    "OwnError": OwnError,
}
NEVER = Retry(max_retries=1, delay=0.01, never=(concurrent.futures.CancelledError, asyncio.CancelledError))


def raise_it(which: str) -> None:
    raise ERRORS[which]("upstream")


async def raise_it_async(which: str) -> None:
    raise ERRORS[which]("upstream")


async def cancel_itself(which: str) -> None:
    asyncio.current_task().cancel(which)  # type: ignore[union-attr]
    await asyncio.sleep(60)


async def cancel_all(which: str) -> None:
    for task in asyncio.all_tasks():
        task.cancel(which)
    await asyncio.sleep(60)


for handler in (raise_it, raise_it_async, cancel_itself, cancel_all):
    jobs.task(process=True, retry=NEVER, name=f"{handler.__name__}_in_a_child")(handler)
    jobs.task(retry=NEVER, name=f"{handler.__name__}_in_the_worker")(handler)


async def _step() -> None:
    raise AssertionError("nothing runs it")


def gives_a_coroutine() -> object:
    return _step()


async def gives_another_coroutine() -> object:
    return _step()


def gives_a_generator() -> object:
    return (n for n in range(3))


def gives_an_async_generator() -> object:
    async def rows() -> AsyncIterator[int]:
        yield 1

    return rows()


def gives_a_future() -> object:
    return concurrent.futures.Future[None]()


UNFINISHED = {
    gives_a_coroutine: "the handler returned a coroutine, which nothing awaits: make it an 'async def' that awaits it",
    gives_another_coroutine: "the handler returned a coroutine, which nothing awaits",
    gives_a_generator: "the handler returned a generator, whose body nothing runs: return list(…) of it, or run it",
    gives_an_async_generator: "the handler returned an async generator, whose body nothing runs",
    gives_a_future: "the handler returned an object of the type 'Future', which nothing awaits",
}
for handler in UNFINISHED:
    jobs.task(process=True, retry=Retry(max_retries=0), name=f"{handler.__name__}_in_a_child")(handler)
    jobs.task(retry=Retry(max_retries=0), name=f"{handler.__name__}_in_the_worker")(handler)


@jobs.task(process=True, retry=ONCE)
def leave(code: int) -> None:
    os._exit(code)


@jobs.task(process=True, retry=ONCE)
def segfault() -> None:
    ctypes.string_at(0)


@jobs.task(process=True, soft_timeout=0.1, timeout="1m")
async def patient(ctx: JobContext) -> str:
    try:
        await asyncio.sleep(60)
    except SoftTimeLimitExceeded:
        return ctx.stopping
    return "never told"


@jobs.task(process=True)
def take_turns(folder: str) -> None:
    Path(folder, str(os.getpid())).touch()
    while not Path(folder, "go").exists():
        time.sleep(0.01)


@jobs.task(process=True, retry=Retry(max_retries=0), timeout=0.5)
def hang(path: str) -> None:
    with open(path, "w") as file:  # noqa: PTH123
        file.write(str(os.getpid()))
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    while True:
        time.sleep(1)


@jobs.task(process=True, timeout=0)
def wait(path: str) -> None:
    hang.definition.function(path)


@jobs.task(process=True)
def inside() -> list[str]:
    """What a handler finds of the pipes between its process and the worker."""
    read = sys.stdin.read()
    inherited = subprocess.run(["ls", "/proc/self/fd"], stdout=subprocess.PIPE, text=True, close_fds=False, check=True)
    return [read, str(len(inherited.stdout.split())), threading.current_thread().name]


def read_block(until: str) -> None:
    while not Path(until).exists():
        time.sleep(0.02)


@jobs.task(process=True)
def reads_a_block(until: str) -> None:
    read_block(until)


@jobs.task(process=True)
async def waits_for_a_block(until: str) -> None:
    await asyncio.to_thread(read_block, until)
