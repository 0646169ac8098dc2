"""A job queue that does not lose a job: enqueue, run, retry, inspect.

    from queue_core import JobContext, JobQueue, Priority, Retry, Worker

Everything a service needs is here; records and protocols are in the modules that define them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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
        ResultExpired,
        ResultTimeout,
        ScheduleNotFound,
        SchemaForeign,
        SchemaMissing,
        SchemaNewer,
        SoftTimeLimitExceeded,
        StaleLease,
        StoreRefused,
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
    "ResultExpired",
    "ResultTimeout",
    "Retry",
    "RetryLater",
    "ScheduleNotFound",
    "SchemaForeign",
    "SchemaMissing",
    "SchemaNewer",
    "SettledJob",
    "SoftTimeLimitExceeded",
    "StaleLease",
    "Stats",
    "Status",
    "StoreRefused",
    "StoreUnavailable",
    "Task",
    "TooLarge",
    "TransactionError",
    "Worker",
]

_HOMES = {
    "Reschedule": "asking",
    "RetryLater": "asking",
    "JobContext": "context",
    "ConfigurationError": "errors",
    "InvalidArgument": "errors",
    "InvalidJob": "errors",
    "JobCancelled": "errors",
    "JobFailed": "errors",
    "JobNotFound": "errors",
    "QueueCoreError": "errors",
    "QueueFull": "errors",
    "ResultExpired": "errors",
    "ResultTimeout": "errors",
    "ScheduleNotFound": "errors",
    "SchemaForeign": "errors",
    "SchemaMissing": "errors",
    "SchemaNewer": "errors",
    "SoftTimeLimitExceeded": "errors",
    "StaleLease": "errors",
    "StoreRefused": "errors",
    "StoreUnavailable": "errors",
    "TooLarge": "errors",
    "TransactionError": "errors",
    "JobHandle": "handle",
    "Job": "job",
    "Middleware": "middleware",
    "SettledJob": "middleware",
    "Priority": "priorities",
    "JobQueue": "queue",
    "Health": "reports",
    "Stats": "reports",
    "Retry": "retry",
    "Status": "states",
    "Task": "tasks",
    "ClaimedJob": "worker.claimed",
    "Worker": "worker.worker",
}
"""In which module of this package each name is defined."""


def __getattr__(name: str) -> Any:
    """Load what is asked for, once: a producer does without the worker, and a console draws before it has a queue."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'queue_core' has no attribute '{name}'")
    value = globals()[name] = getattr(import_module(f"queue_core.{home}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
