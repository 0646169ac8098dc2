"""Child processes that run jobs one after the other, so that what a job does to its process costs that job only.

A job goes in as one JSON line on the child's standard input; that it has begun, its progress, its log and its outcome
come back as JSON lines through a pipe of their own, since a handler may print.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import Process
from collections.abc import Callable
from typing import Self

from queue_core.job import Failure, Outcome, Ready, Settled
from queue_core.worker.attempt import Attempt

LONGEST = 64 << 20
"""Bytes of one line: well above what limits a result and a traceback."""


class ChildLost(Exception):
    """The child ended without an outcome; `begun` tells whether it had the job by then."""

    def __init__(self, code: int, begun: bool) -> None:
        how = f"was killed by {_signal_name(-code)}" if code < 0 else f"ended with exit code {code}"
        super().__init__(how)
        self.code = code
        self.how = how
        self.begun = begun


class Child:
    """One child process that imported the worker's queue object."""

    def __init__(self, process: Process, reader: asyncio.StreamReader, transport: asyncio.BaseTransport) -> None:
        self._process = process
        self._reader = reader
        self._transport = transport

    @classmethod
    async def start(cls, target: str, worker: str) -> Self:
        """Start a child; `target` is `package.module:name` of the queue object.

        Raises:
            OSError: the system has no room for another process.
        """
        reading, writing = os.pipe()
        try:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "queue_core.worker.isolated", target, worker, str(writing), str(os.getpid())),
                stdin=asyncio.subprocess.PIPE,
                pass_fds=(writing,),
                # What a terminal sends to its programs is for the worker, which drains.
                start_new_session=True,
            )
        except BaseException:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        reader = asyncio.StreamReader(limit=LONGEST)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(reading, "rb")
        )
        return cls(process, reader, transport)

    @property
    def alive(self) -> bool:
        """Whether the child has not ended, as far as is known."""
        return self._process.returncode is None

    async def run(self, attempt: Attempt, begin: Callable[[], None] = lambda: None) -> Outcome:
        """Run the attempt's handler in the child and return the outcome to store; `begin` is called when it begins.

        Raises:
            ChildLost: the child ended without one.
        """
        assert self._process.stdin is not None
        begun = False
        try:
            self._process.stdin.write(json.dumps(attempt.claim).encode() + b"\n")
            await self._process.stdin.drain()
            while line := await self._reader.readline():
                if not begun:
                    begun = True
                    begin()
                said = json.loads(line)
                if "outcome" in said:
                    attempt.settled = None if said["settled"] is None else _settled(said["settled"])
                    attempt.perhaps = None if said["perhaps"] is None else _outcome(said["perhaps"])
                    return _outcome(said["outcome"])
                if "progress" in said:
                    attempt.report(said["progress"], said["message"])
                if "log" in said:
                    attempt.relay(said["log"])
        except ConnectionError:  # it ended before it took the job
            pass
        raise ChildLost(await self._process.wait(), begun)

    async def kill(self) -> None:
        """End the child at once, whatever it does; a second time is safe."""
        self._transport.close()
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _settled(fields: list[object]) -> Settled:
    settled = Settled(*fields)  # type: ignore[arg-type]
    return settled._replace(opened=tuple(Ready(*one) for one in settled.opened))


def _outcome(fields: list[object]) -> Outcome:
    outcome = Outcome(*fields)  # type: ignore[arg-type]
    if outcome.failure is not None:
        outcome = outcome._replace(failure=Failure(*outcome.failure))
    return outcome
