"""Operations in PostgreSQL: what a step changes and what it counts are written in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from queue_core.errors import OperationNotFound
from queue_core.operations import (
    ABANDONED,
    NEVER_STARTED,
    MemberJob,
    NewOperation,
    Operation,
    OperationState,
    Outcomes,
    Step,
)
from queue_core.rules import Rules
from queue_core.settings import PostgresSettings
from queue_core.stores.postgres import stepping
from queue_core.stores.postgres.plan import Plan
from queue_core.stores.postgres.pool import Pool
from queue_core.stores.postgres.records import id_or_none
from queue_core.stores.postgres.routes import NoSuchQueue
from queue_core.stores.postgres.sql import plain_array, text_array
from queue_core.text import storable

T = TypeVar("T")
HIGHEST = 2**31 - 1
"""The highest number and place."""


class PostgresOperations:
    """See queue_core.operations.OperationStore for what each method does; connects when it is first used."""

    def __init__(self, settings: PostgresSettings, rules: Rules | None = None) -> None:
        self._pool = Pool(settings)
        self._rules = rules or {}

    async def close(self) -> None:
        """Disconnect; doing it twice is safe."""
        await self._pool.close()

    async def create(self, asked: NewOperation) -> Operation:
        """Write a new operation, preparing and without members."""
        return await self.get(await self._pool.carry_out(lambda: stepping.create(asked)))

    async def add(self, number: int, ids: Sequence[str]) -> Operation:
        """Append members to a preparing operation, as their jobs are now."""
        known = {text: id_or_none(text) for text in dict.fromkeys(map(storable, ids))}
        # The same job may be named in several ways.
        members = dict.fromkeys((found or text, found) for text, found in known.items())
        texts, found = [text for text, _ in members], [job_id for _, job_id in members]
        return await self._carry_out(number, lambda: stepping.add(number, texts, found))

    async def step(self, number: int, most: int) -> Step:
        """Change the next members that are as they were frozen, and count all of them."""
        while True:
            try:
                return await self._carry_out(number, lambda: stepping.step(number, most, self._rules))
            except NoSuchQueue as missing:
                # In a transaction of its own: who makes a queue holds up all others that name it.
                await self._pool.rows("insert/queues", {"names": text_array([missing.queue])})

    async def err(self, number: int, note: str) -> Operation:
        """Count the next member as errored."""
        return await self._carry_out(number, lambda: stepping.err(number, storable(note)))

    async def move(self, number: int, state: OperationState, note: str = "") -> bool:
        """Move an operation to another state."""
        return await self._carry_out(number, lambda: stepping.turn(number, state, storable(note)))

    async def release(self, number: int) -> bool:
        """Let a running operation go on behind its canary."""
        return await self._carry_out(number, lambda: stepping.release(number))

    async def abandon(self) -> None:
        """Cancel operations that are still preparing long after their last change."""
        await self._pool.rows("upkeep/abandon_operations", {"seconds": ABANDONED, "note": NEVER_STARTED})

    async def outcomes(self, number: int, last: int) -> Outcomes:
        """Return what became of the last members that were changed."""
        await self.get(number)
        (counts,) = await self._pool.rows("operation/outcomes", {"number": number, "last": max(last, 0)})
        return Outcomes(*counts)

    async def get(self, number: int) -> Operation:
        """Return an operation."""
        return await self._carry_out(number, lambda: stepping.read(number))

    async def find(
        self, limit: int, before: int | None = None, unfinished: bool = False, signature: str | None = None
    ) -> list[Operation]:
        """Return operations, the newest first."""
        params = {
            "limit": max(limit, 0),
            "before": None if before is None else max(0, min(before, HIGHEST)),
            "unfinished": unfinished,
            "signature": None if signature is None else storable(signature),
        }
        return await self._read("operation/find", params)

    async def of_job(self, job_id: str, limit: int) -> list[Operation]:
        """Return the operations that have changed a job, the newest first."""
        text = storable(job_id)
        return await self._read("operation/of_job", {"job": id_or_none(text) or text, "limit": max(limit, 0)})

    async def changed(self, number: int, after: int, limit: int) -> list[MemberJob]:
        """Return members that were changed, in their order, behind a place."""
        await self.get(number)
        params = {"number": number, "after": max(0, min(after, HIGHEST)), "limit": max(limit, 0)}
        return [MemberJob(*row) for row in await self._pool.rows("operation/changed", params)]

    async def _read(self, query: str, params: Mapping[str, object]) -> list[Operation]:
        numbers = [row[0] for row in await self._pool.rows(query, params)]
        rows = await self._pool.rows("operation/read", {"numbers": plain_array(numbers)}) if numbers else []
        return [stepping.operation_of(row) for row in rows]

    async def _carry_out(self, number: int, begin: Callable[[], Plan[T]]) -> T:
        if not 0 < number <= HIGHEST:
            raise OperationNotFound(number)
        return await self._pool.carry_out(begin)
