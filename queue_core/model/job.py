"""The records of a job: what a producer hands in, what a worker gets, what a person looks at.

The hot path's records are named tuples, the fastest immutable records that Python has; the inspection records are
frozen dataclasses. Times on the hot path are seconds since the epoch by the store's clock; on the inspection side
they are datetimes in UTC.
"""

from __future__ import annotations

import json
import os
import random
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, cast

from queue_core.model.states import Status
from queue_core.model.text import MARK, storable

FailureKind = Literal["error", "timeout", "crashed", "poison", "lost", "invalid_payload"]
MAX_LOSSES = 20
"""Losses that bury a job: it was not seen to be to blame, but it must not go on for ever."""
OutcomeKind = Literal["completed", "retrying", "dead", "released", "cancelled"]


NO_HEADERS = cast("dict[str, str]", MappingProxyType({}))
"""No headers, for all jobs that have none; it cannot be changed."""


class NewJob(NamedTuple):
    """A job to be inserted; everything in it has been validated."""

    # UUIDv7 of the producer; inserting the same id again changes nothing and returns the first job
    id: str
    queue: str
    type: str
    # JSON object of parameter names, as text
    payload: str
    priority: int = 5
    # seconds from the store's now until it is due; 0 = ready at once
    delay: float = 0.0
    # due time in seconds since the epoch; takes the place of `delay`
    run_at: float | None = None
    max_retries: int = 3
    tags: tuple[str, ...] = ()
    # jobs of a queue with the same one run one at a time, in the order of their arrival
    ordering_key: str | None = None
    # no second job of a queue with the same one is written
    unique_key: str | None = None
    # for so many seconds from now; None: while the job is unfinished
    unique_seconds: float | None = None
    # what travels with the job beside its payload, such as a trace; a hook before the enqueue may change it
    headers: dict[str, str] = NO_HEADERS


def size_of(job: NewJob) -> int:
    """Return about how many characters this job carries to the store."""
    return len(job.payload) + (len(str(job.headers)) if job.headers else 0)


def weight_of(jobs: Sequence[NewJob]) -> int:
    """Return about how many characters these jobs carry to the store."""
    return sum([len(job.payload) if not job.headers else size_of(job) for job in jobs])


def headers_text(job: NewJob) -> str | None:
    """Return the headers as they are stored: JSON, or None where there are none."""
    return json.dumps(job.headers, ensure_ascii=False) if job.headers else None


def headers_of(text: str | None) -> dict[str, str]:
    """Return stored headers; what is none is left out."""
    if not text:
        return {}
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return {name: value for name, value in found.items() if isinstance(value, str)} if isinstance(found, dict) else {}


class Inserted(NamedTuple):
    """What became of one `NewJob`, in the order handed in."""

    # that of the older job where one holds the unique key
    id: str
    queue: str
    # None when the job is not ready yet: it is due later, or waits for its ordering key
    rank: int | None
    # seconds since the epoch; None when it is not scheduled
    due: float | None
    # False: a job of this id or unique key was there already and stays as it was
    created: bool


class Ready(NamedTuple):
    """A job that may be claimed now."""

    id: str
    queue: str
    rank: int


class Claim(NamedTuple):
    """A job together with the right to run it until its lease ends."""

    id: str
    # fences every later write of this attempt
    token: int
    queue: str
    type: str
    payload: str
    priority: int
    rank: int
    retry_count: int
    max_retries: int
    # how often a worker saw the process die in which this job ran alone
    crashes: int
    # seconds since the epoch
    created_at: float
    tags: tuple[str, ...]
    ordering_key: str | None = None
    # how many workers were lost while they ran this job, since it was enqueued or retried by an operator
    losses: int = 0
    # JSON as it is stored; None: there are none
    headers: str | None = None


def attempt_of(claim: Claim) -> int:
    """Return the number of the attempt that this claim begins: 1 for the first."""
    return claim.retry_count + claim.crashes + claim.losses + 1


class Stray(NamedTuple):
    """A lease that its worker does not know of."""

    id: str
    token: int
    queue: str
    type: str
    ordering_key: str | None


class Failure(NamedTuple):
    """Why an attempt ended without a result. All texts are cut to their limits and still unsafe to show."""

    kind: FailureKind
    # qualified name of the exception's class, such as `json.decoder.JSONDecodeError`
    exception: str
    message: str
    traceback: str
    # 12 hexadecimal digits; see queue_core.model.signature
    signature: str
    # the signature's readable form: exception and message with numbers, ids, hosts and paths masked
    title: str


class Outcome(NamedTuple):
    """How a worker ends an attempt."""

    id: str
    token: int
    queue: str
    type: str
    kind: OutcomeKind
    # microseconds the handler ran
    run_us: int = 0
    # JSON text
    result: str | None = None
    failure: Failure | None = None
    # seconds until a retried job is due, or a released one that arrives as new
    delay: float = 0.0
    # released: not to its old place but as a job that arrives now, due after `delay` or at `run_at`
    to_back: bool = False
    # seconds since the epoch; None: after `delay`
    run_at: float | None = None
    # that of the claim; a store that it helps looks it up where it is missing
    ordering_key: str | None = None


class Settled(NamedTuple):
    """What the store made of one `Outcome`, in the order handed in."""

    id: str
    # False: the lease was over and nothing was written (StaleLease)
    accepted: bool
    # rank of a released job that is ready again; else None
    rank: int | None = None
    # seconds since the epoch at which a retrying or rescheduled job is due; else None
    due: float | None = None
    # True: instead of being retried or released it was cancelled, as was requested while it ran
    cancelled: bool = False
    # jobs that became ready because this one let go of their ordering key
    unblocked: tuple[Ready, ...] = ()


class Reclaimed(NamedTuple):
    """A job taken back from a worker that was lost."""

    id: str
    queue: str
    type: str
    token: int
    worker: str
    # with this one
    losses: int
    # None: buried as lost, or cancelled
    rank: int | None
    # True: instead of becoming ready it was cancelled, as was requested while it ran
    cancelled: bool = False
    # False: it was still waiting for a slot, so that its worker's end is no evidence about it
    started: bool = True
    # jobs that became ready because this one let go of their ordering key
    unblocked: tuple[Ready, ...] = ()


class LogLine(NamedTuple):
    """A line that a handler wrote with `ctx.log`, on its way to the store; a `LogEntry` is what is kept of it."""

    id: str
    # the lease token of the attempt that wrote it
    token: int
    queue: str
    # 1 for the attempt's first line, rising; lines that were dropped on the way leave a gap
    line: int
    # cut to its limit, and still unsafe to show
    text: str
    # seconds since it was written
    age: float = 0.0


class JobResult(NamedTuple):
    """What `result()` reads back about a job."""

    id: str
    status: Status
    # JSON text of a completed job
    result: str | None
    error: str | None
    # completed so long ago that its result is over its retention
    expired: bool = False


@dataclass(frozen=True, slots=True)
class Job:
    """Everything the store knows about one job, for people and programs that look."""

    id: str
    type: str
    queue: str
    # decoded JSON; None with `payload_text` set when the stored text is not JSON
    payload: dict[str, Any] | None
    payload_text: str
    status: Status
    priority: int
    created_at: datetime
    updated_at: datetime
    # when it is (or was) due
    run_at: datetime
    started_at: datetime | None
    # end of its life: completed, cancelled or dead
    completed_at: datetime | None
    # decoded JSON
    result: Any
    # one line: exception and message of the last failed attempt
    error: str | None
    retry_count: int
    max_retries: int
    # how often a worker saw the process die in which it ran alone: each time it was buried as poison
    crashes: int
    # 0 to 100
    progress: int
    progress_message: str
    tags: tuple[str, ...]
    # of its last lease, or of what an operator changed since; 0 before the first
    token: int
    worker: str | None
    lease_expires_at: datetime | None
    # of the last failure; None when it never failed
    failure_kind: FailureKind | None
    signature: str | None
    traceback: str | None
    # set when a dead job was deleted and waits in the trash
    trashed_at: datetime | None
    cancel_requested: bool = False
    ordering_key: str | None = None
    unique_key: str | None = None
    # how many workers were lost while they ran it, since it was enqueued or retried by an operator
    losses: int = 0
    # what travels with the job beside its payload
    headers: dict[str, str] = field(default_factory=dict)
    # that its worker announced, of the attempt that runs or was the last of a finished job; None: unknown
    release: str | None = None


@dataclass(frozen=True, slots=True)
class Attempt:
    """A failed, crashed or timed-out attempt of a job."""

    job_id: str
    token: int
    # 1 for the first
    number: int
    kind: FailureKind
    exception: str
    message: str
    traceback: str
    signature: str
    worker: str | None
    started_at: datetime | None
    finished_at: datetime
    # that its worker announced; None: unknown
    release: str | None = None


@dataclass(frozen=True, slots=True)
class LogEntry:
    """A line of a job's log."""

    # 1 for the job's first line, rising over all its attempts
    number: int
    # the lease token of the attempt that wrote it
    token: int
    at: datetime
    text: str


random_source = random.Random()
os.register_at_fork(after_in_child=random_source.seed)


def new_id() -> str:
    """Return a new UUIDv7 as text: 48 bits of milliseconds, then random bits. The order of jobs never rests on it."""
    value = time.time_ns() // 1_000_000 << 80 | random_source.getrandbits(80)
    text = f"{value & ~(0xF << 76) & ~(0x3 << 62) | 0x7 << 76 | 0x2 << 62:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def parse_id(text: str) -> str:
    """Return a job's id in its canonical form.

    Raises:
        ValueError: this is no id.
    """
    try:
        return str(uuid.UUID(text.strip()))
    except ValueError:
        raise ValueError(f"'{text[:60]}' is no job id; ids look like 01976f7e-5d6c-7b5e-8b7a-0c2f4d6e8a90") from None


MAX_LOG_LINES = 1000
"""Lines that a job keeps over all its attempts, the newest."""
MAX_LOG_LINE_BYTES = 4096
"""UTF-8 bytes of a line; a longer one is cut."""


class LogPosition(NamedTuple):
    """Where a line is in the log of its job."""

    # the job's count over all attempts
    number: int
    token: int
    # the attempt's own count
    line: int


LOG_START = LogPosition(0, 0, 0)
"""The place before the first line."""


def cut_line(text: str) -> str:
    """Return the text as every store accepts it, in `MAX_LOG_LINE_BYTES` bytes at most, marked where it was cut."""
    data = storable(text[: MAX_LOG_LINE_BYTES + 1]).encode()
    if len(data) <= MAX_LOG_LINE_BYTES:
        return data.decode()
    return data[: MAX_LOG_LINE_BYTES - len(MARK.encode())].decode(errors="ignore") + MARK


def placed(last: LogPosition, lines: Iterable[LogLine]) -> Iterator[tuple[LogPosition, LogLine]]:
    """Yield the lines of a job's running attempt that follow the last one there is, with their places.

    Those that do not were written before, and the answer got lost. An attempt counts on from where the one before it
    ended, so that the numbers show how many lines were dropped, wherever that happened.
    """
    for line in lines:
        start, done = (last.number - last.line, last.line) if last.token == line.token else (last.number, 0)
        if line.line > done:
            last = LogPosition(start + line.line, line.token, line.line)
            yield last, line


def summary(failure: Failure) -> str:
    """Return the one line about a failure that lists show: the exception's short name, its message's first line."""
    name = failure.exception.rpartition(".")[2]
    first = failure.message.strip().splitlines()
    return f"{name}: {first[0][:500]}" if first else name
