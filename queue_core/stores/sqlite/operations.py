"""Operations in the file: a step, what it changes and what it counts are one transaction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from queue_core.operations import MemberJob, NewOperation, Operation, OperationState, Outcomes, Step
from queue_core.rules import Rules
from queue_core.stores.sqlite import stepping
from queue_core.stores.sqlite.file import SqliteFile
from queue_core.stores.sqlite.forgetting import abandon_operations
from queue_core.stores.sqlite.link import Row, Transaction
from queue_core.stores.sqlite.stepping import HIGHEST
from queue_core.text import storable

MEMBERS = 1_000
"""Members written in one transaction: some 20 ms, in which no other process can write."""

_ENDED = frozenset({"completed", "cancelled", "dead", "trashed", None})
"""Where jobs are whose outcome is known; None: gone."""


class SqliteOperations:
    """See queue_core.operations.OperationStore for what each method does; what it changes is on the disk."""

    def __init__(self, file: SqliteFile, rules: Rules | None = None) -> None:
        self._file = file
        self._rules = rules or {}

    async def close(self) -> None:
        """The file is closed by the store."""

    async def create(self, asked: NewOperation) -> Operation:
        """Write a new operation, preparing and without members."""
        return await self._file.write(partial(stepping.create, asked=asked))

    async def add(self, number: int, ids: Sequence[str]) -> Operation:
        """Append members to a preparing operation, as their jobs are now."""
        added = await self._file.write(partial(stepping.add, number=number, ids=ids[:MEMBERS]))
        for start in range(MEMBERS, len(ids), MEMBERS):
            more = ids[start : start + MEMBERS]
            added = await self._file.write(partial(stepping.add, number=number, ids=more))
        return added

    async def step(self, number: int, most: int) -> Step:
        """Change the next members that are as they were frozen, and count all of them."""
        return await self._file.write(partial(stepping.step, number=number, most=most, rules=self._rules))

    async def err(self, number: int, note: str) -> Operation:
        """Count the next member as errored."""
        return await self._file.write(partial(stepping.err, number=number, note=storable(note)))

    async def move(self, number: int, state: OperationState, note: str = "") -> bool:
        """Move an operation to another state."""
        return await self._file.write(partial(stepping.move, number=number, state=state, note=storable(note)))

    async def release(self, number: int) -> bool:
        """Let a running operation go on behind its canary."""
        return await self._file.write(partial(stepping.release, number=number))

    async def abandon(self) -> None:
        """Cancel operations that are still preparing long after their last change."""
        await self._file.write(abandon_operations)

    async def outcomes(self, number: int, last: int) -> Outcomes:
        """Return what became of the last members that were changed."""
        found: dict[str | None, int] = dict(await self._rows(number, "operation/outcomes", _bounded(last)))
        return Outcomes(
            looked=sum(found.values()),
            completed=found.get("completed", 0),
            dead=found.get("dead", 0) + found.get("trashed", 0),
            unfinished=sum(count for place, count in found.items() if place not in _ENDED),
        )

    async def get(self, number: int) -> Operation:
        """Return an operation."""
        return await self._file.read(lambda transaction: stepping.kept(transaction, number).view)

    async def find(
        self, limit: int, before: int | None = None, unfinished: bool = False, signature: str | None = None
    ) -> list[Operation]:
        """Return operations, the newest first."""
        query = "operation/unfinished" if unfinished else "operation/newest"
        older = HIGHEST if before is None else _bounded(before)
        wanted: dict[str, object] = {"before": older, "limit": _bounded(limit)}
        if signature is not None:
            query = "operation/by_signature"
            wanted |= {"signature": storable(signature), "unfinished": unfinished}
        return await self._find(lambda transaction: transaction.rows(query, wanted))

    async def of_job(self, job_id: str, limit: int) -> list[Operation]:
        """Return the operations that have changed a job, the newest first."""
        wanted = (stepping.member_id(job_id), _bounded(limit))
        return await self._find(lambda transaction: transaction.rows("operation/of_job", wanted))

    async def changed(self, number: int, after: int, limit: int) -> list[MemberJob]:
        """Return members that were changed, in their order, behind a place."""
        rows = await self._rows(number, "operation/changed", _bounded(after), _bounded(limit))
        return [MemberJob(*row) for row in rows]

    async def _rows(self, number: int, query: str, *params: int) -> list[Row]:
        def read(transaction: Transaction) -> list[Row]:
            stepping.kept(transaction, number)
            return transaction.rows(query, (number, *params))

        return await self._file.read(read)

    async def _find(self, numbers: Callable[[Transaction], list[Row]]) -> list[Operation]:
        def read(transaction: Transaction) -> list[Operation]:
            return [row.view for row in stepping.records(transaction, [number for (number,) in numbers(transaction)])]

        return await self._file.read(read)


def _bounded(number: int) -> int:
    return max(0, min(number, HIGHEST))
