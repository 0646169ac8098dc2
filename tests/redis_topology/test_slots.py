"""The store of mode redis on a cluster: what has to reach two slots ends, wherever it is interrupted."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from queue_core.errors import QueueFull, StoreUnavailable
from queue_core.model.filters import Filter
from queue_core.model.operation import Author, ChangeOptions, OperationRequest, Rollout
from queue_core.model.rules import QueueRules, Rules
from queue_core.model.settings import RedisSettings
from queue_core.ports.store import ClaimRequest
from queue_core.redis.scripts import Call
from queue_core.stores.redis.operations.store import RedisOperations
from queue_core.stores.redis.operations.transit import ABANDONED_MOVE_US, end_moves
from queue_core.stores.redis.read import RedisInspector
from queue_core.stores.redis.session import RedisLink
from queue_core.stores.redis.store import RedisStore
from tests.conformance.making import new_job, outcome
from tests.redis_topology.rig import Cluster

QUEUES = ["q0", "q1", "q2", "q3"]


class Stores:
    """The parts of the store that these tests look at."""

    def __init__(self, cluster: Cluster, prefix: str, rules: Rules | None = None) -> None:
        settings = RedisSettings.model_validate({"url": cluster.url, "prefix": prefix, "timeout": 10})
        self.store = RedisStore(settings, rules=rules)
        self.operations = RedisOperations(settings, rules)
        self.inspector = RedisInspector(settings, rules)
        self.link = RedisLink(settings)

    async def queues(self) -> dict[str, str]:
        """Return the queue of each job."""
        return {job.id: job.queue for job in (await self.inspector.jobs(Filter(), 100)).jobs}

    async def insert(self) -> list[str]:
        """Write two jobs in each queue, and return the ids."""
        jobs = [new_job(queue=queue) for queue in QUEUES for _ in range(2)]
        await self.store.insert(jobs)
        return [job.id for job in jobs]

    async def close(self) -> None:
        """Disconnect."""
        for part in (self.store, self.operations, self.inspector, self.link):
            await part.close()


@asynccontextmanager
async def opened(cluster: Cluster, prefix: str, rules: Rules | None = None) -> AsyncIterator[Stores]:
    """Open the parts of a store."""
    stores = Stores(cluster, prefix, rules)
    await stores.store.open()
    try:
        yield stores
    finally:
        await stores.close()


class Breaking:
    """Lets so many calls of scripts through, and then none: as a process that is killed."""

    def __init__(self, link: RedisLink, calls: int) -> None:
        self._run_many = link.run_many
        self._left = calls
        link.run_many = self.run_many  # type: ignore[method-assign]
        self.broken = False

    async def run_many(self, calls: Sequence[Call], together: bool = False) -> list[Any]:
        """Run scripts, or fail."""
        self._left -= 1
        if self._left < 0:
            self.broken = True
            raise StoreUnavailable("redis", "killed")
        return await self._run_many(calls, together)


async def test_a_move_that_is_interrupted_is_carried_to_its_end(cluster: Cluster, redis_prefix: str) -> None:
    async with opened(cluster, redis_prefix) as stores:
        ids = await stores.insert()
        for master in cluster.masters():
            master.ask("SCRIPT", "FLUSH")
        target, calls, broken = 0, 0, True
        while broken:
            target = (target + 1) % len(QUEUES)
            operations = stores.operations
            breaking = Breaking(operations._link, calls)
            try:
                await operations.change("move", ids, ChangeOptions(queue=QUEUES[target]))
            except StoreUnavailable:
                pass
            finally:
                operations._link.run_many = breaking._run_many  # type: ignore[method-assign]
            broken, calls = breaking.broken, calls + 1
            _, now = await stores.link.queues_and_time()
            await end_moves(stores.link, QUEUES, now)  # not yet: another process may be at it
            await end_moves(stores.link, QUEUES, now + 2 * ABANDONED_MOVE_US)
            assert sorted(await stores.queues()) == sorted(ids)
            assert (await stores.inspector.conservation()).unfinished == len(ids)
            await stores.operations.change("move", ids, ChangeOptions(queue=QUEUES[target]))
            assert set((await stores.queues()).values()) == {QUEUES[target]}
        assert calls > 6
        left = [key for master in cluster.masters() for key in master.ask("KEYS", f"{redis_prefix}*transit*")]
        assert [key for key in left if not key.endswith((":done", ":seq"))] == []


class Late(Breaking):
    """Lets another process carry moves to their end before any call of scripts goes out: as one that was frozen."""

    def __init__(self, link: RedisLink, other: RedisLink) -> None:
        super().__init__(link, 0)
        self._other = other

    async def run_many(self, calls: Sequence[Call], together: bool = False) -> list[Any]:
        """Run scripts."""
        _, now = await self._other.queues_and_time()
        await end_moves(self._other, QUEUES, now + 2 * ABANDONED_MOVE_US)
        return await self._run_many(calls, together)


@pytest.mark.parametrize("dead", [False, True])
async def test_a_move_that_begins_when_others_have_given_it_up_moves_nothing(
    cluster: Cluster, redis_prefix: str, dead: bool
) -> None:
    """Its process was frozen, or cut off, between the note of the move and its beginning."""
    async with opened(cluster, redis_prefix) as stores:
        ids = await stores.insert()
        if dead:
            for queue in QUEUES:
                claims = await stores.store.claim(ClaimRequest(queue, "worker", None, 10, 60.0))
                await stores.store.settle([outcome(claim, "dead") for claim in claims])
        before = await stores.queues()
        operations = stores.operations
        late = Late(operations._link, stores.link)
        changed = await operations.change("move", ids, ChangeOptions(queue=QUEUES[0]))
        operations._link.run_many = late._run_many  # type: ignore[method-assign]
        assert sorted(await stores.queues()) == sorted(ids), "none is lost"
        assert (changed.ids, await stores.queues()) == ((), before)
        await operations.change("move", ids, ChangeOptions(queue=QUEUES[0]))
        assert await stores.queues() == dict.fromkeys(ids, QUEUES[0])


@pytest.mark.parametrize("verb", ["cancel", "move"])
async def test_a_step_that_is_interrupted_is_counted_once(cluster: Cluster, redis_prefix: str, verb: str) -> None:
    async with opened(cluster, redis_prefix) as stores:
        calls, broken = 0, True
        while broken:
            ids = await stores.insert()
            options = ChangeOptions(queue="other") if verb == "move" else ChangeOptions()
            author = Author(user="ana", host="here")
            request = OperationRequest(verb, "some", author, "", options, Rollout())  # type: ignore[arg-type]
            number = (await stores.operations.create(request)).number
            await stores.operations.add(number, ids)
            await stores.operations.move(number, "running")
            breaking = Breaking(stores.operations._link, calls)
            try:
                await stores.operations.step(number, 100)
            except StoreUnavailable:
                pass
            finally:
                stores.operations._link.run_many = breaking._run_many  # type: ignore[method-assign]
            broken, calls = breaking.broken, calls + 1
            _, now = await stores.link.queues_and_time()
            await end_moves(stores.link, QUEUES, now + 2 * ABANDONED_MOVE_US)
            # Of another size: what was sealed stays as it is.
            while (view := (await stores.operations.step(number, 3)).operation).state == "running":
                pass
            assert (view.state, view.done, view.processed, view.skipped) == ("done", len(ids), len(ids), 0)
            changed = [one.id for one in await stores.operations.list_members(number, 0, 100)]
            assert sorted(changed) == sorted(ids)


async def test_a_full_queue_refuses_jobs_of_several_queues(cluster: Cluster, redis_prefix: str) -> None:
    rules = {"q0": QueueRules(limit=10), "q1": QueueRules(limit=1)}
    async with opened(cluster, redis_prefix, rules) as stores:
        await stores.store.insert([new_job(queue="q0"), new_job(queue="q1"), new_job(queue="q2")])
        with pytest.raises(QueueFull, match="q1"):
            await stores.store.insert([new_job(queue="q0"), new_job(queue="q1")])
        assert sorted((await stores.queues()).values()) == ["q0", "q1", "q2"]
