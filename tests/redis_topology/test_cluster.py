"""On a cluster: masters lost and demoted and slots moved under load, and what is reported of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pytest
from redis.crc import key_slot

from queue_core import JobQueue, Worker
from queue_core.delivery import cluster_dispatcher
from queue_core.delivery.cluster_dispatcher import ClusterDispatcher, make_dispatcher
from queue_core.model.job import Ready
from queue_core.model.settings import JobsSettings, RedisSettings
from queue_core.ports.store import ClaimRequest
from queue_core.redis.circuit import CircuitBreaker
from queue_core.redis.client import make_client, make_pipelined
from queue_core.redis.cluster import ClusterClient
from tests.cli.running import Cli
from tests.redis_topology.conftest import MakeSettings
from tests.redis_topology.load import LONG, PATIENCE, under_load
from tests.redis_topology.rig import Cluster, Server, wait_until

QUEUES = [f"q{number}" for number in range(6)]
"""Every master serves some of them."""


def owner_of(cluster: Cluster, settings: JobsSettings, queue: str = QUEUES[0]) -> tuple[int, Server]:
    """Return the slot of a queue, and its master."""
    slot = key_slot(f"{settings.redis.prefix}{{{queue}}}:pending".encode())
    return slot, cluster.owner(slot)


def kill_master(cluster: Cluster, settings: JobsSettings) -> None:
    """Kill the master of a queue, and wait for its successor."""
    slot, master = owner_of(cluster, settings)
    master.kill()
    wait_until("there is another master", lambda: cluster.owner(slot) is not master)


def pause_master(cluster: Cluster, settings: JobsSettings) -> None:
    """Freeze the master of a queue, wait for its successor, and let it come back."""
    slot, master = owner_of(cluster, settings)
    others = [one for one in cluster.servers if one is not master]
    master.pause()
    wait_until("there is another master", lambda: cluster.owner(slot, others) is not master)
    master.resume()


def demote_master(cluster: Cluster, settings: JobsSettings) -> None:
    """Let a replica take over as planned."""
    slot, master = owner_of(cluster, settings)
    replica = cluster.replica_of(master)
    replica.ask("CLUSTER", "FAILOVER")
    wait_until("the replica is the master", lambda: cluster.owner(slot) is replica)


def move_slot(cluster: Cluster, settings: JobsSettings) -> None:
    """Give the slot of a queue to another master, and back."""
    slot, master = owner_of(cluster, settings)
    cluster.migrate(slot, next(one for one in cluster.masters() if one is not master))
    cluster.migrate(slot, master)


Disturb = Callable[[Cluster, JobsSettings], None]
PLANNED: Sequence[Disturb] = (demote_master, move_slot)
LOSSES: Sequence[Disturb] = (kill_master, pause_master)
SHORT: Sequence[tuple[str, int, Disturb]] = [
    ("postgres+redis", 0, kill_master), ("redis", 0, move_slot), ("redis", 0, demote_master)
]  # fmt: skip
ALL: Sequence[tuple[str, int, Disturb]] = [
    *((mode, 0, one) for mode in ("postgres+redis", "redis") for one in (*PLANNED, *LOSSES)),
    *(("redis", 1, one) for one in LOSSES),
]


@pytest.mark.parametrize(("mode", "replicas", "disturb"), ALL if LONG else SHORT)
async def test_work_goes_on(
    cluster: Cluster, make_settings: MakeSettings, mode: str, replicas: int, disturb: Disturb
) -> None:
    """Without a replica that has each job, a master that is killed loses the last ones, where it is the store."""
    settings = make_settings(mode, cluster.url, min_replicas=replicas)
    may_lose = mode == "redis" and not replicas and disturb in LOSSES
    found = await under_load(settings, QUEUES, lambda: disturb(cluster, settings), may_lose=may_lose)
    if mode == "postgres+redis" or disturb is move_slot:
        assert not found.refusals


@contextmanager
def a_master_without_successor(cluster: Cluster, settings: JobsSettings, queue: str = QUEUES[0]) -> Iterator[set[str]]:
    """Freeze the master of a queue, which no replica may replace, while the others go on; yield its queues."""
    _, master = owner_of(cluster, settings, queue)
    options = {"cluster-replica-no-failover": ("yes", "no"), "cluster-require-full-coverage": ("no", "yes")}

    def owned(queue: str) -> bool:
        return cluster.owner(key_slot(f"{settings.redis.prefix}{{{queue}}}:pending".encode())) is master

    lost = {queue for queue in QUEUES if owned(queue)}
    for name, (value, _) in options.items():
        for one in cluster.servers:
            one.ask("CONFIG", "SET", name, value)
    master.pause()
    try:
        yield lost
    finally:
        master.resume()
        # One that is still taken for lost would be replaced as soon as it may be.
        wait_until("it is missed by none", lambda: not any(map(cluster.misses, cluster.servers)))
        for name, (_, value) in options.items():
            for one in cluster.servers:
                one.ask("CONFIG", "SET", name, value)


@pytest.mark.parametrize("options", [{}, {"delay": "1h"}, {"ordering_key": "one"}])
@pytest.mark.parametrize("rules", [{}, {"*": {"limit": 1000}}])
async def test_an_enqueue_waits_for_no_other_queue(
    cluster: Cluster, make_settings: MakeSettings, options: dict[str, str], rules: dict[str, dict[str, int]]
) -> None:
    """Jobs of other callers, whose queue has no master now, hold nothing up."""
    found = make_settings("redis", cluster.url, timeout=PATIENCE / 2).model_dump() | {"queues": rules}
    settings = JobsSettings.model_validate(found)
    async with JobQueue(settings=settings) as jobs:
        for queue in QUEUES:  # they are known by now
            await jobs.enqueue("plain", queue=queue)
        with a_master_without_successor(cluster, settings) as lost:
            waiting = [asyncio.create_task(jobs.enqueue("plain", queue=queue, **options)) for queue in lost]
            others = (jobs.enqueue("plain", queue=queue, **options) for queue in QUEUES if queue not in lost)
            await asyncio.gather(*others)
            assert not any(task.done() for task in waiting)
        await asyncio.gather(*waiting, return_exceptions=True)


async def test_leases_that_a_successor_has_are_given_back(cluster: Cluster, make_settings: MakeSettings) -> None:
    """A replica that becomes a master may have the claim of a job and not its end: its worker holds it no more."""
    settings, runs = make_settings("redis", cluster.url, timeout=PATIENCE / 2), list[int]()
    async with JobQueue(settings=settings) as jobs:

        @jobs.task(queue=QUEUES[0])
        async def work(n: int) -> None:
            runs.append(n)

        await jobs.enqueue("work", {"n": 1})
        worker = Worker(jobs, lease="1h", heartbeat="10m")
        assert len(await jobs.store.claim(ClaimRequest(QUEUES[0], worker.id, None, 1, 3600.0, number=1))) == 1
        running = asyncio.create_task(worker.run())
        last = await jobs.enqueue("work", {"n": 2})
        await last.result(timeout=PATIENCE)
        assert runs == [2]
        await asyncio.to_thread(demote_master, cluster, settings)
        await wait_for(lambda: 1 in runs)
        worker.stop()
        await running


@pytest.fixture
async def dispatcher(cluster: Cluster, redis_prefix: str) -> ClusterDispatcher:
    """Delivery on the cluster."""
    settings = RedisSettings.model_validate({"url": cluster.url, "prefix": redis_prefix, "timeout": 10})
    made = make_dispatcher(settings, CircuitBreaker("redis"), make_pipelined(settings))
    assert isinstance(made, ClusterDispatcher)
    return made


async def test_more_queues_than_waits(dispatcher: ClusterDispatcher, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two blocking pops at most; offers to the other queues are announced."""
    monkeypatch.setattr(cluster_dispatcher, "MAX_BLOCKING_POPS", 2)
    try:
        for number, queue in enumerate([*QUEUES, *QUEUES]):
            taking = asyncio.create_task(dispatcher.take(QUEUES, 5, PATIENCE))
            await wait_for(lambda: len(dispatcher._waits) == 2)
            # Until it listens, and is known to.
            key = dispatcher._keys.of(QUEUES[-1], "sleepers")
            while not await dispatcher._client.exists(key):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.05)
            start = time.monotonic()
            await dispatcher.offer([Ready(f"job{number}", queue, (1 << 52) + number)])
            taken = await taking
            assert taken == (queue, [f"job{number}"])
            assert time.monotonic() - start < PATIENCE / 2
            assert len(dispatcher._waits) <= 2
    finally:
        await dispatcher.close()


async def wait_for(holds: Callable[[], object]) -> None:
    """Wait until something holds."""
    async with asyncio.timeout(PATIENCE):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_what_no_call_waits_for_is_put_back(dispatcher: ClusterDispatcher) -> None:
    rank = (1 << 52) + 1
    try:
        assert await dispatcher.take(QUEUES, 1, 0.2) is None
        await dispatcher.offer([Ready("job1", QUEUES[0], rank)])
        await wait_for(lambda: len(dispatcher._waits) < len(QUEUES))
        await wait_for(lambda: not dispatcher._returning)
        assert await dispatcher._client.zscore(dispatcher._keys.of(QUEUES[0], "pending"), "job1") == rank
        await dispatcher.offer([Ready("job2", QUEUES[0], rank + 1)])
        assert await dispatcher.take(QUEUES, 1, PATIENCE) == (QUEUES[0], ["job1"])
        assert await dispatcher.take(QUEUES, 1, PATIENCE) == (QUEUES[0], ["job2"])
    finally:
        await dispatcher.close()


async def test_an_emptied_node_makes_its_queues_doubtful(cluster: Cluster, dispatcher: ClusterDispatcher) -> None:
    client = dispatcher._client
    assert isinstance(client, ClusterClient)
    try:
        assert sorted(await dispatcher.doubtful(QUEUES)) == QUEUES
        for queue in QUEUES:
            await dispatcher.mark_current(queue)
        assert await dispatcher.doubtful(QUEUES) == []
        emptied = cluster.masters()[0]
        emptied.ask("FLUSHALL")
        homes = [await client.topology.owner_of(dispatcher._keys.of(queue, "pending")) for queue in QUEUES]
        theirs = [queue for queue, home in zip(QUEUES, homes, strict=True) if home == ("127.0.0.1", emptied.port)]
        assert 0 < len(theirs) < len(QUEUES)
        assert await dispatcher.doubtful(QUEUES) == theirs
    finally:
        await dispatcher.close()


async def test_a_slot_that_moves_key_by_key(cluster: Cluster, redis_prefix: str) -> None:
    """What is already on the other node is asked for there; what is on both has to wait."""
    settings = RedisSettings.model_validate({"url": cluster.url, "prefix": redis_prefix, "timeout": 10})
    client, pipelined = make_client(settings), make_pipelined(settings)
    one, two = (f"{redis_prefix}{{q}}:{name}" for name in ("one", "two"))
    slot = key_slot(one.encode())
    source = cluster.owner(slot)
    target = next(master for master in cluster.masters() if master is not source)
    both = ("EVAL", "return redis.call('MGET', KEYS[1], KEYS[2])", 2, one, two)
    try:
        for key in (one, two):
            await client.set(key, key)
        with cluster.migrating(slot, source, target) as move:
            move(one)
            assert await client.get(one) == one
            assert await pipelined.execute([("GET", one), ("GET", two)]) == [one, two]
            commands = client.pipeline(transaction=False)
            assert await commands.get(one).get(two).execute() == [one, two]
            waiting = asyncio.create_task(pipelined.execute([both]))
            await asyncio.sleep(0.05)
            assert not waiting.done()
            move(two)
            assert await waiting == [[one, two]]
        assert cluster.owner(slot) is target
        assert await client.eval(*both[1:]) == [one, two]
    finally:
        await pipelined.close()
        await client.aclose()


@pytest.mark.parametrize("mode", ["postgres+redis", "redis"])
async def test_events_and_results_pass_between_nodes(cluster: Cluster, make_settings: MakeSettings, mode: str) -> None:
    async with JobQueue(settings=make_settings(mode, cluster.url)) as jobs:
        batches = jobs.bus.subscribe()
        assert (await anext(batches)).gap
        handles = [await jobs.enqueue("task", {}, queue=queue) for queue in QUEUES]
        seen: set[str] = set()
        async with asyncio.timeout(PATIENCE):
            while not {handle.id for handle in handles} <= seen:
                seen |= {event.id for event in (await anext(batches)).events if event.id}
        overview = await jobs.inspector.overview()
        assert {queue.name for queue in overview.queues} >= set(QUEUES)


def test_the_doctor_reports_slots_and_masters(cluster: Cluster, postgres_url: str, redis_prefix: str) -> None:
    environ = {"JOBS__REDIS__URL": cluster.url, "JOBS__QUEUE_BACKEND": "redis", "JOBS__REDIS__PREFIX": redis_prefix}
    both = environ | {"JOBS__POSTGRES__URL": postgres_url}

    def found(environ: dict[str, str]) -> tuple[str, str]:
        checks = Cli(environ)("doctor", "--json").body["checks"]
        return next((one["level"], one["said"]) for one in checks if one["name"] == "redis cluster")

    whole = "state ok, 16,384 of 16,384 slots served by 3 masters"
    assert found(both) == found(environ) == ("ok", f"{whole} with replicas")
    one = f"redis://127.0.0.1:{cluster.servers[0].port}"
    assert found(both | {"JOBS__REDIS__URL": one}) == ("fail", f"{whole.partition(' by')[0]} by 3 servers")
    master = cluster.masters()[0]
    replica = cluster.replica_of(master)
    replica.kill()
    wait_until("the replica is missed", lambda: found(both)[0] == "warn")
    assert found(both) == ("warn", f"{whole}, 1 of them without a replica")
    master.kill()
    cluster.wait_down()
    assert found(both)[0] == "fail"
    answer = Cli(environ)("job", "enqueue", "task", "--queue", "q0")
    assert answer.code == 3
    assert "the cluster" in answer.err
    assert answer.err.count("\n") == 1
    assert Cli(both)("job", "enqueue", "task", "--queue", "q0").code == 0
