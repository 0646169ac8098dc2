"""Steps of operations: the scripts that change jobs and the one that counts them, in one transaction.

Whatever becomes of it, the numbers are exact: the scripts mark what they have changed under the operation, and pass
over what is marked; the count moves `done` from where it was seen, so that of several executors one counts.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any, NamedTuple

from queue_core.errors import StoreUnavailable
from queue_core.operations import Operation
from queue_core.operations import Step as Taken
from queue_core.redis.scripts import Call
from queue_core.rules import Rules
from queue_core.stores.redis.hinting import Hints
from queue_core.stores.redis.link import Link, microseconds
from queue_core.stores.redis.marks import Members
from queue_core.stores.redis.operationrows import UNKNOWN, Member, mapped, operation_of
from queue_core.stores.redis.operationstates import state_keys
from queue_core.stores.redis.records import whole
from queue_core.stores.redis.verbs import LOOK, Outcome, Part, Seen, Step, Verbs, seen

TRIES = 5
"""Times that a step is tried whose jobs were elsewhere by then, or whose scripts a server did not know."""


ELSEWHERE = 250
"""Members of a step at most whose jobs go to another queue or priority: each takes as long as two others."""


class _Read(NamedTuple):
    """An operation as it was read."""

    view: Operation
    # us until its next step is due
    wait: int


class Stepping:
    """See queue_core.operations.OperationStore.step."""

    def __init__(self, link: Link, rules: Rules) -> None:
        self._link = link
        self._members = Members(link)
        self._verbs = Verbs(link, rules)
        self._hints = Hints(link)

    async def step(self, number: int, most: int) -> Taken:
        """Change the next members that are as they were frozen, and count all of them."""
        outcome = Outcome()
        for _ in range(TRIES):
            view, wait = await self._read(number)
            way = view.asked.way
            size = most if way.queue is None and way.priority is None else min(most, ELSEWHERE)
            count = min(max(size, 0), view.barrier - view.done)
            if view.state != "running" or count <= 0:
                return Taken(view, outcome.result())
            if wait > 0:
                return Taken(view, outcome.result(), wait / 1e6)
            members = await self._members.range(number, view.done, view.done + count - 1)
            step = Step(number, view.done, secrets.token_hex(8))
            parts = await self._parts(view, members, step)
            answer = await self._take(parts, self._count(step, members, len(parts)), outcome)
            if answer[0] >= 0:
                if way.later or view.asked.verb == "move":
                    await self._hints.waiting({part.target for part in parts})
                row = mapped(number, answer[1:])
                wait = whole(row.get("next_at")) - whole(row["updated_at"]) if answer[0] else 0
                changed = outcome.result([member.id for member in members])
                return Taken(operation_of(number, row), changed, max(0, wait) / 1e6)
        raise StoreUnavailable("redis", "it forgets its scripts all the time")

    async def _read(self, number: int) -> _Read:
        commands = self._link.batch()
        commands.hgetall(self._link.keys.operation(number))
        commands.time()
        row, time = await self._link.send(commands)
        view = operation_of(number, mapped(number, [part for pair in row.items() for part in pair]))
        return _Read(view, whole(row.get("next_at")) - microseconds(time))

    async def _parts(self, view: Operation, members: Sequence[Member], step: Step) -> list[Part]:
        """Return the scripts for those members that may be as they were frozen."""
        guesses = {one.id: one.queue for one in members if one.token != UNKNOWN}
        found = await self._link.find_near(guesses, LOOK)
        jobs: list[Seen] = []
        for place, member in enumerate(members, view.done):
            if member.id in found and member.token != UNKNOWN:
                job = seen(member.id, *found[member.id], place)
                # Tokens only grow: one that has another one does not come back to this one.
                if job.token == member.token:
                    jobs.append(job)
        return list(self._verbs.parts(view.asked.verb, jobs, view.asked.way, step))  # type: ignore[arg-type]

    def _count(self, step: Step, members: Sequence[Member], parts: int) -> Call:
        number = step.number
        keys = [*state_keys(self._link, number), self._link.keys.operation(number, "marks")]
        keys += self._link.keys.changes(member.id for member in members)
        return Call("operation_count", keys, [number, step.done, f"{step.name} {parts}" if parts else ""])

    async def _take(self, parts: Sequence[Part], count: Call, outcome: Outcome) -> list[Any]:
        """Run a step; return what the count has answered."""
        *answers, counted = await self._link.run_many([*(part.call for part in parts), count], together=True)
        for part, answer in zip(parts, answers, strict=True):
            outcome.take(part, answer)
        return list(counted)
