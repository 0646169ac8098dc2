"""Starting children of a worker, after a pause that grows while they cannot start."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from queue_core.model import outcome
from queue_core.model.job import Failure, Outcome
from queue_core.model.signature import sign
from queue_core.worker.attempt import RunningAttempt
from queue_core.worker.children.process import ChildLost, ChildProcess

FIRST_PAUSE, MAX_PAUSE = 0.5, 30.0
"""Seconds until the next child is started behind one that could not start, doubling: a program that is being replaced
cannot be imported for a while, and its jobs must not go to the dead-letter queue for that."""
EXCEPTION = "ProcessDied"


class ChildStarter:
    """Starts the children of one worker, in the folder in which it was made: a handler may leave it."""

    def __init__(self, target: str, worker: str, max_losses: int) -> None:
        self._target = target
        self._worker = worker
        # losses that bury a job
        self._max_losses = max_losses
        self._folder = _here()
        # whether nothing begins any more
        self._stopped = False
        self._pause = 0.0
        # by the steady clock
        self._next_at = 0.0
        self._waiting: set[RunningAttempt] = set()

    async def start(self, attempt: RunningAttempt) -> ChildProcess:
        """Start a child for an attempt, once the pause behind the last one that could not start is over.

        Raises:
            ChildLost: the system cannot start a process now.
            CancelledError: the attempt was stopped.
        """
        await self._wait(attempt)
        try:
            return await ChildProcess.start(self._target, self._worker, self._folder)
        except OSError as error:
            self.note_failure()
            raise ChildLost(f"could not be started: {error}") from error

    async def _wait(self, attempt: RunningAttempt) -> None:
        self._waiting.add(attempt)
        try:
            while (left := self._next_at - time.monotonic()) > 0.0:
                if self._stopped:
                    attempt.stop("release")
                await asyncio.sleep(left)
        finally:
            self._waiting.discard(attempt)

    def note_failure(self) -> None:
        """Let the next start wait: a child had no job when it ended. Several that end at once count as one."""
        now = time.monotonic()
        if now >= self._next_at:
            self._pause = min(MAX_PAUSE, self._pause * 2 or FIRST_PAUSE)
            self._next_at = now + self._pause

    def note_start(self) -> None:
        """Let the next start wait no longer: a child has taken its job."""
        self._pause = self._next_at = 0.0

    def stop_starting(self) -> None:
        """Begin nothing more: give back the jobs that wait for a start."""
        self._stopped = True
        for attempt in list(self._waiting):
            attempt.stop("release")

    def lost(self, attempt: RunningAttempt, child: ChildLost, what: str) -> Outcome:
        """Return the outcome of an attempt whose child, `what`, is no evidence about its job: a loss like any other."""
        why = "which says nothing about the job" if child.started else "before it had the job"
        message = f"{what} {child.how}, {why}"
        failure = Failure("lost", EXCEPTION, message, "", *sign(EXCEPTION, message))
        return outcome.lost(attempt.claim, attempt.run_us(), failure, self._max_losses)


def _here() -> str | None:
    try:
        return str(Path.cwd())
    except FileNotFoundError:  # it was removed
        return None
