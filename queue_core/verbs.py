"""The verbs for single jobs by their ids, and for programs that claim jobs without a Worker."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

from queue_core.control import Control
from queue_core.errors import InvalidArgument
from queue_core.filters import Filter, parse
from queue_core.inspection import Inspector, Order, Page
from queue_core.job import Attempt, Job
from queue_core.middleware import Hooks
from queue_core.opening import Parts
from queue_core.operating import Operations
from queue_core.retry import Retry
from queue_core.settings import JobsSettings
from queue_core.tasks import Duration, TaskRegistry
from queue_core.units import parse_duration
from queue_core.validation import check_id, check_name

if TYPE_CHECKING:
    from queue_core.worker.claimed import ClaimedJob, Terms
    from queue_core.worker.manual import ManualClaims

MOST_LISTED = 1000
"""Jobs of one page."""


class Verbs(ABC):
    """What a queue object does with one job at a time; all raise `StoreUnavailable` when the store does not answer."""

    settings: JobsSettings
    tasks: TaskRegistry
    hooks: Hooks
    control: Control
    operations: Operations
    _manual: ManualClaims | None

    @property
    @abstractmethod
    def inspector(self) -> Inspector:
        """The store's operations path."""

    @abstractmethod
    async def parts(self) -> Parts:
        """Return what the queue object works on, opened."""

    async def get(self, job_id: str) -> Job:
        """Return everything that is known about a job.

        Raises:
            JobNotFound: no job has this id.
        """
        return await self.inspector.get(check_id(job_id))

    async def attempts(self, job_id: str) -> Sequence[Attempt]:
        """Return the failed attempts of a job, oldest first.

        Raises:
            JobNotFound: no job has this id.
        """
        return await self.inspector.attempts(check_id(job_id))

    async def list(
        self, where: str | Filter = "", *, limit: int = 100, cursor: str | None = None, order: Order = "newest"
    ) -> Page:
        """Return a page of jobs by the time of their last change; hand `page.cursor` back for the next one.

        `where` is a filter such as "status:dead queue:images age:<1h"; at most 1,000 jobs a page.

        Raises:
            FilterError: the filter cannot be read, or no page gave this cursor.
        """
        if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MOST_LISTED:
            raise InvalidArgument(f"limit is a whole number from 1 to {MOST_LISTED:,}, not {limit!r}")
        if order not in ("newest", "oldest"):
            raise InvalidArgument(f"order is 'newest' or 'oldest', not {order!r}")
        if not isinstance(cursor, str | None):
            raise InvalidArgument(f"cursor is what an earlier page gave, not {cursor!r}")
        return await self.inspector.jobs(_filter(where), limit, cursor, order)

    async def count(self, where: str | Filter = "", *, at_most: int = 100_000) -> int:
        """Return how many jobs match a filter, counting no further than `at_most`.

        Raises:
            FilterError: the filter cannot be read.
        """
        if isinstance(at_most, bool) or not isinstance(at_most, int) or at_most < 0:
            raise InvalidArgument(f"at_most is a whole number, not {at_most!r}")
        return await self.inspector.count(_filter(where), at_most)

    async def cancel(self, job_id: str) -> bool:
        """Cancel a waiting job, or ask the worker of a running one to stop it; False when it has ended already.

        Raises:
            JobNotFound: no job has this id.
        """
        if (await self.control.cancel([check_id(job_id)])).ids:
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
        check_name(queue, "the queue's name")
        if isinstance(types, str) or not isinstance(types, Sequence | None):
            raise InvalidArgument(f"types is a list of names, not {types!r}")
        names = None if types is None else tuple(check_name(type_, "the type's name") for type_ in types)
        length = self.settings.defaults.lease if lease is None else _seconds(lease, "lease")
        if not length:
            raise InvalidArgument("a lease of 0 s is over at once")
        patience = _seconds(wait, "wait")
        parts = await self.parts()
        if self._manual is None:
            from queue_core.worker.manual import ManualClaims

            self._manual = ManualClaims(
                parts, self.hooks, self.operations.executor(), self.settings.defaults.max_losses
            )
        return await self._manual.claim(queue, names, patience, lambda type_: self._terms(type_, length))

    def _terms(self, type_: str, lease: float) -> Terms:
        from queue_core.worker.claimed import Terms

        known = type_ in self.tasks
        policy = self.tasks.get(type_).policy if known else Retry().resolved(self.settings.defaults)
        return Terms(lease, policy, self.settings.limits)


def _filter(where: object) -> Filter:
    if isinstance(where, Filter):
        return where
    if not isinstance(where, str):
        raise InvalidArgument(f"a filter is a text such as 'status:dead', not {where!r}")
    return parse(where)


def _seconds(value: Duration, what: str) -> float:
    try:
        return parse_duration(value)
    except ValueError as error:
        raise InvalidArgument(f"{what}: {error}") from None
