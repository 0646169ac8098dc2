"""A store that is never at rest: producers, workers that die, schedules that come and go, other operators."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from random import Random

from queue_core import JobQueue, QueueClosed
from queue_core.model.filters import Filter, Term
from queue_core.model.operation import MemberVerb
from tests.conformance.making import failure, held
from tests.conformance.world import World
from tests.tui.plans import NIGHTLY, announce, tick
from tests.tui.scenes import crm, disk, smtp

QUEUES = ("crm", "images", "mail", "reports")
TYPES = ("report", "resize_image", "send_email", "sync_crm")
PAUSE_SECONDS = 0.03


class Bustle:
    """One change a step, by the store's own verbs and by the operators'."""

    def __init__(self, jobs: JobQueue, world: World, chance: Random) -> None:
        self._jobs, self._world, self._chance = jobs, world, chance
        self.steps = 0
        self._kinds = (self._arrive, self._arrive, self._work, self._work, self._plan, self._operate, self._beat)

    async def step(self) -> None:
        """Change something; the console may have closed a queue."""
        self.steps += 1
        with suppress(QueueClosed):
            await self._chance.choice(self._kinds)()

    async def _arrive(self) -> None:
        delay = 3600.0 if self._chance.random() < 0.2 else 0.0
        await self._jobs.enqueue_many(
            self._chance.choice(TYPES),
            [{"n": number} for number in range(self._chance.randint(1, 9))],
            queue=self._chance.choice(QUEUES),
            delay=delay,
            max_retries=self._chance.randint(0, 3),
        )

    async def _work(self) -> None:
        """Some are claimed; of those some stay running, report progress, or end somehow."""
        world, chance = self._world, self._chance
        for claim in await world.claim(chance.randint(1, 6), queue=chance.choice(QUEUES), types=TYPES):
            luck = chance.random()
            if luck < 0.3:
                await world.beat(held(claim, chance.randint(0, 100), "\x1b[2J half way"))
                continue
            why = chance.choice((smtp(), disk(), crm(), failure("boom [/x]", signature=f"{chance.randrange(9):012x}")))
            kind = "completed" if luck < 0.5 else chance.choice(("dead", "dead", "retrying", "released"))
            await world.settle(claim, kind, **({"failure": why} if kind in {"dead", "retrying"} else {}))

    async def _plan(self) -> None:
        chance, schedules = self._chance, self._jobs.schedule_store
        name = f"plan-{chance.randrange(6)}"
        known = {one.schedule.name for one in (await schedules.planning()).schedules}
        if name not in known:
            await announce(self._jobs, NIGHTLY._replace(name=name), chance.randint(-60, 90))
        elif chance.random() < 0.2:
            await schedules.remove(name)
        elif chance.random() < 0.3:
            await schedules.pause(name)
        else:
            await tick(self._jobs, name, with_job=chance.random() < 0.8)

    async def _operate(self) -> None:
        """Somebody else acts on the same jobs."""
        chance, operations = self._chance, self._jobs.operations
        dead = await self._jobs.inspector.ids(Filter((Term("status", "=", "dead"),)), 20)
        some = chance.sample(dead, min(len(dead), chance.randint(0, 5)))
        verbs: tuple[MemberVerb, ...] = ("retry", "delete", "purge")
        await operations.change(chance.choice(verbs), some)
        queue = chance.choice(QUEUES)
        if queue in {one.name for one in (await self._jobs.inspector.overview()).queues}:
            await (operations.pause_queue(queue) if chance.random() < 0.2 else operations.resume_queue(queue))

    async def _beat(self) -> None:
        await self._world.beat(worker=f"worker-{self._chance.randrange(4)}", quiet=self._chance.random() < 0.2)


@asynccontextmanager
async def bustling(jobs: JobQueue, world: World, seed: int) -> AsyncIterator[Bustle]:
    """Have things happen until the end; what goes wrong with them is raised there."""
    bustle, over = Bustle(jobs, world, Random(seed)), asyncio.Event()

    async def go_on() -> None:
        while not over.is_set():
            await bustle.step()
            await asyncio.sleep(PAUSE_SECONDS)

    going = asyncio.ensure_future(go_on())
    try:
        yield bustle
    finally:
        over.set()
        await going
