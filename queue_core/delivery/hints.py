"""Delivery by hints: a queue may have ready jobs; which they are, the store is asked."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from queue_core.dispatch import Taken


class _Waiter(NamedTuple):
    queues: Sequence[str]
    answer: asyncio.Future[Taken]


class Hints:
    """Queues that somebody should look into, and the workers of this process that wait for one.

    A queue that nobody has asked for yet counts as hinted: its backlog may be older than this process.
    """

    def __init__(self) -> None:
        self._hinted: set[str] = set()
        self._known: set[str] = set()
        self._waiting: deque[_Waiter] = deque()

    def hint(self, queues: Iterable[str]) -> None:
        """Say that these queues may have ready jobs; one waiter a queue is woken, the longest waiting first."""
        self._hinted.update(queues)
        for waiter in list(self._waiting):
            if not waiter.answer.done() and (queue := self.pick(waiter.queues)) is not None:
                waiter.answer.set_result(Taken(queue, None))

    def hint_all(self) -> None:
        """Say that any queue may have ready jobs, after hints may have been lost."""
        self.hint(list(self._known))

    def pick(self, queues: Sequence[str]) -> str | None:
        """Return the first of these queues that may have ready jobs, now; it does not count as hinted any more."""
        queue = next((one for one in queues if one in self._hinted or one not in self._known), None)
        if queue is not None:
            self._hinted.discard(queue)
            self._known.add(queue)
        return queue

    async def take(self, queues: Sequence[str], timeout: float) -> Taken | None:
        """Wait until one of these queues may have ready jobs; None after `timeout` seconds."""
        if (queue := self.pick(queues)) is not None:
            return Taken(queue, None)
        waiter = _Waiter(queues, asyncio.get_running_loop().create_future())
        self._waiting.append(waiter)
        try:
            async with asyncio.timeout(timeout):
                return await waiter.answer
        except TimeoutError:
            return None
        except asyncio.CancelledError:
            if waiter.answer.done() and not waiter.answer.cancelled():
                self.hint([waiter.answer.result().queue])
            raise
        finally:
            self._waiting.remove(waiter)
