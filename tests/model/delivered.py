"""Traces on a store with a dispatcher beside it: the ready set has what the model says, and claims come out of it."""

from __future__ import annotations

import asyncio
from typing import Any

from queue_core.delivery.audit import DeliveryAudit
from queue_core.delivery.redis_dispatcher import RedisDispatcher
from queue_core.model.job import Ready
from tests.conformance.making import worker_beat
from tests.conformance.world import World
from tests.model.model import Jobs, Step
from tests.model.replay import Replay

ANNOUNCER = "announcer"
"""The worker that has the types of all jobs: heads of others are not offered."""
TAKES = frozenset({"claim", "claim, answer lost", "claim, sent", "claim of one that is gone"})


class DeliveredReplay(Replay):
    """One trace with delivery."""

    def __init__(self, world: World, name: str, jobs: Jobs, dispatcher: RedisDispatcher) -> None:
        super().__init__(world, name, jobs)
        self._dispatcher = dispatcher
        self._audits = DeliveryAudit(world.store, dispatcher)
        # of each job, the rank that it was offered with last
        self._ranks: dict[str, int] = {}

    async def _ready(self, *ready: Ready) -> None:
        offered = [one for one in ready if one.rank is not None]
        self._ranks |= {one.id: one.rank for one in offered}
        await self._dispatcher.offer(offered)

    async def _deliver(self, step: Step) -> None:
        if step.name == "offer lost":
            assert step.job is not None
            await self._dispatcher.forget(self._queue, [self._ids[step.job]])
        if step.name in TAKES:
            assert step.job is not None
            taken = await self._dispatcher.take([self._queue], 10, 0.01)
            assert taken is not None
            assert self._ids[step.job] in taken[1]
            others = [one for one in taken[1] if one != self._ids[step.job]]
            await self._dispatcher.offer([Ready(one, self._queue, self._ranks[one]) for one in others])

    async def _audit(self) -> None:
        heart = self._hearts.setdefault(ANNOUNCER, self._world.store.open_heartbeat())
        await asyncio.to_thread(heart.renew, worker_beat(worker=ANNOUNCER, queues=(self._queue,)))
        await self._audits.run_once()
        for job_id in self._ids:
            if await self._world.store.results([job_id]):
                self._ranks.setdefault(job_id, 0)

    async def _compare(self) -> None:
        await super()._compare()
        client: Any = self._dispatcher._client
        found = await client.zrange(self._dispatcher._keys.of(self._queue, "pending"), 0, -1)
        ready = {one.decode() if isinstance(one, bytes) else one for one in found}
        # More may be there: what ended while it was offered stays until it is taken.
        assert {self._ids[place] for place, offered in enumerate(self.state.offered) if offered} <= ready
