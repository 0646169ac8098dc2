"""Operations that nobody begins any more: whoever wrote their members down has gone."""

from __future__ import annotations

import asyncio

import pytest

from queue_core.client.effects import Effects
from queue_core.client.operating.drain import TAKEOVER_SECONDS
from queue_core.client.operating.executor import Executor
from queue_core.delivery.local import LocalEventBus
from queue_core.model.operation import (
    ABANDONED_SECONDS,
    NEVER_STARTED,
    Author,
    ChangeOptions,
    Operation,
    OperationRequest,
    OperationVerb,
)
from tests.conformance.making import QUEUE
from tests.conformance.modes import Opener
from tests.conformance.test_operations import asked, dead, started, tidied
from tests.conformance.world import World


async def test_what_nobody_starts_is_cancelled(world: World, opener: Opener) -> None:
    number = (await world.operations.create(asked())).number
    await world.advance(ABANDONED_SECONDS / 2)
    await tidied(opener)
    assert (await world.operations.get(number)).state == "preparing"
    await world.advance(ABANDONED_SECONDS)
    await tidied(opener)
    operation = await world.operations.get(number)
    assert (operation.state, operation.note != "") == ("cancelled", True)


async def test_any_executor_cancels_them(world: World) -> None:
    forgotten, begun = (await world.operations.create(asked())).number, await started(world, await dead(world, 1))
    await execute(world)
    assert (await world.operations.get(forgotten)).state == "preparing"
    await world.advance(2 * ABANDONED_SECONDS)
    await execute(world)
    operation = await world.operations.get(forgotten)
    assert (operation.state, operation.note) == ("cancelled", NEVER_STARTED)
    assert (await world.operations.get(begun.number)).state == "done"


async def test_a_drain_whose_queue_is_closed_is_carried_on(world: World) -> None:
    """Also its move, of which there is not even a record."""
    ids = await world.insert_many(2)
    drain = await of_drain(world, "drain")
    await world.operations.set_closed(QUEUE, True)
    await execute(world)
    assert (await world.operations.get(drain.number)).state == "preparing"
    await moved_by_executors(world, drain, ids)


async def test_it_is_carried_on_after_any_time(world: World) -> None:
    ids = await world.insert_many(2)
    drain = await of_drain(world, "drain")
    await of_drain(world, "move", f"drains #{drain.number}: old")
    await world.operations.set_closed(QUEUE, True)
    await world.advance(2 * ABANDONED_SECONDS)
    await moved_by_executors(world, drain, ids)


async def test_the_move_of_a_drain_is_carried_on(world: World) -> None:
    ids = await world.insert_many(3)
    drain = await of_drain(world, "drain")
    await world.operations.set_closed(QUEUE, True)
    move = await of_drain(world, "move", f"drains #{drain.number}")
    await world.operations.note_drain(drain.number, 3)
    await world.operations.add(move.number, ids[:1])
    await execute(world)
    assert (await world.operations.get(move.number)).state == "preparing"
    await moved_by_executors(world, drain, ids)
    done = await world.operations.get(move.number)
    assert (done.total, done.processed, done.skipped) == (3, 3, 0)


async def test_what_closed_no_queue_and_what_a_later_drain_took_over_are_not_carried_on(world: World) -> None:
    await world.insert_many(2)
    opened = await of_drain(world, "drain")
    await world.advance(TAKEOVER_SECONDS + 1)
    await execute(world)
    assert (await world.operations.get(opened.number)).state == "preparing"
    later = await of_drain(world, "drain")
    await world.operations.set_closed(QUEUE, True)
    await world.operations.note_drain(later.number, 2)
    await execute(world)
    assert (await world.operations.get(opened.number)).state == "preparing"


async def test_the_move_of_a_drain_that_has_ended_ends(world: World) -> None:
    await world.insert_many(2)
    drain = await of_drain(world, "drain")
    move = await of_drain(world, "move", f"drains #{drain.number}")
    await world.operations.move(drain.number, "cancelled")
    await world.advance(TAKEOVER_SECONDS + 1)
    await execute(world)
    assert (await world.operations.get(move.number)).state == "cancelled"


@pytest.mark.parametrize("why", ["drains #", "drains #x", "drains #2²", "drains #99999999999999999999", "drains #1000"])
async def test_a_move_that_belongs_to_no_drain_is_left_alone(world: World, why: str) -> None:
    move = await of_drain(world, "move", why)
    await world.advance(TAKEOVER_SECONDS + 1)
    await execute(world)
    assert (await world.operations.get(move.number)).state == "preparing"


async def of_drain(world: World, verb: OperationVerb, why: str = "") -> Operation:
    """Record a step of a drain, behind which its author goes away."""
    options = ChangeOptions(queue="slow")
    return await world.operations.create(OperationRequest(verb, f"queue {QUEUE}", Author("ana", "b-1"), why, options))


async def moved_by_executors(world: World, drain: Operation, ids: list[str]) -> None:
    """Let several executors go on once a drain was left alone; each job is moved, by one move."""
    await world.advance(TAKEOVER_SECONDS + 1)
    for _ in range(3):
        await asyncio.gather(execute(world), execute(world))
    found = [one for one in await world.operations.list_operations(10) if one.request.verb == "move"]
    assert [(one.state, one.total, one.processed) for one in found if one.state != "cancelled"] == [
        ("done", len(ids), len(ids))
    ]
    assert {(await world.inspector.get(one)).queue for one in ids} == {"slow"}
    assert (await world.operations.get(drain.number)).state == "done"


async def execute(world: World) -> None:
    """Let a new executor look for what is to be done."""
    await Executor(world.operations, Effects(None, LocalEventBus()), world.inspector).run_once()
