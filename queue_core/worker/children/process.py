"""A process that runs jobs one after the other for its worker, as the worker sees it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import time
from asyncio.subprocess import Process, SubprocessStreamProtocol
from collections.abc import Callable
from functools import partial
from typing import Any, BinaryIO, Self

from queue_core.client.logs import logging_form
from queue_core.model.job import Failure, Outcome, Ready, Settled
from queue_core.worker.attempt import RunningAttempt

# A job goes in as one JSON line on the child's standard input; that it has started, its progress, log and outcome
# come back as JSON lines through a pipe of their own, since a handler may print.

ASK_STACK = b"null\n"
"""What a child reads in place of a job when it is asked where its handler is."""
MAX_LINE_BYTES = 64 << 20
"""Bytes of one line: well above what limits a result and a traceback."""
LAST_OUTPUT_SECONDS = 0.1
"""Seconds from the end of a child until all that it had written is read."""


LEAVE_SECONDS = 5.0
"""What a child may take to leave its lifespans."""


class ChildLost(Exception):
    """The child ended without an outcome, or never was one; `started`: whether it had the job by then."""

    def __init__(self, how: str, code: int = 0, started: bool = False) -> None:
        super().__init__(how)
        self.how = how
        self.code = code
        self.started = started


class _Watching(SubprocessStreamProtocol):
    """Knows when the process has ended: the library waits, too, for all that have inherited its standard input."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(MAX_LINE_BYTES, loop)
        self.ended = asyncio.Event()

    def process_exited(self) -> None:
        super().process_exited()
        self.ended.set()


class ChildProcess:
    """One child process that imported the worker's queue object."""

    def __init__(self, process: Process, ended: asyncio.Event) -> None:
        self._process = process
        self._ended = ended
        self._reader = asyncio.StreamReader(limit=MAX_LINE_BYTES)
        # who waits for the stack of the job that it runs
        self._requested: asyncio.Future[dict[str, Any]] | None = None

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @classmethod
    async def start(cls, target: str, worker: str, folder: str | None) -> Self:
        """Start a child in a folder, None: in this one's; `target` is `package.module:name` of the queue object.

        Raises:
            OSError: the system has no room for another process.
        """
        loop = asyncio.get_running_loop()
        reading, writing = os.pipe()
        try:
            transport, watching = await loop.subprocess_exec(
                partial(_Watching, loop),
                *(
                    sys.executable,
                    "-m",
                    "queue_core.worker.children.child",
                    target,
                    worker,
                    str(writing),
                    str(os.getpid()),
                ),
                *(logging_form() or ()),
                stdin=asyncio.subprocess.PIPE,
                stdout=None,
                stderr=None,
                cwd=folder,
                pass_fds=(writing,),
                # What a terminal sends to its programs is for the worker, which drains.
                start_new_session=True,
            )
        except BaseException:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        child = cls(Process(transport, watching, loop), watching.ended)
        try:
            await child._listen(os.fdopen(reading, "rb"))
        except BaseException:  # above all a stop of its job: no other code knows of the child yet
            child._kill_group()
            transport.close()
            raise
        return child

    async def _listen(self, pipe: BinaryIO) -> None:
        loop = asyncio.get_running_loop()
        self._transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(self._reader), pipe)
        self._listening = loop.create_task(self._hear_end())

    async def _hear_end(self) -> None:
        """End the answers with the process, and its group: what that has forked would hold their pipe open."""
        await self._ended.wait()
        self._kill_group()
        await asyncio.sleep(LAST_OUTPUT_SECONDS)
        self._transport.close()

    def _kill_group(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)

    @property
    def alive(self) -> bool:
        """Whether the child has not ended, as far as is known."""
        return self._process.returncode is None

    async def run(self, attempt: RunningAttempt, begin: Callable[[], None] = lambda: None) -> Outcome:
        """Run the attempt's handler in the child and return the outcome to store; `begin` is called when it begins.

        Raises:
            ChildLost: the child ended without one.
            CancelledError: the lease ran out while the attempt waited for its child.
        """
        assert self._process.stdin is not None
        attempt.check_start(time.monotonic())
        started, unable = False, ""
        attempt.child = self
        try:
            self._process.stdin.write(json.dumps(attempt.claim).encode() + b"\n")
            await self._process.stdin.drain()
            while line := await self._reader.readline():
                message = json.loads(line)
                if "unable" in message:
                    unable = message["unable"]
                    continue
                if not started:
                    started = True
                    begin()
                if "outcome" in message:
                    attempt.settled = None if message["settled"] is None else _settled(message["settled"])
                    attempt.perhaps = None if message["perhaps"] is None else _outcome(message["perhaps"])
                    return _outcome(message["outcome"])
                if "progress" in message:
                    attempt.report(message["progress"], message["message"])
                if "log" in message:
                    attempt.relay(message["log"])
                if "stack" in message and self._requested is not None and not self._requested.done():
                    self._requested.set_result(message["stack"])
        except ConnectionError:  # it ended before it took the job
            pass
        finally:
            attempt.child = None
        code = await self._code()
        raise ChildLost(f"could not start: {unable}" if unable else _end_of(code), code, started)

    async def _code(self) -> int:
        await self._ended.wait()
        return self._process.returncode or 0

    async def stack(self) -> dict[str, Any]:
        """Return where the handler in the child is; several that ask at a time get one answer.

        Raises:
            OSError: the child has ended.
        """
        assert self._process.stdin is not None
        if self._requested is None or self._requested.done():
            self._requested = asyncio.get_running_loop().create_future()
            self._process.stdin.write(ASK_STACK)
        return await asyncio.shield(self._requested)

    async def close(self, leaves: bool) -> None:
        """End the child; one that `leaves` lifespans gets some seconds for them."""
        if leaves and self.alive and self._process.stdin is not None:
            self._process.stdin.close()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ended.wait(), LEAVE_SECONDS)
        await self.kill()

    async def kill(self) -> None:
        """End the child and its process group at once, whatever they do; a second time is safe."""
        self._transport.close()
        if self.alive:
            self._kill_group()
        await self._ended.wait()


def _end_of(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"


def _settled(fields: list[object]) -> Settled:
    settled = Settled(*fields)  # type: ignore[arg-type]
    return settled._replace(unblocked=tuple(Ready(*one) for one in settled.unblocked))


def _outcome(fields: list[object]) -> Outcome:
    outcome = Outcome(*fields)  # type: ignore[arg-type]
    if outcome.failure is not None:
        outcome = outcome._replace(failure=Failure(*outcome.failure))
    return outcome
