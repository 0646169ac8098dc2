"""Every error this package raises, in one tree.

    QueueCoreError
    ├── ConfigurationError        a setting is missing, unknown or contradictory
    ├── InvalidJob                what was handed to enqueue cannot become a job
    │   └── TooLarge              payload over its byte limit
    ├── InvalidArgument           what a method was asked for cannot be
    ├── QueueFull                 the queue's limit refuses the job for now
    ├── QueueClosed               the queue is closed, and takes no new jobs
    ├── FilterError               a filter that cannot be read
    ├── UnknownTask               no handler of that name in this process
    ├── LifespanFailed            what handlers share could not be set up, or not be given up
    ├── NotFound
    │   ├── JobNotFound
    │   ├── QueueNotFound
    │   ├── ScheduleNotFound
    │   ├── SignatureNotFound
    │   └── OperationNotFound
    ├── WrongState                the job is in a state that the verb does not act on
    ├── StaleLease                the claim behind this write is over
    ├── TransactionError          a handler's transaction cannot be given, or cannot be committed
    ├── StoreUnavailable          the durable store did not answer in time
    │   ├── StoreRefused          it answered, and would not carry out a statement
    │   ├── StoreReadOnly         it answers, and accepts no writes
    │   └── OutcomeUnknown        it is not known whether what was asked for was begun
    ├── SchemaError
    │   ├── SchemaMissing
    │   ├── SchemaNewer
    │   ├── SchemaEarlier         made by a version before the first of this numbering
    │   └── SchemaForeign         a file that is no database of this package
    ├── ReadOnly                  the connection may look and not change
    └── ResultError
        ├── JobFailed             the job is dead
        ├── JobCancelled
        ├── ResultExpired         the job has completed, and its result is over its retention
        └── ResultTimeout
            └── NoWorker          nothing in this process runs the jobs of a queue in memory

Each carries one sentence that a person understands and the values it speaks of as attributes, and is the same after
pickle, as in a pool of processes. Outside of the tree is
SoftTimeLimitExceeded, which is raised in handlers: a cancellation, so that whatever they wait for ends as it ends then,
and no `except Exception` swallows it.
"""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Sequence
from typing import Any, NoReturn


def reduced(error: BaseException) -> tuple[Any, ...]:
    """Return how pickle and copy restore an exception: with its sentence and attributes, whatever its class takes."""
    return _restored, (type(error), error.args), error.__dict__


def _restored(kind: type[BaseException], args: tuple[Any, ...]) -> BaseException:
    error = kind.__new__(kind)
    error.args = args
    return error


def not_reduced(one: object) -> NoReturn:
    """Refuse pickle and copy for what has connections, locks or an event loop.

    Raises:
        TypeError: always.
    """
    raise TypeError(
        f"a {type(one).__name__} cannot be pickled or copied, for it belongs to its process: import the module that "
        "makes it, or hand over an id or a name"
    )


class QueueCoreError(Exception):
    """Root of the tree."""

    __reduce__ = reduced


class ConfigurationError(QueueCoreError):
    """A setting is missing, unknown or contradictory."""


class LifespanFailed(QueueCoreError):
    """A lifespan of a queue object raised an exception; `__cause__` is that."""

    def __init__(self, name: str, error: str) -> None:
        super().__init__(f"the lifespan '{name}' failed: {error}")
        self.name = name


class InvalidJob(QueueCoreError, ValueError):
    """The job was refused before anything was written."""


class TooLarge(InvalidJob):
    """A payload is larger than its limit; sizes are in bytes."""

    def __init__(self, what: str, size: int, limit: int) -> None:
        super().__init__(f"{what} has {size:,} bytes; the limit is {limit:,}")
        self.size = size
        self.limit = limit


class InvalidArgument(QueueCoreError, ValueError, TypeError):
    """What a method was asked for has a wrong type or size; nothing was done."""


class QueueFull(QueueCoreError):
    """The queue is at its limit; try again after `retry_after` seconds."""

    def __init__(self, queue: str, limit: int, retry_after: float = 60.0, band: str = "") -> None:
        where = f" for {band} priorities" if band else ""
        super().__init__(f"queue '{queue}' is full{where} (limit {limit:,}); try again in {retry_after:g} s")
        self.queue = queue
        self.limit = limit
        # high, normal or low; the empty text: the limit of the whole queue
        self.band = band
        self.retry_after = retry_after


class QueueClosed(QueueCoreError):
    """The queue is closed: what is in it runs, and new jobs are refused until an operator opens it."""

    def __init__(self, queue: str) -> None:
        super().__init__(f"queue '{queue}' is closed and takes no new jobs; 'queue resume' opens it")
        self.queue = queue


class FilterError(QueueCoreError, ValueError):
    """A filter that cannot be read: what is wrong, at which character (from 0), which field was perhaps meant."""

    def __init__(self, reason: str, text: str, position: int, nearest: str | None = None) -> None:
        super().__init__(f"filter, character {position + 1}: {reason}")
        self.reason = reason
        self.text = text
        self.position = position
        self.nearest = nearest


class UnknownTask(QueueCoreError, LookupError):
    """No handler of that name is registered in this process."""

    def __init__(self, type_: str) -> None:
        super().__init__(f"no task named '{type_}' is registered in this process")
        self.type = type_


class NotFound(QueueCoreError, LookupError):
    """What was named does not exist."""


class JobNotFound(NotFound):
    """No job has this id."""

    def __init__(self, job_id: str) -> None:
        super().__init__(f"no job with id {job_id}")
        self.job_id = job_id


class QueueNotFound(NotFound):
    """No queue has this name."""

    def __init__(self, queue: str) -> None:
        super().__init__(f"no queue named '{queue}'")
        self.queue = queue


class ScheduleNotFound(NotFound):
    """No schedule has this name; `nearest` is one that was perhaps meant."""

    def __init__(self, name: str, nearest: str | None = None) -> None:
        super().__init__(f"no schedule named '{name}'" + (f"; did you mean '{nearest}'?" if nearest else ""))
        self.name = name
        self.nearest = nearest


class SignatureNotFound(NotFound):
    """No dead job has this error signature, or several signatures begin so."""

    def __init__(self, signature: str) -> None:
        super().__init__(f"no dead job has the signature '{signature}'")
        self.signature = signature


class OperationNotFound(NotFound):
    """No operation has this number."""

    def __init__(self, number: int) -> None:
        super().__init__(f"no operation #{number}")
        self.number = number


class WrongState(QueueCoreError):
    """The job is in a state that the verb does not act on."""

    def __init__(self, job_id: str, status: str, verb: str) -> None:
        super().__init__(f"job {job_id} is {status}; it cannot be {verb}")
        self.job_id = job_id
        self.status = status
        self.verb = verb


class StaleLease(QueueCoreError):
    """The claim behind this write is over: another attempt owns the job, or it is finished."""

    def __init__(self, job_id: str, token: int) -> None:
        super().__init__(f"the lease {token} of job {job_id} is over; the write was refused")
        self.job_id = job_id
        self.token = token


class SoftTimeLimitExceeded(CancelledError):
    """The attempt ran longer than its soft time limit; until the hard one its handler may clean up, or still finish."""

    __reduce__ = reduced

    def __init__(self, seconds: float) -> None:
        super().__init__(f"ran longer than its soft time limit of {seconds:g} s")
        self.seconds = seconds


class TransactionError(QueueCoreError):
    """A handler's own transaction cannot be given to it, or cannot be committed with the end of its attempt."""


CLOSED = "the queue object was closed meanwhile"
"""Why calls fail whose connections a program has closed itself."""


class StoreUnavailable(QueueCoreError):
    """The durable store did not answer in time. Nothing was half-written."""

    happened = "cannot be reached"

    def __init__(self, backend: str, reason: str) -> None:
        super().__init__(f"{backend} {self.happened}: {reason}")
        self.backend = backend
        self.reason = reason


class StoreRefused(StoreUnavailable):
    """The durable store answered, and would not carry out a statement, which has changed nothing.

    `passing`: others were in its way, or it lacks room, so that it may work the next time. A worker tries again in any
    case, as with a store that is away.
    """

    happened = "refused a statement"

    def __init__(self, backend: str, reason: str, passing: bool = False) -> None:
        super().__init__(backend, reason)
        self.passing = passing


class StoreReadOnly(StoreUnavailable):
    """The durable store answers, and is a standby, or its database or user may only read."""

    happened = "accepts no writes"


class OutcomeUnknown(StoreUnavailable):
    """The durable store went away while an operation was begun; it may run."""

    def __init__(self, backend: str, reason: str, number: int) -> None:
        super().__init__(backend, f"{reason}; it is not known whether operation #{number} was begun")
        self.number = number


class SchemaError(QueueCoreError):
    """The store's schema does not fit this version."""


class SchemaMissing(SchemaError):
    """The store has no schema yet, or an older one than this version needs.

    `schema` is the name under which it was looked for, where it has one; `others` are those of such schemas in the same
    database, one of which may have been meant.
    """

    def __init__(self, found: int, needed: int, schema: str = "", others: Sequence[str] = ()) -> None:
        name = f" '{schema}'" if schema else ""
        state = f"has no schema{name}" if found == 0 else f"has schema {found}, older than {needed}"
        advice = "run 'jobconsole migrate'"
        if others:
            state += f", but {' and '.join(repr(one) for one in others)}"
            advice = "correct jobs.postgres.schema (--schema), or make another store with 'jobconsole migrate'"
        super().__init__(f"the database {state}; {advice}")
        self.found = found
        self.needed = needed
        self.schema = schema
        self.others = tuple(others)


class SchemaNewer(SchemaError):
    """The store was migrated by a newer version."""

    def __init__(self, found: int, known: int) -> None:
        super().__init__(f"the database has schema {found}, newer than {known} known here; upgrade this program")
        self.found = found
        self.known = known


class SchemaEarlier(SchemaError):
    """The store was made by a version before the first one that this program's migrations begin with."""

    def __init__(self, found: str, remedy: str = "run 'jobconsole migrate', which takes over all jobs") -> None:
        super().__init__(f"{found}; {remedy}")


class SchemaForeign(SchemaError):
    """The file is no database, or that of another program."""


class ReadOnly(QueueCoreError):
    """This connection may look and not change."""

    def __init__(self, verb: str) -> None:
        super().__init__(f"'{verb}' was refused: this connection is read-only")
        self.verb = verb


class ResultError(QueueCoreError):
    """A result that cannot be given."""


class JobFailed(ResultError):
    """The job is dead; `error` is its last error."""

    def __init__(self, job_id: str, error: str) -> None:
        super().__init__(f"job {job_id} is dead: {error}")
        self.job_id = job_id
        self.error = error


class JobCancelled(ResultError):
    """The job was cancelled."""

    def __init__(self, job_id: str) -> None:
        super().__init__(f"job {job_id} was cancelled")
        self.job_id = job_id


class ResultExpired(ResultError):
    """The job has completed, and its result is over its retention."""

    def __init__(self, job_id: str) -> None:
        super().__init__(f"job {job_id} has completed; its result is over its retention and no longer kept")
        self.job_id = job_id


class ResultTimeout(ResultError, TimeoutError):
    """The job did not finish in the time given; it is still there."""

    def __init__(self, job_id: str, timeout: float) -> None:
        super().__init__(f"job {job_id} did not finish within {timeout:g} s")
        self.job_id = job_id
        self.timeout = timeout


class NoWorker(ResultTimeout):
    """The job is in memory, where no worker can run it."""

    def __init__(self, job_id: str, status: str) -> None:
        super().__init__(job_id, 0.0)
        self.args = (
            f"job {job_id} is {status}, and nothing runs the jobs of this queue, which is in memory: call run_due() in "
            "a test, or run a Worker(jobs) in this process",
        )
        self.status = status
