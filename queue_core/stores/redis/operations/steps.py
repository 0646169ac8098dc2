"""Steps of operations: the scripts that change jobs, and the one that counts them."""

from __future__ import annotations

import asyncio
import random
import secrets
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from queue_core.errors import StoreUnavailable
from queue_core.model.operation import Operation, StepResult
from queue_core.model.rules import Rules
from queue_core.redis.scripts import Call
from queue_core.stores.redis import change
from queue_core.stores.redis.change import STATE_FIELDS, ChangeOutcome, JobState, QueueBatch, StepKey, VerbScripts
from queue_core.stores.redis.hints import DueHints
from queue_core.stores.redis.operations.members import Members, state_keys
from queue_core.stores.redis.operations.transit import KEPT_SECONDS, run_batch
from queue_core.stores.redis.records import UNKNOWN, FrozenMember, mapped, operation_of, whole
from queue_core.stores.redis.session import RedisLink, microseconds

# Steps of operations: the scripts that change jobs and the one that counts them, in one transaction.
#
# Whatever becomes of it, the numbers are exact: the scripts mark what they have changed under the operation, and pass
# over what is marked; the count moves `done` from where it was seen, so that of several executors one counts.

STEP_TRIES = 5
"""Times that a step is tried whose jobs were elsewhere by then, or whose scripts a server did not know."""


MAX_MOVED_MEMBERS = 250
"""Members of a step at most whose jobs go to another queue or priority: each takes as long as two others."""


class _Read(NamedTuple):
    """An operation as it was read."""

    view: Operation
    # us until its next step is due
    wait: int


class OperationSteps:
    """See queue_core.ports.operations.OperationStore.step."""

    _reason, _tries = "it forgets its scripts all the time", STEP_TRIES

    def __init__(self, link: RedisLink, rules: Rules) -> None:
        self._link = link
        self._members = Members(link)
        self._verbs = VerbScripts(link, rules)
        self._hints = DueHints(link)

    async def step(self, number: int, most: int) -> StepResult:
        """Change the next members that are as they were frozen, and count all of them."""
        outcome = ChangeOutcome()
        for _ in range(self._tries):
            view, wait = await self._read(number)
            options = view.request.options
            size = most if options.queue is None and options.priority is None else min(most, MAX_MOVED_MEMBERS)
            count = min(max(size, 0), view.barrier - view.done)
            if view.state != "running" or count <= 0:
                return StepResult(view, outcome.result())
            if wait > 0:
                return StepResult(view, outcome.result(), wait / 1e6)
            counted, members = await self._take(view, count, outcome)
            if counted and counted[0] >= 0:
                if change.noted_as_waiting(view.request.verb, options):
                    await self._hints.waiting(outcome.targets)
                row = mapped(number, counted[1:])
                wait = whole(row.get("next_at")) - whole(row["updated_at"]) if counted[0] else 0
                changed = outcome.result([member.id for member in members])
                return StepResult(operation_of(number, row), changed, max(0, wait) / 1e6)
        raise StoreUnavailable("redis", self._reason)

    async def _take(
        self, view: Operation, count: int, outcome: ChangeOutcome
    ) -> tuple[Sequence[Any], Sequence[FrozenMember]]:
        """Change the next members and count them; return the answer to the count, and the members."""
        members = await self._members.range(view.number, view.done, view.done + count - 1)
        step = StepKey(view.number, view.done, secrets.token_hex(8))
        parts = await self._parts(view, members, step)
        calls = [*(part.call for part in parts), self._count(step, members, len(parts))]
        *answers, counted = await self._link.run_many(calls, together=True)
        for part, answer in zip(parts, answers, strict=True):
            outcome.take(part, answer)
        return counted, members

    async def _read(self, number: int) -> _Read:
        commands = self._link.batch()
        commands.hgetall(self._link.keys.operation(number))
        commands.time()
        row, time = await self._link.send(commands)
        view = operation_of(number, mapped(number, [part for pair in row.items() for part in pair]))
        return _Read(view, whole(row.get("next_at")) - microseconds(time))

    async def _parts(self, view: Operation, members: Sequence[FrozenMember], step: StepKey) -> list[QueueBatch]:
        """Return the scripts for those members that may be as they were frozen."""
        guesses = {one.id: one.queue for one in members if one.token != UNKNOWN}
        found = await self._link.find_near(guesses, STATE_FIELDS)
        jobs: list[JobState] = []
        for place, member in enumerate(members, view.done):
            if member.id in found and member.token != UNKNOWN:
                job = change.state_of(member.id, *found[member.id], place)
                # Tokens only grow: one that has another one does not come back to this one.
                if job.token == member.token:
                    jobs.append(job)
        return list(self._verbs.parts(view.request.verb, jobs, view.request.options, step))  # type: ignore[arg-type]

    def _count(self, step: StepKey, members: Sequence[FrozenMember], parts: int) -> Call:
        number = step.number
        keys = [*state_keys(self._link, number), self._link.keys.operation(number, "changed")]
        keys += self._link.keys.operations_of(member.id for member in members)
        return Call("operation_count", keys, [number, step.done, f"{step.name} {parts}" if parts else ""])


TRIES_APART, MAX_TRY_PAUSE = 20, 0.05
"""The same on a cluster, and the most seconds between two tries: executors of one step disturb each other."""


class SlotSteps(OperationSteps):
    """Steps on a cluster, where no transaction reaches the queues and the operation.

    Changes are marked beside each queue. Before they are counted every queue is sealed: an executor that is late
    changes nothing there any more, and all of them read the same marks.
    """

    _reason, _tries = "jobs of the step are on their way between queues", TRIES_APART

    async def _take(
        self, view: Operation, count: int, outcome: ChangeOutcome
    ) -> tuple[Sequence[Any], Sequence[FrozenMember]]:
        own = self._link.keys.operation
        # All executors of a step take as many members.
        count = int(await self._link.run("step_size", [own(view.number)], [view.done, count]))
        if count <= 0:
            return (), ()
        members = await self._members.range(view.number, view.done, view.done + count - 1)
        step = StepKey(view.number, view.done, secrets.token_hex(8))
        options = view.request.options
        queues = dict.fromkeys([*(one.queue for one in members if one.queue), *filter(None, [options.queue])], 0)
        parts = await self._parts(view, members, step)
        queues |= dict(Counter(part.queue for part in parts))
        await self._link.run_many(
            [Call("step_open", self._beside(queue, step), [step.done, KEPT_SECONDS]) for queue in queues]
        )
        for part in parts:
            outcome.take(part, await run_batch(self._link, part.call, part.transit))
        if not await self._all_ran(queues, step):
            # Another executor is at it, or a job has moved.
            await asyncio.sleep(random.uniform(0.0, MAX_TRY_PAUSE))
            return (), ()
        calls = [Call("step_seal", self._beside(queue, step), [step.done, count]) for queue in queues]
        found = await self._link.run_many(calls)
        marks = "".join("1" if any(one[place : place + 1] == "1" for one in found) else "0" for place in range(count))
        mark = Call("step_mark", [own(view.number, "changed")], [step.done, marks])
        # Before the count: the marks are the same whichever executor writes them.
        await self._link.run_many([mark])
        (counted,) = await self._link.run_many([self._count(step, members, 0)])
        return counted, members

    def _beside(self, queue: str, step: StepKey) -> list[str]:
        return self._link.of(queue, change.step_names(step))

    async def _all_ran(self, queues: Mapping[str, int], step: StepKey) -> bool:
        """Return whether every part has run on jobs that were where they had been seen, or the step is sealed."""
        commands = self._link.batch()
        for queue in queues:
            commands.hmget(self._beside(queue, step)[0], ["done", "step"])
        rows = zip(queues.values(), await self._link.send(commands) if queues else (), strict=True)
        return all(not parts or done != str(step.done) or ran == f"{step.name} {parts}" for parts, (done, ran) in rows)


def make_steps(link: RedisLink, rules: Rules) -> OperationSteps:
    """Return what takes the steps of operations on this server, or cluster."""
    return (SlotSteps if link.apart else OperationSteps)(link, rules)
