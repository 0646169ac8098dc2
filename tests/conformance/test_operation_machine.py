"""Operations of every store against the pure machine: any sequence of calls leaves both with the same record."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

import pytest

from queue_core.model import operation as machine
from queue_core.model.job import new_id
from queue_core.model.operation import MOVES, Author, Operation, OperationRecord, OperationRequest, Rollout
from tests.conformance.world import World

CALLS = 60
SLOW = 0.001
"""Members a second: a next step comes due only when time is passed on purpose."""
LONG = 100_000.0
"""Seconds in which each rate lets the next step be taken."""


@dataclass
class Pair:
    """An operation of a store, and the record that the machine has made of the same calls."""

    world: World
    chance: Random
    record: OperationRecord
    # what has happened, shown by a failure
    calls: list[str] = field(default_factory=list)
    # the members in their order: whether each is as it was frozen
    members: dict[str, bool] = field(default_factory=dict)
    now: float = 0.0

    @property
    def number(self) -> int:
        return self.record.view.number

    async def call(self) -> None:
        """Do anything to both, and compare what they answer."""
        every = (self.add, self.move, self.move, self.step, self.step, self.step, self.fail, self.release, self.touch,
                 self.wait)  # fmt: skip
        what = self.chance.choice(every)
        self.calls.append(what.__name__)
        await what()
        found = await self.world.operations.get(self.number)
        assert facts_of(found) == facts_of(self.record.view), self.calls

    async def add(self) -> None:
        ids = [(await self.world.ended("dead")).id for _ in range(self.chance.randint(0, 3))]
        ids += [new_id() for _ in range(self.chance.randint(0, 1))] + ids[:1]
        await self.world.operations.add(self.number, ids)
        new = dict.fromkeys(ids)
        if (added := machine.add(self.record, len(new), self.now)) is not None:
            self.record = added
            known = {job_id: True for job_id in ids}
            self.members |= {job_id: known[job_id] and await self.exists(job_id) for job_id in new}

    async def exists(self, job_id: str) -> bool:
        return await self.world.store.results([job_id]) != []

    async def move(self) -> None:
        state = self.chance.choice(list(MOVES))
        self.calls[-1] += f" {state}"
        moved = machine.move(self.record, state, f"to {state}", self.now)
        assert await self.world.operations.move(self.number, state, f"to {state}") == (moved is not None), self.calls
        self.record = moved or self.record

    async def step(self) -> None:
        most = self.chance.randint(0, 4)
        self.calls[-1] += f" {most}"
        members, wait = machine.next_members(self.record, most, self.now)
        done = self.record.view.done
        expected = [job_id for job_id, same in list(self.members.items())[done : done + members] if same]
        if members:
            self.record = machine.step(self.record, members, len(expected), self.now)
            self.members |= dict.fromkeys(expected, False)
            wait = max(0.0, self.record.next_at - self.now)
        step = await self.world.operations.step(self.number, most)
        assert list(step.changed.ids) == expected, self.calls
        assert step.wait == pytest.approx(wait, abs=60.0), self.calls
        assert facts_of(step.operation) == facts_of(self.record.view), self.calls

    async def fail(self) -> None:
        self.record = machine.fail_member(self.record, "no", self.now) or self.record
        assert facts_of(await self.world.operations.fail_member(self.number, "no")) == facts_of(self.record.view), (
            self.calls
        )

    async def release(self) -> None:
        # As another executor has seen it, too, which is late.
        barrier = self.chance.choice((self.record.view.barrier, self.record.view.barrier, 1))
        self.calls[-1] += f" {barrier}"
        passed = machine.pass_barrier(self.record, barrier, self.now)
        assert await self.world.operations.pass_barrier(self.number, barrier) == (passed is not None), self.calls
        self.record = passed or self.record

    async def touch(self) -> None:
        """Change a member as others do, so that it is not as it was frozen any more."""
        same = [job_id for job_id, same in self.members.items() if same]
        if same:
            job_id = self.chance.choice(same)
            assert (await self.world.change("retry", [job_id])).ids == (job_id,)
            self.members[job_id] = False

    async def wait(self) -> None:
        await self.world.advance(LONG)
        self.now += LONG


def facts_of(view: Operation) -> tuple[object, ...]:
    """Return what does not depend on a clock."""
    counts = (view.total, view.done, view.processed, view.skipped, view.errored, view.barrier)
    times = (view.started_at is not None, view.finished_at is not None)
    return (view.number, view.request, view.state, view.note, counts, times, view.waits_for, view.stage)


@pytest.mark.parametrize("seed", range(8))
async def test_any_calls_leave_what_the_machine_says(world: World, seed: int) -> None:
    chance = Random(seed)
    for _ in range(3):
        ramp = chance.choice(((), (1, 2), (2, 1, 3)))
        pace = Rollout(
            canary=0 if ramp else chance.choice((0, 1, 3)),
            rate=chance.choice((None, SLOW)),
            stop_percent=chance.choice((None, 20.0)),
            first_failure=chance.choice((False, True)),
            ramp=ramp,
            when_release=chance.choice((None, None, "r125")),
        )
        asked = OperationRequest("delete", "some", Author("ana", "bastion-1"), rollout=pace, signatures=("a", "b"))
        number = (await world.operations.create(asked)).number
        pair = Pair(world, chance, machine.begin(number, asked, 0.0))
        for _ in range(CALLS // 3):
            await pair.call()
