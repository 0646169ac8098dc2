"""Edit and retry: a job's payload as a text to edit, what is wrong with it, and the new job that is enqueued with it.

The edited job is a new one: with its own id, all its retries, and none of the old one's unique keys. The old job stays
where it is, and each of the two has a note that names the other.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from jobconsole.actions.json import NotJson, compact, oddities, pretty, value_of
from jobconsole.actions.schema import SchemaUnusable, validate_payload
from jobconsole.format.humanize import plural
from queue_core.errors import InvalidJob, JobNotFound, QueueCoreError
from queue_core.model.codec import Written, encode_payload
from queue_core.model.operation import Author, OperationRequest
from queue_core.model.rules import key_in
from queue_core.model.states import FINAL, Status
from queue_core.model.text import safe

if TYPE_CHECKING:
    from queue_core.client.operations import Operations
    from queue_core.model.job import Job
    from queue_core.ports.inspector import Inspector
    from queue_core.queue import JobQueue


COMPARED_LINES = 2_000
"""Lines that are compared, from the first that differs to the last: the comparison takes the square of it."""
LONGEST_LINE = 400
"""Characters of a line of the difference."""
MAX_ODDITIES = 5
UNCHANGED = "nothing is changed; R retries the job as it is"
_CONTEXT = 2
_INSTEAD = {
    Status.RUNNING: "it is running; X asks its worker to stop it",
    Status.QUEUED: "it is queued and will run as it is; X cancels it first",
    Status.SCHEDULED: "it is scheduled and will run as it is; X cancels it first",
    Status.RETRYING: "it will be retried as it is; X cancels it first",
}

Severity = Literal["error", "warning"]


@dataclass(frozen=True, slots=True)
class Draft:
    """A new job before it is enqueued."""

    # the payload as JSON, spread over lines
    text: str
    queue: str
    priority: int
    max_retries: int
    tags: tuple[str, ...]
    # a note on how the original was made editable; "" when there is none
    remark: str = ""


@dataclass(frozen=True, slots=True)
class Known:
    """What the store knows of the type of a job that is edited."""

    # the JSON Schema that workers announced; None: no worker did
    schema: dict[str, Any] | None = None
    # live workers claim jobs of this type from this queue
    announced: bool = True


@dataclass(frozen=True, slots=True)
class Original:
    """A job that is edited, with what its draft is checked against."""

    job: Job
    known: Known
    # bytes that a payload may have
    limit: int


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem of a draft, in one sentence; an error prevents it from being enqueued."""

    severity: Severity
    text: str
    # both from 1; None: it is about the whole
    line: int | None = None
    column: int | None = None

    @property
    def sentence(self) -> str:
        """The sentence with its place."""
        return self.text if self.line is None else f"line {self.line} column {self.column}: {self.text}"


@dataclass(frozen=True, slots=True)
class Edited:
    """The new job."""

    id: str
    queue: str
    # the state of the old job at that moment; None: it is not there any more
    original: Status | None
    # one sentence when the note at the new job could not be written; the job itself is enqueued
    problem: str = ""

    @property
    def sentence(self) -> str:
        """Which job is new, and what became of the old one."""
        if self.original is None:
            left = "is not there any more"
        else:
            left = f"stays {self.original}" if self.original in FINAL else f"is {self.original}"
        return f"enqueued as {self.id}; the old job {left}"


class OriginalChanged(QueueCoreError):
    """The job that is edited went into another state meanwhile, as by a retry; nothing was enqueued."""

    def __init__(self, before: Status, now: Status) -> None:
        super().__init__(f"the old job is {now} by now, no longer {before}")
        self.now = now


def refusal(status: Status) -> str:
    """Return why a job in this state is not edited; "" when it is."""
    return "" if status in FINAL else _INSTEAD[status]


def draft_of(job: Job) -> Draft:
    """Return a job as a draft; a payload that is no JSON comes as it is, with pictures for what cannot be shown."""
    rest = (job.queue, job.priority, job.max_retries, job.tags)
    try:
        value_of(job.payload_text)
    except NotJson as error:
        text = safe(job.payload_text, len(job.payload_text) * 10 + 1, newlines=True)
        return Draft(text, *rest, remark=f"the stored payload is no JSON: {error.reason}")
    return Draft(pretty(job.payload_text), *rest)


def editing(job_id: str, text: str, why: str = "") -> list[str]:
    """Return the words of the command that enqueues an edited payload as a new job.

    Raises:
        NotJson: the text is no JSON.
    """
    value_of(text)
    return ["job", "edit", job_id, f"--payload={compact(text)}", *([f"--why={why}"] if why else [])]


async def read_known(inspector: Inspector, type_: str, queue: str) -> Known:
    """Return what workers announced of a type.

    Raises:
        StoreUnavailable: the store did not answer in time.
    """
    info = (await inspector.types()).get(type_)
    overview = await inspector.overview()
    schema = None if info is None else info.schema
    return Known(schema, any(worker.runs(queue, type_) for worker in overview.workers))


async def original(jobs: JobQueue, job_id: str) -> Original:
    """Return a job with what is needed to edit it.

    Raises:
        JobNotFound, StoreUnavailable: there is none, or the store did not answer in time.
    """
    job = await jobs.inspector.get(job_id)
    return Original(job, await read_known(jobs.inspector, job.type, job.queue), jobs.settings.limits.payload)


def check(draft: Draft, job: Job, known: Known, limit: int) -> list[Problem]:
    """Return what is wrong with a draft of a job, errors first; `limit`: bytes that a payload may have."""
    try:
        value = value_of(draft.text)
    except NotJson as error:
        return [_placed("error", f"the payload is not JSON: {error.reason}", draft.text, error.at)]
    try:
        encode_payload(_written(draft.text, value), limit)
    except InvalidJob as error:
        return [Problem("error", str(error))]
    problems = [*_misfits(value, job.type, known.schema), *_unchanged(draft, job)]
    if not known.announced:
        unannounced = f"no live worker of queue '{safe(draft.queue, 60)}' announces the type '{safe(job.type, 60)}'"
        problems.append(Problem("warning", f"{unannounced}; the job waits until one does"))
    odd = oddities(draft.text)[:MAX_ODDITIES]
    problems += [_placed("warning", oddity.text, draft.text, oddity.at) for oddity in odd]
    return sorted(problems, key=lambda problem: problem.severity)


def diff(before: str, after: str) -> list[str]:
    """Return how two payloads differ, line by line; each begins with a blank, - or +. None when they are the same.

    How JSON is spread over lines makes no difference.
    """
    one, other = _lines(before), _lines(after)
    if one == other:
        return []
    head = next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    rest = min(len(one), len(other)) - head
    tail = next((n for n in range(rest) if one[-1 - n] != other[-1 - n]), rest)
    first, ends = max(0, head - _CONTEXT), (len(one) - tail + _CONTEXT, len(other) - tail + _CONTEXT)
    one, other = one[first : ends[0]], other[first : ends[1]]
    if max(len(one), len(other)) > COMPARED_LINES:
        both = (("-", one), ("+", other))
        return [f"{sign} {plural(len(some), 'line that differs', 'lines that differ')}" for sign, some in both]
    lines = list(difflib.unified_diff(one, other, n=_CONTEXT, lineterm=""))[2:]
    return [f"{line[0]} {line[1:]}" for line in lines if not line.startswith("@@")]


async def submit_edit(
    jobs: JobQueue, job: Job, draft: Draft, author: Author, why: str = "", operations: Operations | None = None
) -> Edited:
    """Enqueue a new job of the same type from a draft; `operations`: those of the queue, unless they are restricted.

    Raises:
        OriginalChanged: the job is in another state by now.
        InvalidJob: the draft cannot become a job; nothing was written.
        QueueFull, QueueClosed: its queue refuses it; nothing was written.
        ReadOnly: `operations` lets nothing be changed.
        StoreUnavailable: nothing was enqueued, or it is not known whether it was.
    """
    try:
        payload = _written(draft.text, value_of(draft.text))
    except NotJson as error:
        raise InvalidJob(f"the payload is not JSON: {error.reason}") from None
    encode_payload(payload, jobs.settings.limits.payload)
    operations = jobs.operations if operations is None else operations
    now = await _unchanged_state(jobs, job)
    rules = jobs.settings.rules
    queue = ""

    async def enqueue() -> str:
        nonlocal queue
        handle = await jobs.enqueue(
            job.type,
            payload,
            queue=draft.queue,
            priority=draft.priority,
            max_retries=draft.max_retries,
            tags=list(draft.tags),
            headers=job.headers,
            ordering_key=key_in(rules, draft.queue, job.queue, job.ordering_key),
        )
        queue = handle.queue
        return handle.id

    new_id = await operations.record(OperationRequest("edit", f"{job.type} {job.id}", author, why), enqueue, [job.id])
    try:
        await operations.record(OperationRequest("edit", f"{job.type} {new_id}", author, why), _origin(job), [new_id])
    except QueueCoreError as error:
        return Edited(new_id, queue, now, f"it was enqueued, but has no note of where it came from: {error}")
    return Edited(new_id, queue, now)


async def _unchanged_state(jobs: JobQueue, job: Job) -> Status | None:
    """Return the state that a job is still in; None: it is not there any more."""
    try:
        now = (await jobs.inspector.get(job.id)).status
    except JobNotFound:
        return None
    if now != job.status:
        raise OriginalChanged(job.status, now)
    return now


def _origin(job: Job) -> Any:
    async def origin() -> str:
        return f"made from {job.id}"

    return origin


def _written(text: str, value: Any) -> Any:
    return Written(compact(text), value) if isinstance(value, dict) else value


def _lines(text: str) -> list[str]:
    try:
        value_of(text)
    except NotJson:
        return [safe(line, LONGEST_LINE) for line in text.splitlines()]
    return [safe(line, LONGEST_LINE) for line in pretty(text).splitlines()]


def _misfits(value: Any, type_: str, schema: dict[str, Any] | None) -> list[Problem]:
    if schema is None:
        return []
    try:
        return [Problem("error", sentence) for sentence in validate_payload(schema, value)]
    except SchemaUnusable as error:
        return [Problem("warning", f"the schema announced for the type '{safe(type_, 60)}' cannot be used: {error}")]


def _unchanged(draft: Draft, job: Job) -> list[Problem]:
    same = (draft.queue, draft.priority, draft.max_retries, draft.tags) == (
        job.queue,
        job.priority,
        job.max_retries,
        job.tags,
    )
    if same and pretty(draft.text) == draft_of(job).text:
        return [Problem("error", UNCHANGED)]
    return []


def _placed(severity: Severity, text: str, where: str, at: int | None) -> Problem:
    if at is None:
        return Problem(severity, text)
    line = where.count("\n", 0, at) + 1
    return Problem(severity, text, line, at - where.rfind("\n", 0, at))
