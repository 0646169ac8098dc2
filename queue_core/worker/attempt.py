"""One held job of a worker: from its claim until its outcome is stored or its lease is lost."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
import time
import traceback
import types
from asyncio import Event
from collections.abc import Callable, Coroutine, Generator, Iterable, Set
from contextlib import AbstractAsyncContextManager
from contextvars import Context
from math import inf
from types import CodeType
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

from queue_core.client.logs import job_log_fields
from queue_core.errors import SoftTimeLimitExceeded
from queue_core.model.job import Claim, Outcome, Settled
from queue_core.model.text import cut
from queue_core.worker.options import EXIT_FAILED

R = TypeVar("R")

logger = logging.getLogger("queue_core.worker")


StopReason = Literal["timeout", "cancel", "lost", "release"]


class LineKeeper(Protocol):
    """What takes the lines of an attempt."""

    def note(self, attempt: RunningAttempt, text: str, line: int = 0) -> bool:
        """Note a line, numbered already or not; True when lines come faster than they are written."""
        ...

    async def write_first(self, attempts: Iterable[RunningAttempt]) -> None:
        """Write the lines of attempts that are about to end."""
        ...


class OwnTransaction(Protocol):
    """In which a handler's attempt ends; see queue_core.worker.execution."""

    # what ended the handler's wait for its connection
    refused: BaseException | None

    def block(self) -> AbstractAsyncContextManager[Any]:
        """Give its connection to the handler."""
        ...

    async def undo(self) -> None:
        """Roll back what the handler did."""
        ...

    async def end(self, attempt: RunningAttempt, outcome: Outcome, failed: Callable[[Exception], Outcome]) -> Outcome:
        """Commit a completed attempt, or roll back, and return how it ended."""
        ...


class AskedChild(Protocol):
    """A child process that runs an attempt."""

    @property
    def pid(self) -> int:
        """Its process id."""
        ...

    async def stack(self) -> dict[str, Any]:
        """Return where its handler is; see `queue_core.worker.stacks`."""
        ...


class RunningAttempt:
    """Mutable on purpose: the runner, the settler and the heartbeat each keep their part here."""

    __slots__ = (
        "abandoned",
        "ahead",
        "child",
        "claim",
        "completion",
        "deadline",
        "ending",
        "handed_back",
        "journal",
        "late",
        "lease",
        "logged",
        "message",
        "perhaps",
        "progress",
        "renewed",
        "settled",
        "since",
        "start_by",
        "started",
        "stop_reason",
        "stopped_at",
        "task",
        "thread",
        "unheard",
        "unreported",
    )

    def __init__(self, claim: Claim, claimed_at: float, journal: LineKeeper | None = None, lease: float = inf) -> None:
        self.claim = claim
        # None until it has begun to run
        self.task: asyncio.Task[Any] | None = None
        # seconds of time.perf_counter
        self.started = 0.0
        # seconds of time.monotonic; infinity = no limit
        self.deadline = inf
        # seconds of time.monotonic before which the lease was surely renewed (at first: claimed)
        self.renewed = claimed_at
        # seconds that the lease lasts from then on; infinity: others keep it
        self.lease = lease
        # seconds of time.monotonic at which its slot went to the best rank; jobs handed over since then keep that
        self.since = claimed_at
        # why the runner cancelled the task
        self.stop_reason: StopReason | None = None
        # when, in seconds of time.monotonic
        self.stopped_at = inf
        # settled although its handler goes on, which swallowed the cancellation: nothing that it does counts any more
        self.abandoned = False
        # the child process that runs it
        self.child: AskedChild | None = None
        # identifier of the thread that runs a plain function
        self.thread: int | None = None
        self.progress: int | None = None
        self.message = ""
        # progress that neither the store nor the subscribers have received
        self.unreported = False
        # over its soft time limit
        self.late = False
        # claimed for a slot that was not free yet, and the store does not know that it has started
        self.ahead = False
        # seconds of time.monotonic up to which it may start; infinity = no limit
        self.start_by = inf
        # given back before it began, while the event loop was blocked: it must not begin any more
        self.handed_back = False
        # where lines go; None: nowhere
        self.journal = journal
        # the number of its last line
        self.logged = 0
        # the store refused a line because the lease is over: it would refuse all others, too
        self.unheard = False
        # the handler's own transaction, once it has asked for one
        self.completion: OwnTransaction | None = None
        # that transaction is being committed: a request to stop the attempt comes too late
        self.ending = False
        # the store's answer to that, which is the end of the attempt
        self.settled: Settled | None = None
        # what has been stored, should the store refuse the outcome: the answer to a commit got lost
        self.perhaps: Outcome | None = None

    @property
    def stopping(self) -> str:
        """Why the attempt shall end; empty while it may go on."""
        return self.stop_reason or ("soft_timeout" if self.late else "")

    def report(self, percent: int, message: str) -> None:
        """Note the newest progress; called by handlers, from any thread."""
        self.progress = percent
        self.message = message
        self.unreported = True

    def log(self, text: str) -> bool:
        """Note a line; called by handlers, from any thread. True when lines come faster than they are written."""
        return self.journal is not None and not self.unheard and self.journal.note(self, text)

    def relay(self, lines: Iterable[tuple[int, str]]) -> None:
        """Note lines that a child process has numbered."""
        if self.journal is not None and not self.unheard:
            for line, text in lines:
                self.journal.note(self, text, line)

    def start_unreported(self) -> bool:
        """Return whether the store does not know yet that a job which waited for its slot has started."""
        return self.ahead and self.started > 0

    def outlived(self, now: float) -> bool:
        """Return whether its lease has run out by this process's own clock, time.monotonic: others may have the job."""
        return self.renewed + self.lease <= now

    def check_start(self, now: float) -> None:
        """Leave a handler unstarted whose attempt was stopped, or has outlived its lease while this process slept.

        Raises:
            CancelledError: it must not begin.
        """
        if self.stop_reason is None and self.outlived(now):
            self.stop_reason = "release"  # which is refused where others have the job
        if self.stop_reason is not None:
            raise asyncio.CancelledError

    def run_us(self) -> int:
        """Return the microseconds since the handler was started."""
        return round((time.perf_counter() - self.started) * 1e6) if self.started else 0

    def stop(self, reason: StopReason) -> None:
        """Cancel the handler; the first reason counts."""
        if self.stop_reason is None and not self.ending:
            self.stop_reason = reason
            self.stopped_at = time.monotonic()
            if self.task is not None:
                self.task.cancel()


class MainTask(asyncio.Task[None]):
    """All that a worker does, in one task that no other code knows: who cancels it cancels all tasks of the event loop.

    `owned`: the loop is there for the worker alone.
    """

    def __init__(self, work: Coroutine[Any, Any, None], context: Context, owned: bool, stopping: Event) -> None:
        super().__init__(work, loop=asyncio.get_running_loop(), context=context)
        self._worker = context.run(job_log_fields).get("worker")
        self._owned = owned
        self._stopping = stopping
        # it ends by a job's doing and by no order: what runs counts a loss
        self.lost = False

    def cancel(self, msg: Any | None = None) -> bool:
        """End all at once."""
        if not self.done() and not self.cancelling() and not self._stopping.is_set():
            fields = job_log_fields()
            culprit = fields.get("job_id") if fields.get("worker") == self._worker else None
            self.lost = culprit is not None or self._owned
            if self.lost:
                who = "something in it" if culprit is None else f"job {culprit} of type '{fields['job_type']}'"
                logger.error("%s ends the worker's event loop; each job that runs counts a loss", who)
        return super().cancel(msg)


async def within_soft_limit(
    attempt: RunningAttempt, seconds: float, raises: bool, handler: Coroutine[Any, Any, R]
) -> R:
    """Run a handler; after so many seconds its context shows it, and, where it `raises`, its current await raises."""
    limit = _SoftLimit(attempt, seconds, raises)
    timer = asyncio.get_running_loop().call_later(seconds, limit.late)
    try:
        return await _driven(handler, limit)
    finally:
        timer.cancel()


class _SoftLimit:
    """Whether the limit has passed and the handler has not been notified yet."""

    def __init__(self, attempt: RunningAttempt, seconds: float, raises: bool) -> None:
        self._attempt = attempt
        self._seconds = seconds
        self._raises = raises
        self._task = asyncio.current_task()
        self._pending = False

    def late(self) -> None:
        """Notify the handler; called by the loop while the handler waits."""
        self._attempt.late = True
        if self._raises and self._attempt.stop_reason is None and self._task is not None:
            self._pending = True
            self._task.cancel()  # the one way to end whatever it waits for

    def instead_of(self, error: BaseException) -> BaseException:
        """Return what the handler gets in place of an exception at its wait."""
        if not (self._pending and isinstance(error, asyncio.CancelledError)) or self._task is None:
            return error
        self._pending = False
        if self._attempt.stop_reason is not None:
            return error  # it was stopped at the same moment, and that counts
        self._task.uncancel()
        return SoftTimeLimitExceeded(self._seconds)


@types.coroutine
def _driven(handler: Coroutine[Any, Any, R], limit: _SoftLimit) -> Generator[Any, Any, R]:
    """Run a coroutine step by step, to raise something else in it than the event loop would."""
    error: BaseException | None = None
    while True:
        try:
            waits_for = handler.send(None) if error is None else handler.throw(error)
        except StopIteration as end:
            result: R = end.value
            return result
        error = None
        try:
            yield waits_for
        except GeneratorExit:
            handler.close()
            raise
        except BaseException as raised:  # noqa: BLE001  the handler's to deal with
            error = limit.instead_of(raised)


CHECK_SECONDS = 0.25
"""Seconds between two questions to the loop: a few microseconds of its time each."""
LAG_SECONDS = 1.0
"""Seconds without an answer after which it is logged who holds the loop up."""

LOOPS = frozenset({"asyncio", "selectors", "uvloop"})
"""What runs where the loop waits, or runs what is not written in Python."""


class Patience(NamedTuple):
    """Seconds without an answer from the event loop."""

    # after which what has not started is given back
    stall: float
    # after which it is given up
    wedged: float


def end_process() -> None:
    """End this process as one that failed, whatever its event loop is doing."""
    logging.shutdown()
    os._exit(EXIT_FAILED)


class Watchdog:
    """A thread that asks the loop to answer; `find` returns the job whose handler a task runs, by its stack."""

    def __init__(
        self,
        find: Callable[[asyncio.Task[object] | None, Set[CodeType]], Claim | None],
        patience: Patience,
        stalled: Callable[[], None],
        give_up: Callable[[], None] | None,
    ) -> None:
        self._find = find
        self._patience = patience
        self._stalled = stalled
        # whether that was called since the loop last answered
        self._stall_reported = False
        self._give_up = give_up
        self._answered = 0.0
        self._stop = threading.Event()

    def start(self) -> None:
        """Start watching the running loop."""
        loop = asyncio.get_running_loop()
        self._answered = time.monotonic()
        watched = threading.get_ident()
        threading.Thread(target=self._run, args=(loop, watched), name="watchdog", daemon=True).start()

    def stop(self) -> None:
        """Stop watching; the thread ends by itself."""
        self._stop.set()

    def _answer(self) -> None:
        self._answered = time.monotonic()

    def _run(self, loop: asyncio.AbstractEventLoop, watched: int) -> None:
        since: float | None = None
        asked_at = time.monotonic()
        while not self._stop.wait(CHECK_SECONDS):
            now = time.monotonic()
            if now - asked_at > LAG_SECONDS:
                # This thread did not run either: the machine or the process was frozen, and no job is to blame.
                self._answered += now - asked_at
            asked_at = now
            try:
                loop.call_soon_threadsafe(self._answer)
            except RuntimeError:  # the loop is closed
                return
            silent = now - self._answered
            if silent <= LAG_SECONDS:
                if since is not None:
                    logger.warning("the event loop answers again after %.1f s", now - since)
                since, self._stall_reported = None, False
                continue
            if since is None:
                since = self._answered
                self._report(loop, watched, silent)
            if silent > self._patience.stall and not self._stall_reported:
                self._stall_reported = True
                self._stalled()
            if self._give_up is not None and silent > self._patience.wedged:
                logger.critical("the event loop has not answered for %.0f s; this process ends", silent)
                self._report(loop, watched, silent)
                self._give_up()
                return

    def _report(self, loop: asyncio.AbstractEventLoop, watched: int, silent: float) -> None:
        frame = sys._current_frames().get(watched)
        stack = list(traceback.walk_stack(frame))
        claim = self._find(asyncio.current_task(loop), {one.f_code for one, _ in stack})
        if claim:
            who = f"job {claim.id} of type '{claim.type}' holds it up"
        elif frame is None or str(frame.f_globals.get("__name__")).partition(".")[0] in LOOPS:
            who = "no job's handler holds it up"
        else:
            who = f"{frame.f_code.co_qualname} holds it up, which is no job's handler"
        where = cut("".join(traceback.format_stack(frame)[-8:]), 8 << 10) if frame else ""
        logger.warning("the event loop has not answered for %.1f s: %s, at\n%s", silent, who, where)
