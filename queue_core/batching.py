"""Natural batching: while one flush is in flight the next one fills, so a lone item waits for nobody."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

LARGEST = 8 << 20
"""Characters of payloads, results or tracebacks that one statement carries, save for a single item that has more: some
50 ms of this process and 0.3 s of PostgreSQL. 300 results of 1 MB in one were never stored within a time limit."""

T = TypeVar("T")
R = TypeVar("R")


class Batcher(Generic[T, R]):
    """Gathers groups of items from many callers into one call; each caller gets the answers to its own items.

    A group is never torn apart. The call that fails, fails for the callers whose items were in it.
    """

    def __init__(self, flush: Callable[[list[T]], Awaitable[Sequence[R]]], limit: int) -> None:
        self._flush = flush
        self._limit = limit
        self._waiting: deque[tuple[Sequence[T], asyncio.Future[Sequence[R]]]] = deque()
        self._task: asyncio.Task[None] | None = None

    async def put(self, items: Sequence[T]) -> Sequence[R]:
        """Hand in a group and wait for its answers, in order. Cancelling the wait does not take the items back."""
        future: asyncio.Future[Sequence[R]] = asyncio.get_running_loop().create_future()
        self._waiting.append((items, future))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())
        return await future

    async def _run(self) -> None:
        while self._waiting:
            groups = self._next()
            try:
                answers = await self._flush([item for items, _ in groups for item in items])
            except BaseException as error:  # every caller gets it, cancellation of the flush included
                for _, future in groups:
                    if not future.done():
                        future.set_exception(_for_a_future(error))
                if not isinstance(error, Exception):
                    raise
                continue
            start = 0
            for items, future in groups:
                if not future.done():
                    future.set_result(answers[start : start + len(items)])
                start += len(items)

    def _next(self) -> list[tuple[Sequence[T], asyncio.Future[Sequence[R]]]]:
        groups, size = [self._waiting.popleft()], 0
        size = len(groups[0][0])
        while self._waiting and size + len(self._waiting[0][0]) <= self._limit:
            groups.append(self._waiting.popleft())
            size += len(groups[-1][0])
        return groups

    async def drain(self) -> None:
        """Wait until everything handed in so far is flushed."""
        while self._task is not None and not self._task.done():
            await asyncio.wait([self._task])


def _for_a_future(error: BaseException) -> BaseException:
    return error if isinstance(error, Exception) else asyncio.CancelledError()
