"""The only writer: submits plans, carries operations out in the background, and undoes its own ones."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TypeVar

from textual.message import Message

from jobconsole.actions import plan as plans
from jobconsole.actions.caution import cautions
from jobconsole.actions.edit import Draft, Edited, submit_edit
from jobconsole.actions.plan import REPORTED_IDS, REVERSIBLE, Plan, Report, Target, Verb
from jobconsole.actions.verbs import ImmediateActions, ScheduleVerb, Steer, Switched
from jobconsole.core.connection import Connection
from jobconsole.core.rows import LONGEST_NAME
from jobconsole.tui.base.messages import Finished, PlanReady, Progressed
from jobconsole.tui.base.states import SignatureStates, StatesChange
from jobconsole.tui.base.undo import Change, Kind, PausedChange, Remembered, SubmittedChange
from queue_core.client.operations import this_author
from queue_core.errors import OperationNotFound, OutcomeUnknown, QueueCoreError, ReadOnly, StoreUnavailable
from queue_core.model.job import Job
from queue_core.model.operation import Operation, WorkerOrder
from queue_core.model.report import JobStack
from queue_core.model.text import safe

T = TypeVar("T")

POLL_SECONDS = 1.0
"""Seconds at most between two looks for operations to carry out, and at this console's own ones."""
UNDONE = "takes it back"
"""The reason that an undo is noted with."""


class Operator:
    """Every change of this console goes through here; what it has submitted belongs to the store from then on."""

    def __init__(self, connection: Connection, read_only: bool, post: Callable[[Message], None]) -> None:
        self.read_only = read_only
        # what went wrong while operations were carried out, for the help screen; never ends the application
        self.problem = ""
        self._connection = connection
        self._post = post
        # plans that are being written, in the order in which that began
        self._writing: dict[int, Report] = {}
        # own operations that have not ended, by number
        self._own: dict[int, Report] = {}
        # own operation -> the state that `Finished` has reported
        self._reported: dict[int, str] = {}
        self._undo = Remembered()
        self._immediate = ImmediateActions(connection)
        self.states = SignatureStates(connection, self._undo, self._check)
        self._kick = asyncio.Event()

    @property
    def unchangeable(self) -> str:
        """Why nothing can be changed at the moment; "" when it can."""
        if self.read_only:
            return "this console is read-only"
        return self._connection.unusable

    @property
    def active(self) -> tuple[Report, ...]:
        """Operations of this console that are under way, the newest first."""
        going = (one for one in self._own.values() if one.operation is not None and one.operation.state == "running")
        return (*reversed(self._writing.values()), *reversed(tuple(going)))

    @property
    def undoable(self) -> Change | None:
        """What `undo` would take back."""
        return self._undo.last

    @property
    def taking_back(self) -> str:
        """What is being taken back, in words; "" when nothing is."""
        return self._undo.taking_back

    def left_behind(self, workers: bool) -> str:
        """Return what happens to own operations when the console is left; "" when none is under way."""
        if self._writing:
            report = next(iter(self._writing.values()))
            left = f"{report.written:,} of {len(report.plan.ids):,} jobs"
            return f"{report.plan.verb} is still saving ({left}); q again abandons it"
        if self.taking_back:
            return f"{self.taking_back} is still being undone; q again abandons it"
        # What was paused or stopped waits for a person anyway.
        going = [number for number, one in self._own.items() if one.operation and one.operation.state == "running"]
        numbers = [f"#{number}" for number in sorted(going)]
        if not numbers:
            return ""
        what = " and ".join(numbers) if len(numbers) < 3 else f"{', '.join(numbers[:-1])} and {numbers[-1]}"
        if workers:
            return f"q again leaves {what} to the workers"
        return f"q again leaves {what} waiting for a worker or a console: no worker is alive"

    # -- operations on jobs

    async def freeze(self, verb: Verb, target: Target) -> PlanReady:
        """Find out which jobs a verb will act on."""
        try:
            plan = await plans.plan(self._connection.jobs.inspector, verb, target)
        except (QueueCoreError, RuntimeError) as error:
            return PlanReady(target, None, str(error))
        return PlanReady(target, plan)

    async def run_plan(self, plan: Plan) -> None:
        """Submit a plan, and follow it from then on; it ends with `Finished`, whatever happens."""
        report = Report(plan)
        if self.read_only:
            self._post(Finished(replace(report, problem=str(ReadOnly(plan.verb)))))
            return
        submitted = SubmittedChange(plan.verb, plan.label)
        # From here on `undo` is about this one, and not about the one before.
        self._undo.add(submitted)
        self._writing[id(plan)] = report
        try:
            report = await plans.submit(
                self._connection.operations,
                plan,
                this_author(),
                lambda written: self._written(plan, submitted, written),
            )
        except Exception as error:  # noqa: BLE001 - an operation must end with a report, whatever happens
            text = str(error) if isinstance(error, QueueCoreError) else f"{type(error).__name__}: {error}"
            report = replace(report, problem=text)
        finally:
            del self._writing[id(plan)]
            submitted.failed = not submitted.number
            submitted.settled.set()
        if report.operation is None:
            self._undo.drop(submitted)
            self._post(Finished(report))
        else:
            self._follow(report, report.operation)

    async def run(self) -> None:
        """Take steps of all operations of the store, as workers do, and follow this console's own, until cancelled."""
        executor = None
        while True:
            self._kick.clear()
            wait = POLL_SECONDS
            if not self.unchangeable:
                try:
                    executor = executor or self._connection.operations.executor()
                    wait = min(wait, await executor.run_once())
                    await self._poll()
                except StoreUnavailable:
                    pass  # the refresher finds out, and reports it
                except Exception as error:  # noqa: BLE001 - it must not end the console; the help shows it
                    self.problem = f"operations: {type(error).__name__}: {error}"
            await self._rest(wait)

    async def take_back(self) -> str:
        """Undo the last thing that can be undone; returns a sentence, "" when `Finished` will report it.

        Two calls at one moment undo two things, unless the first one takes long: then the second one undoes nothing.

        Raises:
            StoreUnavailable: nothing was changed, it can be tried again.
        """
        if refusal := await self._undo.refusal():
            return refusal
        last, away = self._undo.last, False
        assert last is not None
        self._undo.taking_back = last.words
        try:
            return await self._reverse(last)
        except StoreUnavailable:
            away = True
            raise
        finally:
            if not away:
                self._undo.drop(last)
            self._undo.taken_back()

    async def _reverse(self, last: Change) -> str:
        await last.settled.wait()
        if last.failed:
            # That was reported already.
            return ""
        if isinstance(last, SubmittedChange):
            return await self._take_back(last)
        if isinstance(last, StatesChange):
            return await self.states.undo(last)
        assert isinstance(last, PausedChange)
        if overtaken := await self._immediate.overtaken(last.kind, last.what, last.note):
            return f"not undone: {overtaken}"
        return (await self._switch(last.kind, last.what, not last.paused, UNDONE)).words

    async def undo(self, number: int, verb: str, label: str) -> str:
        """Undo any operation, of this console or another; returns a sentence, "" when `Finished` will report it.

        Raises:
            ReadOnly, OperationNotFound, StoreUnavailable: nothing was changed.
        """
        self._check("op undo")
        self._undo.drop_operation(number)
        done = await self.states.undo_operation(number, verb, label)
        return done if done is not None else await self._take_back(SubmittedChange(verb, label, number))

    async def steer(self, number: int, verb: Steer) -> str:
        """Pause, resume or cancel any operation, of this console or another; returns a sentence.

        Raises:
            ReadOnly, OperationNotFound, StoreUnavailable: nothing was changed.
        """
        self._check(f"op {verb}")
        sentence = await self._pass(f"the {verb} of #{number}", self._immediate.steer(number, verb))
        self._kick.set()
        return sentence

    async def _pass(self, what: str, done: Awaitable[T]) -> T:
        """Carry out a change that cannot be taken back."""
        answer = await done
        self._undo.pass_by(what)
        return answer

    def _check(self, verb: str) -> None:
        if self.read_only:
            raise ReadOnly(verb)

    # -- what is done at once

    async def toggle_pause(self, queue: str, paused: bool, closed: bool = False) -> str:
        """Pause a queue that is not `paused`, resume one that is, open one that is `closed`; returns a sentence.

        Raises:
            QueueNotFound, StoreUnavailable: nothing was changed.
        """
        self._check("pause")
        if closed:
            await self._pass(f"the opening of {queue}", self._switch("queue", queue, False))
            return f"{safe(queue, LONGEST_NAME)} takes new jobs again"
        return (await self._switch_remembered("queue", queue, not paused)).undoable_words

    async def drain(self, queue: str, move_to: str | None, why: str) -> str:
        """Close a queue and drain it; returns a sentence.

        Raises:
            ReadOnly, QueueNotFound, InvalidArgument, StoreUnavailable: it was not closed by this.
            OutcomeUnknown: it may be closed, and then it is drained; `take_back` opens it.
        """
        self._check("queue drain")
        try:
            words, number = await self._immediate.drain(queue, move_to, why)
        except OutcomeUnknown as error:
            self._undo.add_written("drain", f"queue {queue}", error.number)
            raise
        self._undo.add_written("drain", f"queue {queue}", number)
        self._kick.set()
        return words

    async def edit(self, job: Job, draft: Draft, why: str) -> Edited:
        """Enqueue a new job from an edited one.

        Raises:
            ReadOnly, InvalidJob, QueueFull: nothing was enqueued.
            StoreUnavailable: nothing was enqueued, or it is not known whether it was.
        """
        self._check("edit")
        edited = submit_edit(self._connection.jobs, job, draft, this_author(), why, self._connection.operations)
        return await self._pass(f"the edit of {job.id}", edited)

    async def cautions(self, target: Target, plan: Plan) -> list[str]:
        """Return what to know before this plan is carried out, a sentence each.

        Raises:
            StoreUnavailable: the store did not answer in time.
        """
        return await cautions(self._connection.jobs.inspector, self._connection.operations, target, plan)

    async def stack(self, job_id: str) -> JobStack | None:
        """Ask the worker of a running job where that is; None: it does not run.

        Raises:
            ReadOnly, StoreUnavailable: nothing was asked.
        """
        self._check("job stack")
        return await self._connection.operations.ask_stack(job_id)

    async def order(self, worker: str, label: str, order: WorkerOrder) -> str:
        """Give a worker an order; returns a sentence.

        Raises:
            ReadOnly, StoreUnavailable: nothing was changed.
        """
        self._check(order)
        return await self._pass(f"the {order} of {label}", self._immediate.order(worker, label, order))

    async def schedule(self, name: str, verb: ScheduleVerb) -> str:
        """Pause, resume or trigger a schedule; returns a sentence.

        Raises:
            ReadOnly, ScheduleNotFound, StoreUnavailable: nothing was changed.
            QueueFull, InvalidJob: its job was not enqueued.
            ConfigurationError: this machine does not know its time zone.
        """
        self._check(f"schedule {verb}")
        if verb == "trigger":
            return await self._pass(f"the trigger of {name}", self._immediate.trigger(name))
        return (await self._switch_remembered("schedule", name, verb == "pause")).undoable_words

    async def _switch(self, kind: Kind, name: str, pause: bool, why: str = "") -> Switched:
        act = self._immediate.pause if kind == "queue" else self._immediate.pause_schedule
        return await act(name, pause, why)

    async def _switch_remembered(self, kind: Kind, name: str, pause: bool) -> Switched:
        """Pause or resume something, remembered from before it is done; not what fails or changes nothing."""
        change = PausedChange(kind, name, pause)
        change.failed = True
        self._undo.add(change)
        try:
            switched = await self._switch(kind, name, pause)
            change.note, change.failed = switched.note, not switched.changed
            return switched
        finally:
            if change.failed:
                self._undo.drop(change)
            change.settled.set()

    # -- following

    def _written(self, plan: Plan, submitted: SubmittedChange, report: Report) -> None:
        self._writing[id(plan)] = report
        submitted.number = report.number
        submitted.settled.set()
        self._post(Progressed(report))

    def _follow(self, report: Report, operation: Operation) -> None:
        """Report the progress of an operation of this console until it ends."""
        self._own[operation.number] = replace(report, operation=operation)
        self._post(Progressed(report))
        self._kick.set()

    async def _poll(self) -> None:
        """See how far own operations are."""
        for number, before in list(self._own.items()):
            try:
                operation = await self._connection.operations.get(number)
            except OperationNotFound:
                self._forget(number)
                continue
            report = replace(before, operation=operation)
            settled = operation.ended or operation.state == "stopped"
            if settled and self._reported.get(number) != operation.state:
                await self._settled(number, report, operation)
            elif operation != before.operation:
                self._own[number] = report
                self._post(Progressed(report))
            if not settled:
                self._reported.pop(number, None)

    async def _settled(self, number: int, report: Report, operation: Operation) -> None:
        """Report that an operation has ended or was stopped, with the jobs that it has changed."""
        report = replace(report, changed=tuple(await self._connection.operations.changed_ids(number, REPORTED_IDS)))
        self._own[number], self._reported[number] = report, operation.state
        if operation.ended:
            self._forget(number, keep=report.plan.verb in REVERSIBLE, done=operation.processed > 0)
        self._post(Finished(report))

    def _forget(self, number: int, keep: bool = False, done: bool = False) -> None:
        """Follow an operation no longer; without `keep` it cannot be taken back either."""
        self._own.pop(number, None)
        self._reported.pop(number, None)
        if not (keep and done):
            self._undo.drop_operation(number, done)

    async def _take_back(self, last: SubmittedChange) -> str:
        """Cancel an operation that has not ended; bring back what it did, where that is possible."""
        every = self._connection.operations
        if last.verb == "drain":
            back = await every.undo(last.number, this_author())
            for operation in (one for one in back if one.request.verb == "move"):
                self._follow(Report(Plan("move", last.label, ())), operation)
            return self._immediate.opened(last.words, last.label, back)
        text, ended = f"{last.words} has ended, and cannot be undone", (await every.get(last.number)).ended
        if not ended:
            await self._immediate.steer(last.number, "cancel", UNDONE)
            text = ""
        if last.verb not in REVERSIBLE or not (ended or (await every.get(last.number)).processed):
            # What was cancelled is reported as such, with what it had done by then.
            self._kick.set()
            return text
        back = await every.undo(last.number, this_author())
        for operation in back:
            plan = Plan("move" if last.verb == "move" else "restore", last.label, ())
            self._follow(Report(plan), operation)
        stays = "a priority change cannot be undone" if last.verb == "move" else "it had changed no jobs"
        return "" if back else f"there is nothing to bring back of #{last.number}: {stays}"

    async def _rest(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._kick.wait()
        except TimeoutError:
            return
