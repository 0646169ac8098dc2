"""Workers: they announce themselves with each heartbeat, obey orders, and are lost after three missing beats."""

import pytest

from queue_core.model.operation import ChangeOptions
from queue_core.model.report import WorkerInfo
from queue_core.stores.redis import upkeep as redis_upkeep
from tests.conformance.making import held
from tests.conformance.world import World

DAY = 86400.0


async def workers(world: World) -> dict[str, WorkerInfo]:
    return {worker.id: worker for worker in (await world.inspector.overview()).workers}


async def test_nobody_is_there(world: World) -> None:
    assert await workers(world) == {}


async def test_the_first_beat_announces_it(world: World) -> None:
    claim = await world.running()
    reply = await world.beat(
        held(claim),
        host="host-9",
        pid=99,
        queues=("a", "b"),
        types=("t", "u"),
        concurrency=8,
        busy=3,
        quiet=True,
        stuck=2,
    )
    assert reply.command == ""
    (info,) = (await workers(world)).values()
    assert (info.id, info.host, info.pid, info.version) == ("worker-1", "host-9", 99, "1.2.3")
    assert (info.queues, info.types) == (("a", "b"), ("t", "u"))
    assert (info.concurrency, info.busy, info.quiet, info.lost, info.stuck) == (8, 3, True, False, 2)
    assert 0 <= info.heartbeat_age < 5
    assert info.started_at <= info.heartbeat_at


async def test_each_beat_renews_it(world: World) -> None:
    await world.beat(busy=1, stuck=1)
    started_at = (await workers(world))["worker-1"].started_at
    await world.advance(20)
    assert (await workers(world))["worker-1"].heartbeat_age == pytest.approx(20, abs=5)
    await world.beat(busy=7, quiet=True, types=("new",))
    info = (await workers(world))["worker-1"]
    assert (info.busy, info.quiet, info.types, info.stuck) == (7, True, ("new",), 0)
    assert info.heartbeat_age < 5
    assert (info.started_at - started_at).total_seconds() == pytest.approx(-20, abs=20.001)
    assert (info.heartbeat_at - info.started_at).total_seconds() == pytest.approx(20, abs=5)


async def test_lost_after_three_intervals(world: World) -> None:
    await world.beat(interval=10.0)
    await world.advance(25)
    assert not (await workers(world))["worker-1"].lost
    await world.advance(10)
    assert (await workers(world))["worker-1"].lost
    await world.beat(interval=10.0)
    assert not (await workers(world))["worker-1"].lost


async def test_a_lost_one_is_shown_for_a_day(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis_upkeep, "SELDOM_SECONDS", 0.0)
    await world.beat()
    await world.advance(0.9 * DAY)
    await world.upkeep()
    assert (await workers(world))["worker-1"].lost
    await world.advance(0.2 * DAY)
    await world.upkeep()
    assert await workers(world) == {}


async def test_each_has_its_own_interval(world: World) -> None:
    await world.beat(worker="often", interval=1.0)
    await world.beat(worker="seldom", interval=100.0)
    await world.advance(10)
    found = await workers(world)
    assert (found["often"].lost, found["seldom"].lost) == (True, False)


async def test_a_retired_worker_is_gone(world: World) -> None:
    await world.beat(worker="one")
    await world.beat(worker="two")
    await world.store.unregister_worker("one")
    await world.store.unregister_worker("one")
    await world.store.unregister_worker("never there")
    assert set(await workers(world)) == {"two"}


async def test_retiring_leaves_its_jobs_to_the_lease(world: World) -> None:
    claim = await world.running()
    await world.store.unregister_worker("worker-1")
    assert (await world.settle(claim, "completed")).accepted


@pytest.mark.parametrize("command", ["quiet", "resume", "stop"])
async def test_an_order_comes_with_the_next_beat_and_only_once(world: World, command: str) -> None:
    await world.beat(worker="one")
    await world.beat(worker="two")
    assert await world.operations.command("one", command)  # type: ignore[arg-type]
    assert (await world.beat(worker="two")).command == ""
    assert (await world.beat(worker="one")).command == command
    assert (await world.beat(worker="one")).command == ""


async def test_the_last_order_counts(world: World) -> None:
    await world.beat()
    await world.operations.command("worker-1", "quiet")
    await world.operations.command("worker-1", "stop")
    assert (await world.beat()).command == "stop"


async def test_orders_to_nobody(world: World) -> None:
    assert not await world.operations.command("nobody", "stop")


async def test_many_workers(world: World) -> None:
    for number in range(20):
        await world.beat(worker=f"worker-{number:02}")
    assert len(await workers(world)) == 20


async def test_hostile_names(world: World) -> None:
    name = "w'\"\\ {a,b} NULL 🦀\x1b[31m"
    await world.beat(worker=name, host=name, version=name, queues=(name, ""), types=(name, "NULL"))
    (info,) = (await workers(world)).values()
    assert (info.id, info.host, info.version) == (name, name, name)
    assert (info.queues, info.types) == ((name, ""), (name, "NULL"))


async def test_a_job_that_comes_back_from_another_queue_is_held(world: World) -> None:
    claim = await world.running(queue="one")
    assert (await world.beat(held(claim))).lost == ()
    assert (await world.settle(claim, "dead")).accepted
    await world.change("retry", [claim.id], ChangeOptions(queue="two"))
    moved = await world.claim_job(claim.id, queue="two")
    assert (await world.beat(held(moved))).lost == ()
