"""The results of operator verbs as text, and the changes that are made at once."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Literal, NamedTuple

from jobconsole.actions.plan import REVERSIBLE, Report
from jobconsole.core.connection import Connection
from jobconsole.core.rows import LONGEST_NAME
from jobconsole.format.humanize import plural
from jobconsole.format.words import IMMEDIATE, WORDS, Kind, not_opened
from queue_core.client.operations import this_author
from queue_core.model.operation import Operation, OperationRequest, OperationVerb, WorkerOrder
from queue_core.model.text import safe


def sentence(report: Report) -> str:
    """Return the results of an operation as text."""
    operation, past = report.operation, WORDS[report.plan.verb].past
    if operation is None:
        return f"nothing was {past}: {report.problem}"
    name = f"{report.plan.verb} #{operation.number}"
    if operation.state == "stopped":
        return f"{name} stopped: {safe(operation.note)}; (4) P resumes, X ends it"
    if operation.state == "cancelled" and operation.started_at is None:
        return f"{name} was cancelled while it was being written: nothing was {past}"
    if operation.state == "cancelled":
        rest = plural(operation.total - operation.done, "job")
        return f"{name} was cancelled: {past} {plural(report.processed, 'job')}, left {rest} as they are"
    if operation.state == "failed":
        return f"{name} failed: {safe(operation.note)}"
    parts = [f"{past} {plural(report.processed, 'job')}"]
    if report.skipped:
        parts.append(f"skipped {report.skipped:,} that had changed meanwhile")
    if report.errored:
        parts.append(f"{report.errored:,} not done: {safe(operation.note)}")
    if report.plan.verb in REVERSIBLE and report.processed:
        parts.append("u undoes it")
    return ", ".join(parts)


def tone_of(report: Report) -> str:
    """Return how good that is."""
    operation = report.operation
    if operation is None or report.errored or operation.state in {"stopped", "failed"}:
        return "bad"
    return "good" if report.processed and operation.state == "done" else "warn"


ScheduleVerb = Literal["pause", "resume", "trigger"]
Steer = Literal["pause", "resume", "cancel"]

RECENT = 100
"""Operations among which is looked for what others have done since."""


class Switched(NamedTuple):
    """The result of pausing or resuming something."""

    words: str
    # False: it was so already
    changed: bool
    # the number of its note
    note: int

    @property
    def undoable_words(self) -> str:
        """The words, and the key that undoes it."""
        return f"{self.words}, u undoes it" if self.changed else self.words


class ImmediateActions:
    """Each method returns a sentence, and raises what its change raises: then nothing was changed."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        # of this console, in the order in which they were begun
        self._notes: deque[int] = deque(maxlen=RECENT)

    async def pause(self, queue: str, pause: bool, why: str = "") -> Switched:
        """Pause a queue, or resume it."""
        operations = self._connection.operations
        change = operations.pause_queue if pause else operations.resume_queue
        return await self._switched("queue", queue, change, pause, why)

    async def drain(self, queue: str, move_to: str | None, why: str = "") -> tuple[str, int]:
        """Close a queue and drain it; return a sentence, and the number of the operation."""
        operation = await self._connection.operations.drain_queue(queue, move_to, why=why)
        self._notes.append(operation.number)
        left = f"#{operation.number} drains {plural(operation.total, 'job')}" if operation.total else "it is empty"
        words = f"{safe(queue, LONGEST_NAME)} {IMMEDIATE['queue', 'drain'].becomes}: {left}; P or u opens it"
        return words, operation.number

    def opened(self, drain: str, label: str, back: Sequence[Operation]) -> str:
        """Return what the undo of a drain came to, by the operations that it has made."""
        self._notes.extend(one.number for one in back)
        return f"{safe(label, LONGEST_NAME)} takes new jobs again" if back else not_opened(drain, label)

    async def trigger(self, schedule: str) -> str:
        """Enqueue the job of a schedule now."""

        async def act() -> str:
            return f"enqueued job {(await self._connection.schedules.trigger(schedule)).id}"

        await self._connection.schedules.get(schedule)  # one that is gone leaves no record
        becomes = IMMEDIATE["schedule", "trigger"].becomes
        return f"{schedule} {becomes}: {(await self._recorded('trigger', f'schedule {schedule}', act))}"

    async def pause_schedule(self, name: str, pause: bool, why: str = "") -> Switched:
        """Pause a schedule, or let it tick again."""
        schedules = self._connection.schedules
        return await self._switched("schedule", name, schedules.pause if pause else schedules.resume, pause, why)

    async def overtaken(self, kind: Kind, name: str, note: int) -> str:
        """Return who has paused, resumed or drained something after a note of this console; "" when no one has."""
        for one in await self._connection.operations.list_operations(RECENT):
            if one.number <= note:
                break
            about = one.request.label == f"{kind} {name}" and one.request.verb in {"pause", "resume", "drain"}
            # One with a note of its own changed nothing, or failed.
            made = one.state == "done" or (one.request.verb == "drain" and one.state == "running")
            if about and made and not one.note and one.number not in self._notes:
                past = IMMEDIATE[kind, one.request.verb].past
                user = safe(one.request.author.user, LONGEST_NAME)
                return f"{user} has {past} {safe(name, LONGEST_NAME)} since (#{one.number})"
        return ""

    async def order(self, worker: str, label: str, order: WorkerOrder) -> str:
        """Give a worker an order, which its next heartbeat brings."""

        async def act() -> str:
            return "" if await self._connection.operations.command(worker, order) else "it was gone"

        gone = await self._recorded(order, f"worker {label}", act)
        return (
            f"{label} is gone" if gone else f"{label} {IMMEDIATE['worker', order].becomes} from its next heartbeat on"
        )

    async def steer(self, number: int, verb: Steer, why: str = "") -> str:
        """Pause, resume or cancel any operation, of this console or another; returns a sentence."""
        change = getattr(self._connection.operations, verb)

        async def act() -> str:
            return "" if await change(number) else "too late: it has ended"

        late = await self._recorded(verb, f"operation #{number}", act, why)
        return f"#{number}: {late}" if late else f"#{number} {IMMEDIATE['operation', verb].becomes}"

    async def _switched(
        self, kind: Kind, name: str, change: Callable[[str], Awaitable[bool]], pause: bool, why: str
    ) -> Switched:
        verb: OperationVerb = "pause" if pause else "resume"
        words, numbers = IMMEDIATE[kind, verb], list[int]()

        async def act() -> str:
            return "" if await change(name) else f"it {words.already}"

        if await self._recorded(verb, f"{kind} {name}", act, why, numbers):
            return Switched(f"{name} {words.already}", False, numbers[0])
        return Switched(f"{name} {words.becomes}", True, numbers[0])

    async def _recorded(
        self,
        verb: OperationVerb,
        label: str,
        act: Callable[[], Awaitable[str]],
        why: str = "",
        numbers: list[int] | None = None,
    ) -> str:
        def on_record(number: int) -> None:
            self._notes.append(number)
            if numbers is not None:
                numbers.append(number)

        request = OperationRequest(verb, label, this_author(), why)
        return await self._connection.operations.record(request, act, on_record=on_record)
