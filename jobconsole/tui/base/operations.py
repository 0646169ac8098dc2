"""The reader of operations: pages, one in detail, those under way, and what became of earlier retries."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol, TypeVar

from jobconsole.actions.plan import Facts, Target, breakdown
from jobconsole.core.connection import Connection
from jobconsole.core.model import Model
from jobconsole.core.progress import OperationLine, numbered_retries, operation_line
from jobconsole.core.rows import JobLine, ended_at, job_line
from jobconsole.present.job import earlier_lives
from jobconsole.present.stack import LiveStack, read_stack
from queue_core.errors import JobNotFound
from queue_core.model.operation import Operation, Outcomes
from queue_core.ports.inspector import Inspector

T = TypeVar("T")


PAGE_OPERATIONS = 100
"""Operations that are read at a time."""
SHOWN_MEMBERS = 20
"""Changed jobs of an operation that are shown."""
RETRIES_SHOWN = 2
"""Earlier retries of a signature that are shown."""


class ReadCall(Protocol):
    """How the refresher reads: within a time limit, and noting a store that is gone."""

    async def __call__(self, read: Callable[[Inspector], Awaitable[T]], /) -> T:
        """Return what is read."""
        ...


@dataclass(frozen=True, slots=True)
class OperationDetail:
    """One operation in detail."""

    line: OperationLine
    # the outcomes of the jobs that it has retried; None: it retries none
    outcomes: Outcomes | None = None
    # some of the jobs that it has changed, as they are now
    members: tuple[JobLine, ...] = ()


class OperationReader:
    """Every method raises `StoreUnavailable` when the store did not answer in time."""

    def __init__(self, connection: Connection, model: Model, read: ReadCall) -> None:
        self._connection = connection
        self._model = model
        self._read = read

    async def read_active(self) -> None:
        """Read the operations that have not ended into the model."""
        await self._read(lambda _: self._model.active_operations.read(self._connection.operations))

    async def newest(self) -> int:
        """Read the number of the newest operation; 0: there is none."""
        found = await self._read(lambda _: self._connection.operations.list_operations(1))
        return found[0].number if found else 0

    async def page(self, before: int | None) -> list[OperationLine]:
        """Read operations, the newest first: the first page, or those older than a number."""
        found = await self._read(lambda _: self._connection.operations.list_operations(PAGE_OPERATIONS, before))
        return [self._line(one) for one in found]

    async def detail(self, number: int) -> OperationDetail:
        """Read one operation in detail.

        Raises:
            OperationNotFound: there is no such operation.
        """
        every = self._connection.operations
        line = self._line(await self._read(lambda _: every.get(number)))
        one, outcomes = line.operation, None
        if one.request.verb == "retry" and one.processed:
            outcomes = await self._read(lambda _: every.outcomes(number))
        ids = await self._read(lambda _: every.changed_ids(number, SHOWN_MEMBERS)) if one.total else []
        return OperationDetail(line, outcomes, tuple([row for job_id in ids if (row := await self._job(job_id))]))

    async def of_job(self, job_id: str) -> list[Operation]:
        """Read the operations that have changed a job, the newest first."""
        return await self._read(lambda _: self._connection.operations.list_for_job(job_id))

    async def stacks(self, job_id: str) -> list[LiveStack]:
        """Read the stacks of a job that were taken, the newest first."""
        return [read_stack(one) for one in await self._read(lambda _: self._connection.operations.stacks(job_id))]

    async def facts(self, target: Target) -> Facts:
        """Read what a target consists of, and earlier retries: of its signatures, else of its newest job."""
        facts = await self._read(lambda inspector: breakdown(inspector, target))
        retries: dict[int, str] = {}
        for signature in target.signatures[:RETRIES_SHOWN]:
            retries |= await self._retries(signature)
        reported = [retries[number] for number in sorted(retries, reverse=True)]
        if not reported and len(target.signatures) == 1:
            reported = await self._read(lambda inspector: self._lives(inspector, target))
        return (
            *facts,
            *(("before" if number == 0 else "", text) for number, text in enumerate(reported[:RETRIES_SHOWN])),
        )

    async def _retries(self, signature: str) -> dict[int, str]:
        return await self._read(
            lambda _: numbered_retries(self._connection.operations, signature, self._model.now, RETRIES_SHOWN)
        )

    async def _lives(self, inspector: Inspector, target: Target) -> list[str]:
        """Return how often the newest job of a signature was retried.

        Its operations do not show that: those on a filter, or on single jobs, have no signature.
        """
        for where in target.wheres:
            for job in (await inspector.jobs(where, 1)).jobs:
                with suppress(JobNotFound):
                    words = earlier_lives(await inspector.attempts(job.id), ended_at(job), self._model.now)
                    return [words] if words else []
        return []

    def _line(self, operation: Operation) -> OperationLine:
        """The line as the one that watches operations knows it, where that is as new."""
        known = self._model.active_operations.of(operation.number)
        return known if known is not None and known.operation == operation else operation_line(operation)

    async def _job(self, job_id: str) -> JobLine | None:
        try:
            return job_line(await self._read(lambda inspector: inspector.get(job_id)))
        except JobNotFound:
            return None
