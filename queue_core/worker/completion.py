"""The end of an attempt in its handler's own transaction: what it wrote and its outcome are one commit."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from queue_core.errors import TransactionError
from queue_core.job import Outcome
from queue_core.store import JobStore, TransactionalStore
from queue_core.tasks import Definition
from queue_core.worker.attempt import Attempt


class Completion:
    """One attempt's transaction: begun by the handler's first block, committed when the handler has returned."""

    def __init__(self, store: TransactionalStore) -> None:
        self._store = store
        self._beginning = asyncio.Lock()
        self._open: AbstractAsyncContextManager[Any] | None = None
        self._connection: Any = None

    @asynccontextmanager
    async def block(self) -> AsyncIterator[Any]:
        """Give the connection. An exception rolls back what was done in this block, in the first one the whole."""
        async with self._beginning:
            first = self._connection is None
            if first:
                begun = self._store.transaction()
                self._connection = await begun.__aenter__()
                self._open = begun
        if not first:
            async with self._connection.transaction():  # a savepoint: the blocks before this one stay
                yield self._connection
            return
        try:
            yield self._connection
        except BaseException:
            await self.undo()
            raise

    async def undo(self) -> None:
        """Roll back what the handler did, if anything is left of it; the next block begins anew."""
        begun, self._open, self._connection = self._open, None, None
        if begun is not None:
            undone = _Undone()
            await begun.__aexit__(_Undone, undone, None)

    async def end(self, attempt: Attempt, outcome: Outcome, failed: Callable[[Exception], Outcome]) -> Outcome:
        """Commit a completed attempt together with what its handler did, and return how it ended.

        For every other outcome, and when the lease is over, what the handler did is rolled back.
        """
        if outcome.kind != "completed" or self._connection is None:
            await self.undo()
            return outcome
        attempt.ending = True
        try:
            if attempt.journal is not None:
                await attempt.journal.write_first([attempt])
            attempt.settled = await self._store.settle_on(self._connection, outcome)
            if not attempt.settled.accepted:
                await self.undo()
            else:
                begun, self._open = self._open, None
                assert begun is not None
                await begun.__aexit__(None, None, None)
        except Exception as error:  # noqa: BLE001  whatever a deferred constraint or a lost server says
            # Whether the commit was done is not known if its answer got lost. The failure that is stored now tells: the
            # store refuses it after the commit, which can no longer come when the store has accepted it.
            attempt.settled = None
            attempt.perhaps = outcome
            await self.undo()
            return failed(error)
        return outcome


class _Undone(Exception):
    """Ends a transaction without a commit."""


def begin(attempt: Attempt, definition: Definition, store: JobStore) -> AbstractAsyncContextManager[Any]:
    """Return a block of the attempt's transaction, for `JobContext.transaction`.

    Raises:
        TransactionError: this store, or this kind of handler, has none.
    """
    if definition.process or not definition.is_async:
        where = "a child process" if definition.process else "a thread"
        raise TransactionError(
            f"ctx.transaction() is for async handlers in the worker itself; task '{definition.name}' runs in {where}"
        )
    if not isinstance(store, TransactionalStore):
        raise TransactionError(f"ctx.transaction() needs a store in PostgreSQL; this one is {store.name}")
    if attempt.completion is None:
        attempt.completion = Completion(store)
    return attempt.completion.block()
