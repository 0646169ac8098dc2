"""Leadership: one worker at a time holds a duty, for some seconds that it renews."""

import asyncio

from tests.conformance.world import World


async def test_the_first_takes_it_and_keeps_it(world: World) -> None:
    assert await world.store.acquire_leadership("sweep", "one", 10)
    assert not await world.store.acquire_leadership("sweep", "two", 10)
    assert await world.store.acquire_leadership("sweep", "one", 10)
    assert not await world.store.acquire_leadership("sweep", "two", 10)


async def test_another_takes_it_when_its_time_is_over(world: World) -> None:
    await world.store.acquire_leadership("sweep", "one", 10)
    await world.advance(11)
    assert await world.store.acquire_leadership("sweep", "two", 10)
    assert not await world.store.acquire_leadership("sweep", "one", 10)


async def test_renewing_prolongs_it(world: World) -> None:
    await world.store.acquire_leadership("sweep", "one", 10)
    await world.advance(6)
    assert await world.store.acquire_leadership("sweep", "one", 10)
    await world.advance(6)
    assert not await world.store.acquire_leadership("sweep", "two", 10)


async def test_the_late_leader_may_come_back_when_nobody_took_it(world: World) -> None:
    await world.store.acquire_leadership("sweep", "one", 10)
    await world.advance(60)
    assert await world.store.acquire_leadership("sweep", "one", 10)


async def test_duties_are_held_apart(world: World) -> None:
    assert await world.store.acquire_leadership("sweep", "one", 10)
    assert await world.store.acquire_leadership("schedule", "two", 10)
    assert not await world.store.acquire_leadership("schedule", "one", 10)


async def test_a_retired_leader_makes_room_at_once(world: World) -> None:
    await world.store.acquire_leadership("sweep", "one", 1000)
    await world.store.acquire_leadership("schedule", "two", 1000)
    await world.store.unregister_worker("one")
    assert await world.store.acquire_leadership("sweep", "three", 10)
    assert not await world.store.acquire_leadership("schedule", "three", 10)


async def test_of_many_at_once_one_wins(world: World) -> None:
    answers = await asyncio.gather(
        *(world.store.acquire_leadership("sweep", f"worker-{number}", 10) for number in range(20))
    )
    assert sum(answers) == 1
