"""Trap 6: order is a number of the store, the same at every offer, and fits both a float and an index."""

from __future__ import annotations

import psycopg
import pytest

from queue_core.model.job import Claim
from queue_core.model.rules import QueueRules
from queue_core.model.settings import PostgresSettings
from queue_core.ports.store import ClaimRequest
from queue_core.stores.postgres.store import PostgresStore
from tests.conformance.making import LEASE, QUEUE, TYPE, WORKER, outcome
from tests.postgres.traps.conftest import NewHand
from tests.postgres.traps.hands import new_job, reclaim_parameters

LAST_SEQ = (1 << 45) - 1


async def claim(store: PostgresStore, job_id: str) -> Claim:
    (claimed,) = await store.claim(ClaimRequest(QUEUE, WORKER, (TYPE,), 1, LEASE, [job_id]))
    return claimed


async def test_trap_6_every_rank_is_exact_as_a_float(store: PostgresStore, new_hand: NewHand) -> None:
    """From the first job of the highest priority to the last one of the lowest."""
    hand = new_hand()
    (first,) = await store.insert([new_job(priority=127)])
    hand.do("select setval('job_seq', %(last)s, false)", {"last": LAST_SEQ})
    (last,) = await store.insert([new_job(priority=-128)])
    assert (first.rank, last.rank) == (1, (255 << 45) | LAST_SEQ)
    assert last.rank == 2**53 - 1
    for rank in (first.rank, last.rank):
        assert int(float(rank)) == rank != int(float(rank)) - 1
        assert int(float(repr(float(rank)))) == rank


async def test_trap_6_arrival_decides_and_not_the_id(store: PostgresStore) -> None:
    """The id is a producer's and carries its clock; a producer whose clock is late is not put last."""
    late = "0fffffff-ffff-7fff-bfff-ffffffffffff"
    early = "00000000-0000-7000-8000-000000000000"
    first, second, third = await store.insert([new_job(id=late), new_job(id=early), new_job(priority=6)])
    ready = await store.list_ready(QUEUE, -1, 10)
    assert [job.id for job in ready] == [third.id, first.id, second.id]


async def test_trap_6_a_job_keeps_its_rank_through_retry_release_and_reclaim(
    store: PostgresStore, new_hand: NewHand
) -> None:
    """So that offering it again changes nothing where it is offered already."""
    hand = new_hand()
    (job, _) = await store.insert([new_job(), new_job()])
    ranks = [job.rank]
    (settled,) = await store.settle([outcome(await claim(store, job.id), "released")])
    ranks.append(settled.rank)
    await store.settle([outcome(await claim(store, job.id), "retrying", delay=0.0)])
    ranks += [ready.rank for ready in await store.promote(10)]
    ranks.append((await claim(store, job.id)).rank)
    hand.do("update leases set expires_at = now() - interval '1 second'")
    assert len(hand.do("settle/reclaim", reclaim_parameters())) == 1
    ranks += [ready.rank for ready in await store.list_claimable(QUEUE, 1)]
    ranks += [ready.rank for ready in await store.list_ready(QUEUE, -1, 1)]
    assert set(ranks) == {job.rank}
    assert len(ranks) == 5, "no worker has announced the type, so that the head is empty"


async def test_trap_6_the_database_refuses_another_rank(store: PostgresStore, new_hand: NewHand) -> None:
    """What a rank has to be stands in a constraint: no statement can write another one."""
    hand = new_hand()
    await store.insert([new_job()])
    for change in ("rank = rank + 1", "priority = priority + 1", "rank = null", "seq = seq + 1"):
        with pytest.raises(psycopg.errors.CheckViolation, match="jobs_ready_check"):
            hand.do(f"update jobs set {change}")


async def test_trap_6_arrivals_in_a_queue_with_aging_only_grow(postgres_url: str, new_hand: NewHand) -> None:
    """After a failover to a server whose clock is behind, or when the clock was set back."""
    store = PostgresStore(PostgresSettings(url=postgres_url), rules={QUEUE: QueueRules(aging=10.0)})
    (first,) = await store.insert([new_job()])
    new_hand().do("update queue_arrivals set last_us = last_us + 3600000000")
    (second,), (third,) = await store.insert([new_job()]), await store.insert([new_job()])
    await store.close()
    assert second.rank == first.rank + 3600_000_000 + 1  # type: ignore[operator]
    assert third.rank == second.rank + 1
