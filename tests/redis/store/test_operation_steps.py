"""Steps of operations whose answers are lost, whose executors die, whose scripts a server forgets: all are exact."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest
from redis.asyncio import Redis

from queue_core.errors import StoreUnavailable
from queue_core.model.operation import UNCHANGED, Author, ChangeOptions, Operation, OperationRequest
from queue_core.ports.operations import MemberJob
from queue_core.redis.scripts import source
from queue_core.stores.redis.change import ChangeOutcome, StepKey
from queue_core.stores.redis.operations.steps import OperationSteps
from queue_core.stores.redis.operations.store import RedisOperations
from queue_core.stores.redis.session import PACKAGE
from tests.conformance.modes import redis as opener
from tests.conformance.world import World
from tests.redis.store.test_traps import Losing

OTHER = "other"
VERBS = {
    "retry": ("retry", "dead", ChangeOptions()),
    "retry elsewhere": ("retry", "dead", ChangeOptions(queue=OTHER)),
    "retry with another priority": ("retry", "completed", ChangeOptions(priority=20, delay=60.0)),
    "move": ("move", "queued", ChangeOptions(queue=OTHER)),
    "move what is dead": ("move", "dead", ChangeOptions(queue=OTHER)),
    "another priority": ("move", "scheduled", ChangeOptions(priority=20)),
    "delete": ("delete", "dead", ChangeOptions()),
    "restore": ("restore", "trashed", ChangeOptions()),
    "purge": ("purge", "trashed", ChangeOptions()),
    "cancel": ("cancel", "retrying", ChangeOptions()),
}
"""A verb, the state of the jobs that it is to change, and its way."""


def stepping_of(world: World) -> OperationSteps:
    assert isinstance(world.operations, RedisOperations)
    return world.operations._stepping


async def started(world: World, verb: str, ids: Sequence[str], way: ChangeOptions = UNCHANGED) -> int:
    operations = world.operations
    number = (await operations.create(OperationRequest(verb, "some", Author("ana", "here"), options=way))).number
    await operations.add(number, ids)
    assert await operations.move(number, "running")
    return number


async def change_and_die(world: World, number: int, most: int) -> None:
    """Do what a step does before it counts, in single scripts."""
    stepping = stepping_of(world)
    view = await world.operations.get(number)
    members = await stepping._members.range(number, view.done, view.done + most - 1)
    for part in await stepping._parts(view, members, StepKey(number, view.done, "dead")):
        ChangeOutcome().take(part, (await stepping._link.run_many([part.call]))[0])


async def all_state(client: Redis, prefix: str) -> dict[str, Any]:
    """Return what is stored of jobs."""
    found: dict[str, Any] = {}
    async for key in client.scan_iter(f"{prefix}{{*", count=1000):
        kind = await client.type(key)
        if kind == "hash":
            found[key] = await client.hgetall(key)
        elif kind == "zset":
            found[key] = await client.zrange(key, 0, -1, withscores=True)
        elif kind == "set":
            found[key] = await client.smembers(key)
        else:
            found[key] = await (client.lrange(key, 0, -1) if kind == "list" else client.get(key))
    return found


def counts(operation: Operation) -> tuple[int, int, int, int]:
    return operation.total, operation.done, operation.processed, operation.skipped


async def changed(world: World, number: int) -> list[str]:
    members: list[MemberJob] = await world.operations.list_members(number, 0, 1000)
    return [member.id for member in members]


@pytest.mark.parametrize("name", list(VERBS))
async def test_a_step_whose_answer_is_lost(world: World, name: str) -> None:
    verb, state, way = VERBS[name]
    ids = [await world.job_in(state) for _ in range(3)]
    number = await started(world, verb, ids, way)
    link = stepping_of(world)._link
    scripts = link._scripts
    link._scripts = Losing(scripts)  # type: ignore[assignment]
    with pytest.raises(StoreUnavailable):
        await world.operations.step(number, 2)
    link._scripts = scripts
    # The look came before: so nothing was done, or all of it.
    while (step := await world.operations.step(number, 2)).operation.state == "running":
        pass
    assert counts(step.operation) == (3, 3, 3, 0)
    assert await changed(world, number) == ids


class LosingSteps(Losing):
    """Loses only the answers of what runs as one."""

    async def run_many(self, calls: Any, together: bool = False) -> Any:
        return await (super().run_many(calls, together) if together else self._scripts.run_many(calls))


@pytest.mark.parametrize("name", list(VERBS))
async def test_the_answer_of_a_step_that_was_taken_is_lost(
    world: World, name: str, client: Redis, redis_prefix: str
) -> None:
    verb, state, way = VERBS[name]
    ids = [await world.job_in(state) for _ in range(3)]
    number = await started(world, verb, ids, way)
    link = stepping_of(world)._link
    scripts = link._scripts
    link._scripts = losing = LosingSteps(scripts)  # type: ignore[assignment]
    with pytest.raises(StoreUnavailable):
        await world.operations.step(number, 3)
    link._scripts = scripts
    assert losing.lost == 1
    before = await all_state(client, redis_prefix)
    step = await world.operations.step(number, 3)
    assert (step.operation.state, counts(step.operation), step.changed.ids) == ("done", (3, 3, 3, 0), ())
    assert await all_state(client, redis_prefix) == before
    assert await changed(world, number) == ids


@pytest.mark.parametrize("name", list(VERBS))
async def test_an_executor_dies_between_change_and_count(
    world: World, name: str, client: Redis, redis_prefix: str
) -> None:
    verb, state, way = VERBS[name]
    ids = [await world.job_in(state) for _ in range(3)]
    number = await started(world, verb, ids, way)
    await change_and_die(world, number, 2)
    assert (await world.operations.get(number)).done == 0
    before = await all_state(client, redis_prefix)
    step = await world.operations.step(number, 2)
    assert (counts(step.operation), step.changed.ids) == ((3, 2, 2, 0), ())
    assert await all_state(client, redis_prefix) == before, "nothing is changed twice"
    step = await world.operations.step(number, 2)
    assert (counts(step.operation), step.changed.ids, step.operation.state) == ((3, 3, 3, 0), (ids[2],), "done")
    assert await changed(world, number) == ids
    for job_id in ids:
        assert [one.number for one in await world.operations.list_for_job(job_id, 10)] == [number]


async def test_what_ran_meanwhile_is_not_retried_again(world: World) -> None:
    (job_id,) = [await world.job_in("dead")]
    number = await started(world, "retry", [job_id])
    await change_and_die(world, number, 1)
    await world.settle(await world.claim_job(job_id), "dead")
    step = await world.operations.step(number, 1)
    assert (counts(step.operation), step.changed.ids) == ((1, 1, 1, 0), ())
    assert (await world.job(job_id)).status == "dead"


async def test_what_was_taken_back_meanwhile_is_not_changed_again(world: World) -> None:
    (job_id,) = [await world.job_in("dead")]
    number = await started(world, "delete", [job_id])
    await change_and_die(world, number, 1)
    assert (await world.change("restore", [job_id])).ids == (job_id,)
    step = await world.operations.step(number, 1)
    assert (counts(step.operation), step.changed.ids) == ((1, 1, 1, 0), ())
    assert (await world.job(job_id)).trashed_at is None


SCRIPTS = ("transfer", "retry", "operation_count")


@pytest.mark.parametrize("known", [(), *((name,) for name in SCRIPTS), SCRIPTS[:2], SCRIPTS[1:], SCRIPTS[::2]])
async def test_a_server_that_forgot_some_scripts(world: World, client: Redis, known: Sequence[str]) -> None:
    """In one transaction some of them run and others do not."""
    ids = [await world.job_in("dead") for _ in range(3)]
    skipped = await world.job_in("queued")
    number = await started(world, "retry", [*ids, skipped], ChangeOptions(queue=OTHER))
    await client.script_flush()
    for name in known:
        await client.script_load(source(PACKAGE, name))
    step = await world.operations.step(number, 10)
    assert (counts(step.operation), step.operation.state) == ((4, 4, 3, 1), "done")
    assert list(step.changed.ids) == ids
    assert sorted(await world.claim_ids(queue=OTHER)) == sorted(ids)


def between_look_and_step(world: World, act: Callable[[], Awaitable[None]]) -> None:
    """Let something happen once, behind the back of a step that has read its members."""
    stepping = stepping_of(world)
    parts = stepping._parts

    async def look_and_act(*given: Any) -> Any:
        found = await parts(*given)
        stepping._parts = parts  # type: ignore[method-assign]
        await act()
        return found

    stepping._parts = look_and_act  # type: ignore[method-assign, assignment]


@pytest.mark.parametrize("verb", ["retry", "delete", "move"])
async def test_a_job_that_moves_between_look_and_step(world: World, verb: str) -> None:
    """It is not where it was seen, so the step looks again, and passes it over: somebody else has changed it."""
    ids = [await world.job_in("dead") for _ in range(2)]
    number = await started(world, verb, ids, ChangeOptions(queue="third") if verb == "move" else UNCHANGED)

    async def move() -> None:
        other = await started(world, "move", ids[:1], ChangeOptions(queue=OTHER))
        assert (await world.operations.step(other, 1)).operation.processed == 1

    between_look_and_step(world, move)
    step = await world.operations.step(number, 2)
    assert (counts(step.operation), step.changed.ids) == ((2, 2, 1, 1), (ids[1],))
    assert await world.operations.list_for_job(ids[0], 10) == [await world.operations.get(number + 1)]


async def test_a_job_that_runs_between_look_and_step(world: World) -> None:
    """It died another death than the one that was seen when it was frozen."""
    (job_id,) = [await world.job_in("dead")]
    number = await started(world, "retry", [job_id])

    async def run() -> None:
        await world.change("retry", [job_id])
        await world.settle(await world.claim_job(job_id), "dead")

    between_look_and_step(world, run)
    step = await world.operations.step(number, 1)
    assert (counts(step.operation), step.changed.ids) == ((1, 1, 0, 1), ())
    assert (await world.job(job_id)).status == "dead"


async def test_a_step_that_somebody_else_has_taken_changes_nothing(world: World) -> None:
    """What was passed over is not changed afterwards, when it has come into a state that allows it."""
    claim = await world.running()
    number = await started(world, "delete", [claim.id, await world.job_in("dead")])

    async def step_and_die() -> None:
        assert counts((await world.operations.step(number, 1)).operation) == (2, 1, 0, 1)
        await world.settle(claim, "dead")

    between_look_and_step(world, step_and_die)
    step = await world.operations.step(number, 1)
    assert (counts(step.operation), step.changed.ids) == ((2, 1, 0, 1), ())
    assert (await world.job(claim.id)).trashed_at is None


async def drain(operations: RedisOperations, number: int, most: int, done: list[str]) -> None:
    while (step := await operations.step(number, most)).operation.state == "running":
        done.extend(step.changed.ids)
    done.extend(step.changed.ids)


@pytest.mark.parametrize("name", list(VERBS))
async def test_executors_at_the_same_time(world: World, name: str, redis_url: str, redis_prefix: str) -> None:
    verb, state, way = VERBS[name]
    ids = [await world.job_in(state) for _ in range(12)] + [await world.job_in("cancelled")]
    number = await started(world, verb, ids, way)
    other = await opener(f"{redis_url} {redis_prefix}")()
    done: list[str] = []
    executors: list[Any] = [world.operations, other.operations] * 2
    await asyncio.gather(*(drain(one, number, 2, done) for one in executors))
    await other.close()
    assert sorted(done) == sorted(ids[:-1]), "each is told once"
    assert counts(await world.operations.get(number)) == (13, 13, 12, 1)


async def test_a_pause_stops_a_step_that_is_on_its_way(world: World) -> None:
    ids = [await world.job_in("dead")]
    number = await started(world, "retry", ids)

    async def pause() -> None:
        assert await world.operations.move(number, "paused")

    between_look_and_step(world, pause)
    step = await world.operations.step(number, 10)
    assert (step.operation.state, step.operation.done, step.changed.ids) == ("paused", 0, ())
    assert (await world.job(ids[0])).status == "dead"
