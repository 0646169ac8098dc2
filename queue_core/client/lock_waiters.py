"""Calls that wait for a lock, apart from all others: a key or a queue's limit that another transaction has taken.

An application that enqueues in a transaction of its own may keep it open for long. Who wants the same key waits for it,
and nothing else of this process does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from queue_core.errors import QueueClosed, QueueFull
from queue_core.model.job import Inserted, NewJob
from queue_core.model.rules import Rules, rules_of
from queue_core.ports.locks import LockHeld

BATCH_LOCK_SECONDS = 0.25
"""Seconds that a batch of many callers waits for a lock: most are held for milliseconds."""
MAX_TRY_SECONDS, MIN_TRY_SECONDS = 1.5, 0.05
"""Seconds that one try of a call that waits may take, where few wait and where many do: they try in turns."""

Refusal = (QueueFull, QueueClosed)
Answer = Sequence[Inserted] | QueueFull | QueueClosed
Lock = tuple[str, str, str]
"""A queue, and a key with its kind; both empty: the queue's limit, or the order of its arrivals."""


def needs_locks(jobs: Sequence[NewJob], rules: Rules) -> bool:
    """Return whether jobs need locks. The jobs of one call are alike in that, but for their queues."""
    if jobs[0].unique_key is not None or jobs[0].ordering_key is not None:
        return True
    return bool(rules) and any(rules_of(rules, queue).locks_enqueues for queue in {job.queue for job in jobs})


def locks_of(jobs: Sequence[NewJob], rules: Rules) -> set[Lock]:
    """Return what jobs need locked."""
    locks: set[Lock] = {(job.queue, "", "") for job in jobs if rules_of(rules, job.queue).locks_enqueues}
    locks.update((job.queue, "unique", job.unique_key) for job in jobs if job.unique_key is not None)
    locks.update((job.queue, "ordering", job.ordering_key) for job in jobs if job.ordering_key is not None)
    return locks


class _Call(NamedTuple):
    jobs: Sequence[NewJob]
    locks: set[Lock]
    # by the loop's clock
    ends: float
    answer: asyncio.Future[Answer]


class LockWaiters:
    """The calls of this process that wait for locks. They try one after another, until their time is over."""

    def __init__(
        self,
        write: Callable[[Sequence[NewJob], float], Awaitable[Sequence[Inserted]]],
        rules: Rules,
        seconds: float,
    ) -> None:
        """`write` is given seconds to wait for a lock; a call has so many `seconds` in all."""
        self._write = write
        self._rules = rules
        self._seconds = seconds
        self._waiting: list[_Call] = []
        self._task: asyncio.Task[None] | None = None

    def must_wait(self, jobs: Sequence[NewJob]) -> bool:
        """Return whether jobs need a lock that a waiting call needs."""
        if not self._waiting:
            return False
        locks = locks_of(jobs, self._rules)
        return any(not call.locks.isdisjoint(locks) for call in self._waiting)

    def put(self, jobs: Sequence[NewJob]) -> asyncio.Future[Answer]:
        """Let a call wait; the future has what comes of it."""
        loop = asyncio.get_running_loop()
        if self._task is None or self._task.done():
            self._task = loop.create_task(self._run())
            self._task.add_done_callback(self._let_go)
        call = _Call(jobs, locks_of(jobs, self._rules), loop.time() + self._seconds, loop.create_future())
        self._waiting.append(call)
        return call.answer

    async def _run(self) -> None:
        while self._waiting:
            for call in tuple(self._waiting):
                if await self._try(call):
                    self._waiting.remove(call)

    def _let_go(self, task: asyncio.Task[None]) -> None:
        # A handler can cancel any task: then no caller waits for ever, not even where this one had not begun.
        if task is self._task:
            for call in self._waiting:
                call.answer.cancel()
            self._waiting.clear()

    async def _try(self, call: _Call) -> bool:
        """Try a call once; return whether it waits no more."""
        loop, answer = asyncio.get_running_loop(), call.answer
        # Of the store's own time limit a part is left: so the error has what was waited for.
        longest = min(MAX_TRY_SECONDS, self._seconds / 2, call.ends - loop.time())
        patience = max(MIN_TRY_SECONDS, longest / len(self._waiting))
        written: Answer
        try:
            written = await self._write(call.jobs, patience)
        except LockHeld as error:
            if loop.time() < call.ends:
                return False
            _fail(answer, error)
        except Refusal as refusal:
            written = refusal
        except Exception as error:  # noqa: BLE001 - its caller gets it
            _fail(answer, error)
        if not answer.done():
            answer.set_result(written)
        return True

    async def drain(self) -> None:
        """Wait until no call waits."""
        while self._task is not None and not self._task.done():
            await asyncio.wait([self._task])


def _fail(answer: asyncio.Future[Answer], error: Exception) -> None:
    if not answer.done():
        answer.set_exception(error)
        answer.exception()  # a caller that has gone does not miss it
