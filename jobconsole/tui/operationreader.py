"""The refresher's part about operations: lists, one in detail, what a sheet wants to know before something is done."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from jobconsole.core.breakdown import Facts, breakdown
from jobconsole.core.connection import Connection
from jobconsole.core.model import Model
from jobconsole.core.operations import Target
from jobconsole.core.progress import OperationLine, operation_line
from jobconsole.core.retries import retries_of
from jobconsole.core.rows import JobLine, job_line
from queue_core.errors import JobNotFound
from queue_core.inspection import Inspector
from queue_core.operations import Operation, Outcomes

T = TypeVar("T")

PAGE = 100
"""Operations that are read at a time."""
MEMBERS = 20
"""Changed jobs of an operation that are shown."""
TOLD = 2
"""Earlier retries of a signature that are told."""


class Read(Protocol):
    """How the refresher reads: within a time limit, and noting a store that is gone."""

    async def __call__(self, read: Callable[[Inspector], Awaitable[T]], /) -> T:
        """Return what is read."""
        ...


@dataclass(frozen=True, slots=True)
class OperationSight:
    """One operation in detail."""

    line: OperationLine
    # what became of the jobs that it has retried; None: it retries none
    outcomes: Outcomes | None = None
    # some of the jobs that it has changed, as they are now
    members: tuple[JobLine, ...] = ()


class OperationReader:
    """Every method raises `StoreUnavailable` when the store did not answer in time."""

    def __init__(self, connection: Connection, model: Model, read: Read) -> None:
        self._connection = connection
        self._model = model
        self._read = read

    async def underway(self) -> None:
        """Read the operations that have not ended into the model."""
        await self._read(lambda _: self._model.underway.read(self._connection.operations))

    async def page(self, before: int | None) -> list[OperationLine]:
        """Read operations, the newest first: the first page, or those older than a number."""
        found = await self._read(lambda _: self._connection.operations.find(PAGE, before))
        return [self._line(one) for one in found]

    async def sight(self, number: int) -> OperationSight:
        """Read one operation in detail.

        Raises:
            OperationNotFound: there is no such operation.
        """
        every = self._connection.operations
        line = self._line(await self._read(lambda _: every.get(number)))
        one, outcomes = line.operation, None
        if one.asked.verb == "retry" and one.processed:
            outcomes = await self._read(lambda _: every.outcomes(number))
        ids = await self._read(lambda _: every.changed_ids(number, MEMBERS)) if one.total else []
        return OperationSight(line, outcomes, tuple([row for job_id in ids if (row := await self._job(job_id))]))

    async def of_job(self, job_id: str) -> list[Operation]:
        """Read the operations that have changed a job, the newest first."""
        return await self._read(lambda _: self._connection.operations.of_job(job_id))

    async def facts(self, target: Target) -> Facts:
        """Read what a target consists of, and what became of earlier retries of its signatures."""
        facts = await self._read(lambda inspector: breakdown(inspector, target))
        told: list[str] = []
        for signature in target.signatures[:TOLD]:
            told += await self._retries(signature)
        return (*facts, *(("earlier" if number == 0 else "", text) for number, text in enumerate(told[:TOLD])))

    async def _retries(self, signature: str) -> list[str]:
        return await self._read(lambda _: retries_of(self._connection.operations, signature, self._model.now, TOLD))

    def _line(self, operation: Operation) -> OperationLine:
        """The line as the one that watches operations knows it, where that is as new."""
        known = self._model.underway.of(operation.number)
        return known if known is not None and known.operation == operation else operation_line(operation)

    async def _job(self, job_id: str) -> JobLine | None:
        try:
            return job_line(await self._read(lambda inspector: inspector.get(job_id)))
        except JobNotFound:
            return None
