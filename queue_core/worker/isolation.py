"""Runs a job alone in a process of its own, so that what it does to its process is proven to be its own doing.

For jobs whose workers were lost twice. The job goes in as JSON on the child's standard input; progress and the outcome
come back as JSON lines through a pipe of their own, since a handler may print.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from dataclasses import dataclass

from queue_core.job import Failure, Outcome
from queue_core.signature import sign
from queue_core.worker import outcomes
from queue_core.worker.attempt import Attempt

EXCEPTION = "ProcessDied"


@dataclass(frozen=True, slots=True)
class Isolation:
    """Starts children that import the same queue object."""

    # package.module:name of the queue object
    target: str
    worker: str

    async def execute(self, attempt: Attempt) -> Outcome:
        """Run the attempt's handler in a child and return the outcome to store; a dead child buries the job as poison.

        Raises:
            CancelledError: the attempt was stopped; the child is killed.
        """
        reading, writing = os.pipe()
        try:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "queue_core.worker.isolated", self.target, self.worker, str(writing)),
                stdin=asyncio.subprocess.PIPE,
                pass_fds=(writing,),
            )
        finally:
            os.close(writing)
        try:
            return await self._converse(process, attempt, reading)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()

    async def _converse(self, process: asyncio.subprocess.Process, attempt: Attempt, reading: int) -> Outcome:
        reader = asyncio.StreamReader(limit=64 << 20)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(reading, "rb")
        )
        try:
            assert process.stdin is not None
            process.stdin.write(json.dumps(attempt.claim).encode())
            process.stdin.close()
            while line := await reader.readline():
                said = json.loads(line)
                if "outcome" in said:
                    return _outcome(said["outcome"])
                attempt.report(said["progress"], said["message"])
        finally:
            transport.close()
        return self._buried(attempt, await process.wait())

    def _buried(self, attempt: Attempt, code: int) -> Outcome:
        how = f"was killed by {_signal_name(-code)}" if code < 0 else f"ended with exit code {code}"
        message = (
            f"the process that ran this job alone {how}; before that, {attempt.claim.crashes} workers died with it"
        )
        signature, title = sign(EXCEPTION, f"the process that ran this job alone {how}")
        failure = Failure("poison", EXCEPTION, message, "", signature, title)
        return outcomes.buried(attempt.claim, attempt.run_us(), failure)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _outcome(fields: list[object]) -> Outcome:
    outcome = Outcome(*fields)  # type: ignore[arg-type]
    if outcome.failure is not None:
        outcome = outcome._replace(failure=Failure(*outcome.failure))
    return outcome
