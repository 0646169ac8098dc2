"""Limits: what is written down of the room is never more than there is, whatever went back among the waiting."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from queue_core.errors import QueueFull
from queue_core.model.rules import QueueRules, Rules
from queue_core.model.settings import PostgresSettings
from queue_core.stores.postgres.operations import PostgresOperations
from queue_core.stores.postgres.read import PostgresInspector
from queue_core.stores.postgres.store import PostgresStore
from tests.conformance.making import LEASE, QUEUE
from tests.conformance.world import World
from tests.postgres.rules.conftest import NewHand
from tests.postgres.traps.hands import Hand, new_job

LIMIT = 10
RULES: Rules = {QUEUE: QueueRules(limit=LIMIT)}


@pytest.fixture
def hand(new_hand: NewHand) -> Hand:
    return new_hand()


@pytest.fixture
async def world(postgres_url: str, hand: Hand) -> AsyncIterator[World]:
    """A store and an inspector; the hand moves the leases' time."""
    settings = PostgresSettings(url=postgres_url)

    async def advance(seconds: float) -> None:
        hand.do("update leases set expires_at = expires_at - make_interval(secs => %(s)s)", {"s": seconds})

    store = PostgresStore(settings, rules=RULES)
    await store.acquire_leadership("sweep", "leader", 0)
    world = World(store, PostgresInspector(settings, RULES), advance, operations=PostgresOperations(settings, RULES))
    yield world
    await world.close()


def room(hand: Hand) -> int:
    ((room,),) = hand.do("select free from queue_capacity")
    return int(room)


async def comes_back(world: World, how: str) -> None:
    """Let three running jobs go back among the waiting."""
    claims = await world.claim(3)
    if how == "reclaimed":
        await world.advance(LEASE + 5)
        assert len(await world.store.reclaim(10)) == 3
    elif how == "retried by an operator":
        for claim in claims:
            await world.settle(claim, "dead")
        assert len((await world.change("retry", [claim.id for claim in claims])).ids) == 3
    else:
        for claim in claims:
            await world.settle(claim, how)


@pytest.mark.parametrize("how", ["released", "retrying", "reclaimed", "retried by an operator"])
async def test_what_comes_back_takes_its_room(world: World, hand: Hand, how: str) -> None:
    await world.insert_many(4)
    assert room(hand) == LIMIT - 4
    await comes_back(world, how)
    # Three were claimed, which is not written down, and came back, which is: less than there is.
    await world.insert_many(2)
    assert room(hand) == LIMIT - 6 - 3
    left = hand.do("select count(*) from capacity_requeued where band = ''")
    assert left == [(0,)], "else it would be taken off again and again"
    # Then it is counted, and fits exactly.
    await world.insert_many(4)
    assert room(hand) == 0
    with pytest.raises(QueueFull):
        await world.insert()


async def test_jobs_that_others_added_without_these_rules_count_within_a_minute(
    world: World, hand: Hand, postgres_url: str
) -> None:
    await world.insert_many(1)
    other = PostgresStore(PostgresSettings(url=postgres_url))
    await other.insert([new_job() for _ in range(20)])
    await other.close()
    hand.do("update queue_capacity set counted_at = counted_at - interval '1 minute'")
    with pytest.raises(QueueFull):
        await world.insert()


async def test_another_limit_is_counted_anew(world: World, hand: Hand, postgres_url: str) -> None:
    await world.insert_many(3)
    lower = PostgresStore(PostgresSettings(url=postgres_url), rules={QUEUE: QueueRules(limit=3)})
    with pytest.raises(QueueFull):
        await lower.insert([new_job()])
    await lower.close()


async def test_a_refusal_writes_nothing(world: World, hand: Hand) -> None:
    await world.insert_many(LIMIT - 1)
    before = hand.do("select xmin, * from queue_capacity")
    with pytest.raises(QueueFull):
        await world.store.insert([new_job(unique_key="task:1", ordering_key="a"), new_job()])
    assert hand.do("select xmin, * from queue_capacity") == before
    assert hand.do("select (select count(*) from unique_keys), (select count(*) from ordering_locks)") == [(0, 0)]
    await world.insert(unique_key="task:1")
