"""Lets subscribers know that events were left out, where no later message of their queue does."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Sequence

from queue_core.errors import QueueCoreError
from queue_core.ports.delivery import DispatchUnavailable
from queue_core.runtime import end_tasks

GAP_DELAY = 1.0
"""Seconds after which a gap is sent that no message has shown, and until it is tried again where it cannot be."""
CLOSE_SECONDS = 2.0
"""Seconds that closing waits for the last of them."""
MAX_QUEUES = 10_000
"""Queues of which gaps are kept."""


class GapNotices:
    """Queues whose events were left out, and the loop that sends their gaps.

    A gap shows by a number that is missing, so only in the next message, and only to those who have heard an earlier
    one. The last events of a burst are followed by none.
    """

    def __init__(self, send: Callable[[Sequence[str]], Awaitable[None]]) -> None:
        """`send` sends an empty message of each of some queues, behind a missing number, and calls `shown`."""
        self._send = send
        self._queues: dict[str, None] = {}
        self._task: asyncio.Task[None] | None = None

    def note(self, queues: Iterable[str]) -> None:
        """Have the gaps of these queues sent, unless a message shows them first."""
        if len(self._queues) < MAX_QUEUES:
            self._queues.update(dict.fromkeys(queues))
        if self._queues and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._run())

    def shown(self, queue: str) -> bool:
        """Note that a message of this queue goes out, and return whether there is a gap before it."""
        noted = queue in self._queues
        self._queues.pop(queue, None)
        return noted

    async def _run(self) -> None:
        while self._queues:
            await asyncio.sleep(GAP_DELAY)
            await self._try()

    async def _try(self) -> None:
        if self._queues:
            with contextlib.suppress(QueueCoreError, DispatchUnavailable):
                await self._send(list(self._queues))

    async def close(self) -> None:
        """Try once more; idempotent."""
        await self._stop()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._try()
        # What could not be sent was noted again.
        await self._stop()
        self._queues.clear()

    async def _stop(self) -> None:
        task, self._task = self._task, None
        await end_tasks(task)
