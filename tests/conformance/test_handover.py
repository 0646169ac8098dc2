"""The end of a job and the claim of the next one in one trip: the ends as ever, the claims within all limits."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from queue_core.model.job import Claim, Settled
from queue_core.model.report import Conservation
from queue_core.ports.handover import HandoverStore
from queue_core.ports.store import ClaimRequest
from tests.conformance.conftest import Ruled
from tests.conformance.making import LEASE, QUEUE, TYPE, WORKER, failure, outcome
from tests.conformance.modes import Opener
from tests.conformance.world import World

KEY = "customer-1"
NEXT: tuple[str, ...] = ()
"""What a request for the jobs names that the ends unblock."""


async def hand_over(
    world: World, ends: Sequence[Claim], ids: Sequence[str] | None = NEXT, kind: str = "completed", **given: Any
) -> tuple[list[Settled], list[Claim]]:
    """End these attempts and claim as many behind them."""
    assert isinstance(world.store, HandoverStore)
    limit = given.pop("limit", len(ends))
    fields = {"queue": QUEUE, "worker": WORKER, "types": (TYPE,), "lease": LEASE, "start_count": limit, "number": 7}
    request = ClaimRequest(**fields | given, limit=limit, ids=ids)
    return await world.store.settle_and_claim(
        [outcome(claim, kind, ordering_key=claim.ordering_key) for claim in ends], [request]
    )


async def chain(world: World, first: Claim, ids: Sequence[str] | None = NEXT) -> list[str]:
    """End one job after the other, each by the trip that claims the next one where it does; return their order."""
    order: list[str] = []
    held = [first]
    while held:
        order += [claim.id for claim in held]
        settled, claims = await hand_over(world, held, ids)
        assert all(end.accepted for end in settled)
        held = claims or await world.claim(1)
    return order


async def test_jobs_of_a_key_are_handed_over_in_order(world: World) -> None:
    ids = await world.insert_many(8, ordering_key=KEY)
    (first,) = await world.claim(1)
    assert await chain(world, first) == ids
    assert (await world.inspector.conservation()).completed == 8


async def test_what_is_handed_over_is_claimed_as_ever(world: World) -> None:
    await world.insert_many(4, ordering_key=KEY, payload='{"n": 1}')
    held = await world.claim(1)
    for _ in range(3):
        ended = held
        settled, held = await hand_over(world, ended)
        if held:
            (claim,) = held
            assert [one.id for one in settled[0].unblocked] == [claim.id]
            assert (claim.payload, claim.ordering_key, claim.queue, claim.type) == ('{"n": 1}', KEY, QUEUE, TYPE)
            assert claim.token > ended[0].token
            reply = await world.beat()
            assert reply.lost == ()
            assert str((await world.inspector.get(claim.id)).status) == "running"
        held = held or await world.claim(1)


async def test_a_job_that_waits_for_its_key_is_not_claimed_before_its_turn(world: World) -> None:
    first, second, third = await world.insert_many(3, ordering_key=KEY)
    (held,) = await world.claim(1)
    _, claims = await hand_over(world, [held], limit=5)
    running = [held.id, *(claim.id for claim in claims or await world.claim(5))]
    assert running == [first, second]
    assert await world.status(third) == "queued"


async def test_only_what_the_ends_unblock_is_claimed_of_a_key(world: World) -> None:
    await world.insert_many(6, ordering_key=KEY)
    others = await world.insert_many(3)
    (first,) = [claim for claim in await world.claim(1)]
    for _ in range(5):
        _, claims = await hand_over(world, [first], limit=4)
        assert not {claim.id for claim in claims}.intersection(others)
        assert len(claims) <= 1
        (first,) = claims or [claim for claim in await world.claim(1) if claim.ordering_key]


async def test_a_retry_keeps_its_key_and_nothing_is_claimed(world: World) -> None:
    await world.insert_many(3, ordering_key=KEY)
    (held,) = await world.claim(1)
    for _ in range(2):
        settled, claims = await hand_over(world, [held], kind="retrying")
        assert (settled[0].accepted, claims) == (True, [])
        await world.advance(LEASE + 1)
        assert [ready.id for ready in await world.store.promote(10)] == [held.id]
        (held,) = await world.claim(5)


async def test_types_that_are_not_wanted_are_left(world: World) -> None:
    await world.insert(ordering_key=KEY)
    later = [await world.insert(ordering_key=KEY, type="other") for _ in range(2)]
    (held,) = await world.claim(1)
    settled, claims = await hand_over(world, [held])
    assert ([one.id for one in settled[0].unblocked], claims) == (later[:1], [])
    assert await world.claim_ids(types=("other",)) == later[:1]


async def test_a_stale_end_is_refused_and_claims_nothing_of_its_key(world: World) -> None:
    await world.insert_many(2, ordering_key=KEY)
    (old,) = await world.claim(1)
    await world.advance(LEASE + 1)
    await world.store.reclaim(10)
    (new,) = await world.claim(1)
    settled, claims = await hand_over(world, [old])
    assert (settled[0].accepted, claims) == (False, [])
    assert await world.status(new.id) == "running"


async def test_an_end_is_accepted_once_more(world: World) -> None:
    """The answer got lost: the ends go alone the next time, and nothing is counted twice."""
    await world.insert_many(3, ordering_key=KEY)
    (held,) = await world.claim(1)
    await hand_over(world, [held])
    assert (await world.settle(held, "completed", ordering_key=KEY)).accepted
    assert (await world.inspector.conservation()).completed == 1


async def test_what_a_lost_answer_gave_is_found_by_its_number(world: World) -> None:
    await world.insert_many(6, ordering_key=KEY)
    (held,) = await world.claim(1)
    claims: list[Claim] = []
    while not claims:
        _, claims = await hand_over(world, [held], number=41)
        held = claims[0] if claims else (await world.claim(1))[0]
    from queue_core.ports.store import Doubt

    reply = await world.beat(doubts=(Doubt(QUEUE, 41),))
    assert [(stray.id, stray.token) for stray in reply.strays] == [(claim.id, claim.token) for claim in claims]


async def test_best_ranks_behind_the_ends_of_a_limited_queue(ruled: Ruled) -> None:
    world = await ruled(concurrency=2)
    low = await world.insert_many(6, priority=0)
    held = await world.claim(5)
    assert [claim.id for claim in held] == low[:2]
    urgent = await world.insert(priority=20)
    seen = [claim.id for claim in held]
    while held:
        settled, claims = await hand_over(world, held, None)
        assert all(end.accepted for end in settled)
        held = claims + await world.claim(5)
        assert len(held) <= 2
        seen += [claim.id for claim in held]
    assert sorted(seen) == sorted([*low, urgent])
    assert seen.index(urgent) <= 4, "at the latest behind those that the trip before had seen"


async def test_no_more_run_than_may_over_several_processes(ruled: Ruled) -> None:
    worlds = [await ruled(concurrency=3) for _ in range(4)]
    ids = await worlds[0].insert_many(80)
    running: set[str] = set()
    most: list[int] = []
    done: list[str] = []

    async def work(number: int) -> None:
        world = worlds[number]
        idle = 0
        held: list[Claim] = []
        while idle < 20:
            if not held:
                held = await world.claim(3, worker=f"w{number}")
                running.update(claim.id for claim in held)
                most.append(len(running))
                idle = idle + 1 if not held else 0
                await asyncio.sleep(0.005 if not held else 0)
                continue
            ended, held = held, []
            # From the call on they may have ended, and until then they run.
            running.difference_update(claim.id for claim in ended)
            settled, held = await hand_over(world, ended, None, worker=f"w{number}")
            assert all(end.accepted for end in settled)
            done.extend(end.id for end in settled)
            running.update(claim.id for claim in held)
            most.append(len(running))

    await asyncio.gather(*(work(number) for number in range(4)))
    assert sorted(done) == sorted(ids)
    assert max(most) <= 3


async def test_a_rate_holds_behind_ends(ruled: Ruled) -> None:
    world = await ruled(concurrency=5, rate="2/s")
    await world.insert_many(10)
    held = await world.claim(5)
    assert len(held) == 2
    for _ in range(3):
        settled, claims = await hand_over(world, held, None)
        assert (len(settled), claims) == (len(held), [])
        held = await world.claim(5)
        assert held == []
        await world.advance(1.0)
        held = await world.claim(5)
        assert len(held) == 2


async def test_a_paused_queue_gives_nothing(ruled: Ruled) -> None:
    world = await ruled(concurrency=2)
    await world.insert_many(8)
    held = await world.claim(2)
    _, more = await hand_over(world, held, None)
    held = more or await world.claim(2)
    await world.operations.pause(QUEUE)
    settled, claims = await hand_over(world, held, None)
    assert (all(end.accepted for end in settled), claims) == (True, [])


async def test_failed_ends_hand_over_too(world: World) -> None:
    ids = await world.insert_many(4, ordering_key=KEY)
    (held,) = await world.claim(1)
    order = [held.id]
    for _ in range(3):
        assert held.ordering_key == KEY
        assert isinstance(world.store, HandoverStore)
        request = ClaimRequest(QUEUE, WORKER, (TYPE,), 1, LEASE, (), 1, 3)
        dead = outcome(held, "dead", failure=failure(), ordering_key=KEY)
        settled, claims = await world.store.settle_and_claim([dead], [request])
        assert settled[0].accepted
        (held,) = claims or await world.claim(1)
        order.append(held.id)
    assert order == ids


async def test_queues_without_a_request_are_settled_alike(opener: Opener) -> None:
    world = await opener()
    try:
        await world.insert_many(2, ordering_key=KEY)
        await world.insert_many(3, queue="other")
        held = await world.claim(1) + await world.claim(3, queue="other")
        settled, claims = await hand_over(world, held, limit=1)
        assert [end.accepted for end in settled] == [True] * 4
        assert [end.id for end in settled] == [claim.id for claim in held]
        assert {claim.queue for claim in claims} <= {QUEUE}
        where: Conservation = await world.inspector.conservation()
        assert where.completed == 4
    finally:
        await world.close()
