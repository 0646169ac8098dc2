"""The methods of a queue object that read, list, cancel, change and claim single jobs."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

from queue_core.client.causes.breakdown import breakdown
from queue_core.client.causes.compare import Comparison, compare
from queue_core.client.middleware import Hooks
from queue_core.client.operations import Operations
from queue_core.client.tasks import Duration, TaskRegistry
from queue_core.errors import InvalidArgument
from queue_core.model.filters import Filter, filter_of
from queue_core.model.job import Job
from queue_core.model.report import Breakdown, JobAttempt, Order, Page, attempts_of
from queue_core.model.settings import JobsSettings
from queue_core.model.validation import check_id, check_lease, check_queue_name, check_seconds, check_types
from queue_core.ports.backend import Backend
from queue_core.ports.inspector import Inspector

if TYPE_CHECKING:
    from queue_core.worker.manual import ClaimedJob, ManualClaims


MAX_LISTED = 1000
"""Jobs of one page."""
_SIGNATURE = re.compile(r"[0-9a-f]{12}")


class JobVerbs(ABC):
    """The part of `JobQueue` about single jobs; all raise `StoreUnavailable` when the store does not answer."""

    settings: JobsSettings
    tasks: TaskRegistry
    hooks: Hooks
    operations: Operations
    _manual: ManualClaims | None

    @property
    @abstractmethod
    def inspector(self) -> Inspector:
        """What people and exporters ask of the store; it changes nothing."""

    @abstractmethod
    async def backend(self) -> Backend:
        """Return what the queue object works on, opened."""

    async def get(self, job_id: str) -> Job:
        """Return everything that is known about a job.

        Raises:
            JobNotFound: no job has this id.
        """
        return await self.inspector.get(check_id(job_id))

    async def attempts(self, job_id: str) -> Sequence[JobAttempt]:
        """Return all attempts of a job, oldest first: those that failed, and the one that runs or ended it well.

        Raises:
            JobNotFound: no job has this id.
        """
        failed = await self.inspector.attempts(check_id(job_id))
        return attempts_of(await self.inspector.get(job_id), failed)

    async def list(
        self, where: str | Filter = "", *, limit: int = 100, cursor: str | None = None, order: Order = "newest"
    ) -> Page:
        """Return a page of jobs by the time of their last change; hand `page.cursor` back for the next one.

        `where` is a filter such as "status:dead queue:images age:<1h"; at most 1,000 jobs a page.

        Raises:
            FilterError: the filter cannot be read, or no page gave this cursor.
        """
        if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MAX_LISTED:
            raise InvalidArgument(f"limit is a whole number from 1 to {MAX_LISTED:,}, not {limit!r}")
        if order not in ("newest", "oldest"):
            raise InvalidArgument(f"order is 'newest' or 'oldest', not {order!r}")
        if not isinstance(cursor, str | None):
            raise InvalidArgument(f"cursor is what an earlier page gave, not {cursor!r}")
        return await self.inspector.jobs(filter_of(where), limit, cursor, order)

    async def count(self, where: str | Filter = "", *, at_most: int = 100_000) -> int:
        """Return how many jobs match a filter, counting no further than `at_most`.

        Raises:
            FilterError: the filter cannot be read.
        """
        if isinstance(at_most, bool) or not isinstance(at_most, int) or at_most < 0:
            raise InvalidArgument(f"at_most is a whole number, not {at_most!r}")
        return await self.inspector.count(filter_of(where), at_most)

    async def breakdown(self, signature: str) -> Breakdown:
        """Return what the dead jobs of an error have in common, from a bounded sample; `signature` is a whole one.

        Raises:
            InvalidArgument: it has not twelve hexadecimal digits.
        """
        if not isinstance(signature, str) or not _SIGNATURE.fullmatch(signature):
            raise InvalidArgument(f"a signature has 12 hexadecimal digits, not {signature!r}")
        return await breakdown(self.inspector, signature)

    async def compare(self, job_id: str, *, back: int = 0) -> Comparison:
        """Return how the payload of a job differs from that of the last completed job of its type.

        `back`: of the one so many places before it.

        Raises:
            JobNotFound: no job has this id.
        """
        if isinstance(back, bool) or not isinstance(back, int) or back < 0:
            raise InvalidArgument(f"back is a whole number, not {back!r}")
        return await compare(self.inspector, check_id(job_id), back)

    async def cancel(self, job_id: str) -> bool:
        """Cancel a waiting job, or ask the worker of a running one to stop it; False when it has ended already.

        Raises:
            JobNotFound: no job has this id.
        """
        if (await self.operations.change("cancel", [check_id(job_id)])).ids:
            return True
        job = await self.get(job_id)
        return job.cancel_requested

    async def claim_next(
        self,
        queue: str = "default",
        *,
        types: Sequence[str] | None = None,
        lease: Duration | None = None,
        wait: Duration = 0.0,
    ) -> ClaimedJob | None:
        """Claim the next job of a queue, of these types or of any, for a program that runs it by itself; None: no job.

        It belongs to the program for the length of the lease (the settings' by default), which `refresh` prolongs, and
        ends with `complete`, `fail` or `release`. `wait`: how long to look for one. Hooks and time limits do not run.

        Raises:
            InvalidArgument: a name, a lease or a time that cannot be.
        """
        check_queue_name(queue)
        names = check_types(types)
        length = self.settings.defaults.lease if lease is None else check_lease(lease)
        patience = check_seconds(wait, "wait")
        backend = await self.backend()
        if self._manual is None:
            from queue_core.worker.manual import ManualClaims

            executor = self.operations.executor()
            self._manual = ManualClaims(backend, self.hooks, executor, self.tasks, self.settings)
        return await self._manual.claim(queue, names, length, patience)
