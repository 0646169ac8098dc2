"""Operations that nobody begins any more: whoever wrote their members down has gone."""

from __future__ import annotations

from queue_core.client.effects import Effects
from queue_core.client.operating.executor import Executor
from queue_core.delivery.local import LocalEventBus
from queue_core.model.operation import ABANDONED, NEVER_STARTED
from tests.conformance.modes import Opener
from tests.conformance.test_operations import asked, dead, started, tidied
from tests.conformance.world import World


async def test_what_nobody_starts_is_cancelled(world: World, opener: Opener) -> None:
    number = (await world.operations.create(asked())).number
    await world.advance(ABANDONED / 2)
    await tidied(opener)
    assert (await world.operations.get(number)).state == "preparing"
    await world.advance(ABANDONED)
    await tidied(opener)
    operation = await world.operations.get(number)
    assert (operation.state, operation.note != "") == ("cancelled", True)


async def test_any_executor_cancels_them(world: World) -> None:
    forgotten, begun = (await world.operations.create(asked())).number, await started(world, await dead(world, 1))
    await execute(world)
    assert (await world.operations.get(forgotten)).state == "preparing"
    await world.advance(2 * ABANDONED)
    await execute(world)
    operation = await world.operations.get(forgotten)
    assert (operation.state, operation.note) == ("cancelled", NEVER_STARTED)
    assert (await world.operations.get(begun.number)).state == "done"


async def execute(world: World) -> None:
    """Let a new executor look for what is to be done."""
    await Executor(world.operations, Effects(None, LocalEventBus()), world.inspector).run_once()
