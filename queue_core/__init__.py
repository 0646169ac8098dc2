"""A job queue that does not lose a job: enqueue, run, retry, inspect.

    from queue_core import JobContext, JobQueue, Priority, Retry, Worker

Everything a service needs is here; records and protocols are in the modules that define them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from queue_core.asking import Reschedule, RetryLater
from queue_core.context import JobContext
from queue_core.errors import (
    ConfigurationError,
    InvalidArgument,
    InvalidJob,
    JobCancelled,
    JobFailed,
    JobNotFound,
    QueueCoreError,
    QueueFull,
    ResultTimeout,
    ScheduleNotFound,
    SchemaMissing,
    SchemaNewer,
    SoftTimeLimitExceeded,
    StaleLease,
    StoreUnavailable,
    TooLarge,
    TransactionError,
)
from queue_core.handle import JobHandle
from queue_core.job import Job
from queue_core.middleware import Middleware, SettledJob
from queue_core.priorities import Priority
from queue_core.queue import JobQueue
from queue_core.reports import Health, Stats
from queue_core.retry import Retry
from queue_core.states import Status
from queue_core.tasks import Task

if TYPE_CHECKING:
    from queue_core.worker.claimed import ClaimedJob
    from queue_core.worker.worker import Worker

__all__ = [
    "ClaimedJob",
    "ConfigurationError",
    "Health",
    "InvalidArgument",
    "InvalidJob",
    "Job",
    "JobCancelled",
    "JobContext",
    "JobFailed",
    "JobHandle",
    "JobNotFound",
    "JobQueue",
    "Middleware",
    "Priority",
    "QueueCoreError",
    "QueueFull",
    "Reschedule",
    "ResultTimeout",
    "Retry",
    "RetryLater",
    "ScheduleNotFound",
    "SchemaMissing",
    "SchemaNewer",
    "SettledJob",
    "SoftTimeLimitExceeded",
    "StaleLease",
    "Stats",
    "Status",
    "StoreUnavailable",
    "Task",
    "TooLarge",
    "TransactionError",
    "Worker",
]


def __getattr__(name: str) -> Any:
    """Load the worker where it is asked for: producers do without its threads and pools."""
    if name == "Worker":
        from queue_core.worker.worker import Worker

        return Worker
    if name == "ClaimedJob":
        from queue_core.worker.claimed import ClaimedJob

        return ClaimedJob
    raise AttributeError(f"module 'queue_core' has no attribute '{name}'")
