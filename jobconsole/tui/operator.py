"""The only writer: freezes what was chosen, carries it out, and remembers how to take it back."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from textual.message import Message

from jobconsole.core import operations
from jobconsole.core.connection import Connection
from jobconsole.core.operations import Plan, Report, Target, Verb
from jobconsole.tui.messages import Finished, Planned, Progressed
from queue_core.errors import QueueCoreError, ReadOnly, StoreUnavailable

Order = Literal["quiet", "resume", "stop"]

REMEMBERED = 50
"""Operations that can be taken back."""


@dataclass(frozen=True, slots=True)
class Paused:
    """A queue was paused or resumed by this console."""

    queue: str
    # what it was made
    paused: bool


class Operator:
    """Plan and apply, one operation after the other; every change of this console goes through here."""

    def __init__(self, connection: Connection, read_only: bool, tell: Callable[[Message], None]) -> None:
        self.read_only = read_only
        # the operation that is under way
        self.active: Report | None = None
        self._connection = connection
        self._tell = tell
        self._turn = asyncio.Lock()
        self._undo: deque[Plan | Paused] = deque(maxlen=REMEMBERED)

    @property
    def unchangeable(self) -> str:
        """Why nothing can be changed at the moment; "" when it can."""
        if self.read_only:
            return "this console is read-only"
        if not self._connection.usable:
            return f"{self._connection.store.name} cannot be reached"
        return ""

    @property
    def undoable(self) -> str:
        """What `undo` would take back; "" when there is nothing."""
        if not self._undo:
            return ""
        last = self._undo[-1]
        if isinstance(last, Plan):
            return f"the delete of {len(last.ids):,} {'job' if len(last.ids) == 1 else 'jobs'}"
        return f"the {'pause' if last.paused else 'resume'} of {last.queue}"

    async def freeze(self, verb: Verb, target: Target) -> Planned:
        """Find out which jobs a verb will act on."""
        try:
            plan = await operations.plan(self._connection.jobs.inspector, verb, target)
        except (QueueCoreError, RuntimeError) as error:
            return Planned(target, None, str(error))
        return Planned(target, plan)

    async def carry_out(self, plan: Plan) -> None:
        """Apply a plan, telling its progress; it ends with `Finished`, whatever happens."""
        if self.read_only:
            self._end(Report(plan, errored=len(plan.ids), problem=str(ReadOnly(plan.verb)), finished=True))
            return
        async with self._turn:
            self.active = Report(plan)
            try:
                report = await operations.apply(self._connection.control, plan, self._progress)
            except Exception as error:  # noqa: BLE001 - an operation must end with a report, whatever happens
                report = Report(plan, errored=len(plan.ids), problem=f"{type(error).__name__}: {error}", finished=True)
            self._end(report)

    async def take_back(self) -> str:
        """Undo the last operation that can be undone; returns a sentence, "" when `Finished` will say it.

        Raises:
            StoreUnavailable: nothing was changed, it can be tried again.
        """
        if not self._undo:
            return "nothing to undo: a retry runs the jobs, and that cannot be taken back"
        last = self._undo.pop()
        if isinstance(last, Plan):
            await self.carry_out(last)
            return ""
        try:
            return await self._set_paused(last.queue, not last.paused)
        except StoreUnavailable:
            self._undo.append(last)
            raise

    async def toggle_pause(self, queue: str, paused: bool) -> str:
        """Pause a queue that is not `paused`, resume one that is; returns a sentence.

        Raises:
            QueueNotFound, StoreUnavailable: nothing was changed.
        """
        if self.read_only:
            raise ReadOnly("pause")
        sentence = await self._set_paused(queue, not paused)
        self._undo.append(Paused(queue, not paused))
        return sentence

    async def order(self, worker: str, label: str, order: Order) -> str:
        """Give a worker an order; returns a sentence.

        Raises:
            ReadOnly, StoreUnavailable: nothing was changed.
        """
        if self.read_only:
            raise ReadOnly(order)
        done = await self._connection.control.command(worker, order)
        words = {"quiet": "claims no more jobs", "resume": "claims jobs again", "stop": "finishes its jobs and ends"}
        return f"{label} {words[order]} from its next heartbeat on" if done else f"{label} is gone"

    async def _set_paused(self, queue: str, pause: bool) -> str:
        control = self._connection.control
        changed = await (control.pause(queue) if pause else control.resume(queue))
        state = "paused" if pause else "running again"
        return f"{queue} is {state}" if changed else f"{queue} was {state} already"

    def _progress(self, report: Report) -> None:
        self.active = report
        self._tell(Progressed(report))

    def _end(self, report: Report) -> None:
        self.active = None
        undo = operations.undo_of(report)
        if undo is not None:
            self._undo.append(undo)
        elif report.plan.verb == "restore" and report.errored:
            # What could not be brought back stays undoable.
            done = set(report.changed)
            self._undo.append(replace(report.plan, ids=tuple(one for one in report.plan.ids if one not in done)))
        self._tell(Finished(report))


def sentence(report: Report) -> str:
    """Return what an operation did, for people."""
    done = {"retry": "retried", "delete": "deleted", "restore": "restored", "cancel": "cancelled"}[report.plan.verb]
    parts = [f"{done} {report.processed:,} {'job' if report.processed == 1 else 'jobs'}"]
    if report.plan.verb == "retry" and report.plan.spread and report.processed:
        parts.append(f"spread over {report.plan.spread:.0f} s")
    if report.skipped:
        parts.append(f"skipped {report.skipped:,} that had changed meanwhile")
    if report.errored:
        parts.append(f"{report.errored:,} not done: {report.problem}")
    if report.plan.verb == "delete" and report.processed:
        parts.append("u brings them back" if report.processed > 1 else "u brings it back")
    return ", ".join(parts)
