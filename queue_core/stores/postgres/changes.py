"""What operators change: each statement names the state it expects and appends to the totals itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal

from queue_core.errors import QueueNotFound
from queue_core.inspection import Changed
from queue_core.operations import Way
from queue_core.rules import Rules
from queue_core.stores.postgres.changing import Members, cancel, delete, members_of, purge, restore, retry
from queue_core.stores.postgres.plan import Plan
from queue_core.stores.postgres.pool import Pool
from queue_core.stores.postgres.records import known_ids
from queue_core.text import storable

MOST = 1000
"""Jobs that are changed in one transaction: what it locks, and answers, stays small however long the list is."""


class Changes:
    """See queue_core.inspection.Inspector for what each method does."""

    def __init__(self, pool: Pool, rules: Rules) -> None:
        self._pool = pool
        self._rules = rules

    async def retry(self, ids: Sequence[str], spread: float = 0.0) -> Changed:
        """Move dead (trash included) and completed jobs to queued with retry count 0; the crash count stays.

        With `spread`, to scheduled, each due at a random moment within so many seconds.
        """
        return await self._carry_out(ids, lambda jobs: retry(jobs, Way(spread=spread), self._rules))

    async def delete(self, ids: Sequence[str]) -> Changed:
        """Move dead jobs to the trash, where they let go of their ordering keys."""
        return await self._carry_out(ids, lambda jobs: delete(jobs, self._rules))

    async def restore(self, ids: Sequence[str]) -> Changed:
        """Move jobs from the trash back into the DLQ."""
        return await self._carry_out(ids, restore)

    async def purge(self, ids: Sequence[str]) -> Changed:
        """Remove jobs in the trash for good; the totals go on counting them."""
        return await self._carry_out(ids, purge)

    async def cancel(self, ids: Sequence[str]) -> Changed:
        """Move waiting jobs to cancelled; ask the workers of running ones to stop them."""
        return await self._carry_out(ids, lambda jobs: cancel(jobs, self._rules))

    async def pause(self, queue: str) -> bool:
        """Let no worker claim from this queue; False when it was paused already.

        Raises:
            QueueNotFound: no queue has this name.
        """
        return await self._switch("change/pause", queue)

    async def resume(self, queue: str) -> bool:
        """Let workers claim from this queue again; False when it was not paused.

        Raises:
            QueueNotFound: no queue has this name.
        """
        return await self._switch("change/resume", queue)

    async def command(self, worker: str, command: Literal["quiet", "resume", "stop"]) -> bool:
        """Give a worker an order that its next heartbeat brings; False when there is no such worker."""
        params = {"worker": storable(worker), "command": command}
        return bool(await self._pool.change("change/command", params=params))

    async def _carry_out(self, ids: Sequence[str], begin: Callable[[Members], Plan[Changed]]) -> Changed:
        jobs = members_of(known_ids(ids))
        changed = Changed(())
        for start in range(0, len(jobs), MOST):
            part = jobs[start : start + MOST]
            done = await self._pool.carry_out(partial(begin, part))
            changed = Changed(changed.ids + done.ids, changed.ready + done.ready)
        return changed

    async def _switch(self, step: str, queue: str) -> bool:
        ((exists, changed),) = await self._pool.change(step, params={"queue": storable(queue)})
        if not exists:
            raise QueueNotFound(queue)
        return bool(changed)
