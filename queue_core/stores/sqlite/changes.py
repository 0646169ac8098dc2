"""What operators change: each change finds the jobs in the states it acts on and writes them in one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from queue_core.errors import QueueNotFound
from queue_core.inspection import Changed
from queue_core.operations import AS_IT_WAS, MemberVerb, Way
from queue_core.rules import Rules
from queue_core.stores.sqlite.changing import change
from queue_core.stores.sqlite.file import SqliteFile
from queue_core.stores.sqlite.link import Transaction
from queue_core.stores.sqlite.records import known_ids
from queue_core.stores.sqlite.sql import texts
from queue_core.text import storable

WHOLE_BACKLOG = 1_000_000
"""Told as arrived when a queue is resumed: others look until nothing is left."""


class Changes:
    """See queue_core.inspection.Inspector for what each method does."""

    _file: SqliteFile
    _rules: Rules

    async def retry(self, ids: Sequence[str], spread: float = 0.0) -> Changed:
        """Move dead (trash included) and completed jobs to queued with retry count 0; the crash count stays.

        With `spread`, to scheduled, each due at a random moment within so many seconds.
        """
        return await self._change("retry", ids, Way(spread=spread))

    async def delete(self, ids: Sequence[str]) -> Changed:
        """Move dead jobs to the trash."""
        return await self._change("delete", ids)

    async def restore(self, ids: Sequence[str]) -> Changed:
        """Move jobs from the trash back into the DLQ."""
        return await self._change("restore", ids)

    async def purge(self, ids: Sequence[str]) -> Changed:
        """Remove jobs in the trash for good; the totals go on counting them."""
        return await self._change("purge", ids)

    async def cancel(self, ids: Sequence[str]) -> Changed:
        """Move waiting jobs to cancelled; ask the workers of running ones to stop them."""
        return await self._change("cancel", ids)

    async def _change(self, verb: MemberVerb, ids: Sequence[str], way: Way = AS_IT_WAS) -> Changed:
        known = known_ids(ids)
        if not known:
            return Changed(())
        return await self._file.write(lambda transaction: change(transaction, self._rules, verb, known, way))

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

    async def _switch(self, step: str, queue: str) -> bool:
        def work(transaction: Transaction) -> bool:
            found = transaction.rows("insert/queues", (texts([storable(queue)]),))
            if not found:
                raise QueueNotFound(queue)
            params = {"number": found[0][1], "now": transaction.now, "backlog": WHOLE_BACKLOG}
            return transaction.run(step, params) > 0

        return await self._file.write(work)

    async def command(self, worker: str, command: Literal["quiet", "resume", "stop"]) -> bool:
        """Give a worker an order that its next heartbeat brings; False when there is no such worker."""
        params = (command, storable(worker))
        return await self._file.write(lambda transaction: transaction.run("change/command", params) > 0)
