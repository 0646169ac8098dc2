"""One run: a fleet under load, faults one after the other, and what is left in the end."""

from __future__ import annotations

import asyncio
import random
import time
from bisect import bisect_left
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from queue_core import JobQueue
from queue_core.errors import QueueCoreError
from queue_core.model.filters import Filter
from queue_core.model.job import Job
from queue_core.model.settings import JobsSettings
from tests.faults.chaos.fleet import Fleet
from tests.faults.chaos.ground import Ground, ground
from tests.faults.chaos.rules import LEASE, QUEUES
from tests.faults.chaos.strikes import EVERY, Site, Strike, applicable
from tests.faults.chaos.verdict import Fault, Verdict, judge
from tests.faults.ledger import Reader

PART, WINDOW = 0.8, 1.0
"""Work is back when this part of the rate without faults was reached within so many seconds."""
BACK = 60.0
"""Seconds within which it has to be."""
SETTLED = 180.0
"""Seconds within which every job has to have ended once there are no faults any more."""
TOGETHER = 0.25
"""The part of the faults that come two at once."""
APART = ({"disk", "postgres"}, {"disk", "redis"}, {"pooler", "postgres"})
"""Kinds of faults that would undo each other."""
STARVED = 1.0
"""Seconds without any progress of this program after which the machine itself counts as a fault."""


@dataclass(frozen=True)
class Plan:
    """What is run."""

    mode: str
    topology: str = "single"
    minutes: float = 60.0
    seed: int = 1
    # jobs a second of all producers
    rate: float = 60.0
    # faults without faults before, seconds
    baseline: float = 10.0
    # names of the faults; empty: all that the mode can have
    only: tuple[str, ...] = ()
    # a worker, and a producer, instead of a fleet with a service
    small: bool = False


@dataclass
class Outcome:
    """What a run has shown."""

    plan: Plan
    faults: list[Fault] = field(default_factory=list)
    # name of a fault → seconds from its end until work was back
    back: dict[str, list[float]] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    baseline: float = 0.0
    rate: float = 0.0
    seconds: float = 0.0
    verdict: Verdict = field(default_factory=Verdict)


class Run:
    """The fleet, the ledger, and the hand that does the faults."""

    def __init__(self, plan: Plan, base: Ground, say: Callable[[str], None]) -> None:
        self._plan, self._ground, self._say = plan, base, say
        self._random = random.Random(plan.seed)
        self._folder = base.folder
        self._fleet = Fleet(base.folder, plan.seed, plan.rate / (1 if plan.small else 2))
        self._site = Site(base, self._fleet, self._random)
        self._reader = Reader(base.folder)
        self.outcome = Outcome(plan)

    async def __call__(self) -> Outcome:
        watching = asyncio.create_task(self._watch())
        try:
            await self._hire()
            self._say("measuring the rate without faults")
            await self._until_working()
            since = time.monotonic()
            await asyncio.sleep(self._plan.baseline)
            self.outcome.baseline = self._ended_since(since) / self._plan.baseline
            await self._trouble()
            await self._fleet.stop_producers()
            jobs, totals = await self._settled()
            watching.cancel()
            problems = self.outcome.verdict.problems + await self._fleet.drain()
            self.outcome.verdict = judge(self._reader.read(), jobs, totals, self.outcome.faults)
            self.outcome.verdict.problems += problems
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
            await self._fleet.close()
        return self.outcome

    # -- the fleet

    async def _hire(self) -> None:
        kinds = (
            ["worker", "worker", "producer"] if self._plan.small else ["worker", "worker", "service"] + 2 * ["producer"]
        )
        if self._ground.pooler is not None:
            kinds.append("worker")
        for place, kind in enumerate(kinds):
            wires = await self._ground.new_wires()
            pooled = self._ground.pooler is not None and kind == "worker" and place == len(kinds) - 1
            self._fleet.add(kind, self._ground.settings(wires, pooled), wires, self._ground.clock)

    async def _until_working(self) -> None:
        end = time.monotonic() + BACK
        workers = len(self._fleet.of("worker", "service"))
        while len({self._reader.ledger.units.get(run.pid) for run in self._reader.read().ends}) < workers:
            if time.monotonic() > end:
                raise AssertionError("\n".join(self._fleet.log(unit)[-2000:] for unit in self._fleet.units))
            await asyncio.sleep(0.1)

    async def _watch(self) -> None:
        """Start again what has ended by itself, and note when the machine gave this program no time."""
        while True:
            before = time.monotonic()
            await asyncio.sleep(0.1)
            after = time.monotonic()
            if after - before > STARVED:
                self.outcome.faults.append(Fault("the machine stood still", before, after, EVERY))
            self.outcome.verdict.problems += self._fleet.look()

    # -- the faults

    async def _trouble(self) -> None:
        ways = applicable(self._ground, self._plan.only)
        self.outcome.left_out = [] if self._ground.disk.can_be_filled else [f"full disk: {self._ground.disk.why_not}"]
        assert ways, "this mode has none of these faults"
        begun = time.monotonic()
        ends = begun + self._plan.minutes * 60
        # Each kind once in a random order, then again.
        ahead: list[Strike] = []
        while time.monotonic() < ends:
            ahead = ahead or self._random.sample(ways, len(ways))
            chosen = [ahead.pop()]
            other = self._random.choice(ways)
            if self._random.random() < TOGETHER and _go_together(chosen[0], other):
                chosen.append(other)
            self._say(" and ".join(one.name for one in chosen))
            await asyncio.gather(*(self._do(one) for one in chosen))
            await self._until_back([one.name for one in chosen])
            await asyncio.sleep(self._random.uniform(0.0, 2 * LEASE if self._plan.minutes > 2 else 1.0))
        self.outcome.seconds = time.monotonic() - begun
        self.outcome.rate = self._ended_since(begun) / self.outcome.seconds

    async def _do(self, one: Strike) -> None:
        begun = time.monotonic()
        # Until it is over, it counts as going on.
        units = await one.hit(self._site)
        self.outcome.faults.append(Fault(one.name, begun, time.monotonic(), units))

    async def _until_back(self, names: Sequence[str]) -> None:
        """Wait until jobs end at the usual rate again."""
        since = time.monotonic()
        enough = PART * self.outcome.baseline * WINDOW
        while True:
            ends = sorted(run.at for run in self._reader.read().ends[-4000:])
            for place in range(bisect_left(ends, since), len(ends)):
                if bisect_left(ends, ends[place] + WINDOW) - place >= enough:
                    for name in names:
                        self.outcome.back.setdefault(name, []).append(ends[place] - since)
                    return
            if time.monotonic() - since > BACK:
                self.outcome.verdict.problems.append(f"work was not back {BACK:g} s after {' and '.join(names)}")
                return
            await asyncio.sleep(0.1)

    def _ended_since(self, since: float) -> int:
        return sum(run.at >= since for run in self._reader.read().ends)

    # -- the end

    async def _settled(self) -> tuple[list[Job], dict[str, int]]:
        """Wait until every job has ended, and return all of them."""
        if self._ground.clock is not None:
            self._ground.clock.set(0.0)
        settings = JobsSettings.model_validate(self._ground.settings() | {"queues": QUEUES})
        end = time.monotonic() + SETTLED
        async with JobQueue(settings=settings) as jobs:
            while time.monotonic() < end:
                with suppress(QueueCoreError):
                    if (await jobs.inspector.conservation()).unfinished == 0:
                        break
                await asyncio.sleep(0.2)
            found: list[Job] = []
            cursor = None
            while True:
                page = await jobs.inspector.jobs(Filter(), 1000, cursor)
                found += page.jobs
                if (cursor := page.cursor) is None:
                    break
            totals = await jobs.inspector.conservation()
        return found, {"completed": totals.completed, "dead": totals.dead, "cancelled": totals.cancelled}


def _go_together(one: Strike, other: Strike) -> bool:
    domains = {one.domain, other.domain}
    return len(domains) == 2 and not any(apart <= domains for apart in APART)


async def run(plan: Plan, say: Callable[[str], None], keep: Path | None = None) -> Outcome:
    """Run a plan on servers of its own."""
    async with ground(plan.mode, plan.topology) as base:
        return await Run(plan, base, say)()
