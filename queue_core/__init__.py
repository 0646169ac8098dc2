"""A job queue that does not lose a job: enqueue, run, retry, inspect.

    from queue_core import JobContext, JobQueue, Priority, Retry, Worker

Everything a service needs is here; records and protocols are in the modules that define them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from queue_core.blocking.client import BlockingQueue
    from queue_core.blocking.parts import BlockingHandle
    from queue_core.client.context import JobContext
    from queue_core.client.health import Health, Stats
    from queue_core.client.logs import JobLogFilter, job_log_fields
    from queue_core.client.middleware import Middleware, SettledJob
    from queue_core.client.results import JobHandle
    from queue_core.client.tasks import Task
    from queue_core.errors import (
        ConfigurationError,
        FilterError,
        InvalidArgument,
        InvalidJob,
        JobCancelled,
        JobFailed,
        JobNotFound,
        LifespanFailed,
        NotFound,
        NoWorker,
        OperationNotFound,
        OutcomeUnknown,
        QueueClosed,
        QueueCoreError,
        QueueFull,
        QueueNotFound,
        ReadOnly,
        ResultError,
        ResultExpired,
        ResultTimeout,
        ScheduleNotFound,
        SchemaEarlier,
        SchemaError,
        SchemaForeign,
        SchemaMissing,
        SchemaNewer,
        SignatureNotFound,
        SoftTimeLimitExceeded,
        StaleLease,
        StoreReadOnly,
        StoreRefused,
        StoreUnavailable,
        TooLarge,
        TransactionError,
        UnknownTask,
        WrongState,
    )
    from queue_core.model.events import Event
    from queue_core.model.job import Job, NewJob
    from queue_core.model.report import Page
    from queue_core.model.retry import Reschedule, Retry, RetryLater
    from queue_core.model.rules import Priority
    from queue_core.model.states import Status
    from queue_core.queue import JobQueue
    from queue_core.worker.manual import ClaimedJob
    from queue_core.worker.worker import Worker

__all__ = [
    "BlockingHandle",
    "BlockingQueue",
    "ClaimedJob",
    "ConfigurationError",
    "Event",
    "FilterError",
    "Health",
    "InvalidArgument",
    "InvalidJob",
    "Job",
    "JobCancelled",
    "JobContext",
    "JobFailed",
    "JobHandle",
    "JobLogFilter",
    "JobNotFound",
    "JobQueue",
    "LifespanFailed",
    "Middleware",
    "NewJob",
    "NoWorker",
    "NotFound",
    "OperationNotFound",
    "OutcomeUnknown",
    "Page",
    "Priority",
    "QueueClosed",
    "QueueCoreError",
    "QueueFull",
    "QueueNotFound",
    "ReadOnly",
    "Reschedule",
    "ResultError",
    "ResultExpired",
    "ResultTimeout",
    "Retry",
    "RetryLater",
    "ScheduleNotFound",
    "SchemaEarlier",
    "SchemaError",
    "SchemaForeign",
    "SchemaMissing",
    "SchemaNewer",
    "SettledJob",
    "SignatureNotFound",
    "SoftTimeLimitExceeded",
    "StaleLease",
    "Stats",
    "Status",
    "StoreReadOnly",
    "StoreRefused",
    "StoreUnavailable",
    "Task",
    "TooLarge",
    "TransactionError",
    "UnknownTask",
    "Worker",
    "WrongState",
    "job_log_fields",
]

_HOMES = {
    "BlockingHandle": "blocking.parts",
    "BlockingQueue": "blocking.client",
    "Reschedule": "model.retry",
    "RetryLater": "model.retry",
    "JobContext": "client.context",
    "ConfigurationError": "errors",
    "FilterError": "errors",
    "InvalidArgument": "errors",
    "InvalidJob": "errors",
    "JobCancelled": "errors",
    "JobFailed": "errors",
    "JobNotFound": "errors",
    "LifespanFailed": "errors",
    "NoWorker": "errors",
    "NotFound": "errors",
    "OperationNotFound": "errors",
    "OutcomeUnknown": "errors",
    "QueueCoreError": "errors",
    "QueueClosed": "errors",
    "QueueFull": "errors",
    "QueueNotFound": "errors",
    "ReadOnly": "errors",
    "ResultError": "errors",
    "ResultExpired": "errors",
    "ResultTimeout": "errors",
    "ScheduleNotFound": "errors",
    "SignatureNotFound": "errors",
    "SchemaEarlier": "errors",
    "SchemaError": "errors",
    "SchemaForeign": "errors",
    "SchemaMissing": "errors",
    "SchemaNewer": "errors",
    "SoftTimeLimitExceeded": "errors",
    "StaleLease": "errors",
    "StoreReadOnly": "errors",
    "StoreRefused": "errors",
    "StoreUnavailable": "errors",
    "TooLarge": "errors",
    "TransactionError": "errors",
    "UnknownTask": "errors",
    "WrongState": "errors",
    "JobHandle": "client.results",
    "Event": "model.events",
    "Job": "model.job",
    "NewJob": "model.job",
    "JobLogFilter": "client.logs",
    "job_log_fields": "client.logs",
    "Middleware": "client.middleware",
    "SettledJob": "client.middleware",
    "Priority": "model.rules",
    "JobQueue": "queue",
    "Health": "client.health",
    "Stats": "client.health",
    "Page": "model.report",
    "Retry": "model.retry",
    "Status": "model.states",
    "Task": "client.tasks",
    "ClaimedJob": "worker.manual",
    "Worker": "worker.worker",
}
"""In which module of this package each name is defined."""


if not TYPE_CHECKING:  # for which each name would be there, also one with a typing error

    def __getattr__(name: str) -> Any:
        """Load what is asked for, once: a producer does without the worker, a console draws before it has a queue."""
        home = _HOMES.get(name)
        if home is None:
            raise AttributeError(f"module 'queue_core' has no attribute '{name}'")
        value = globals()[name] = getattr(import_module(f"queue_core.{home}"), name)
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
