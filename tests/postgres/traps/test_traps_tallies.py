"""Trap 8: exact totals, counted where the settle is, and still no worker waits for another."""

from __future__ import annotations

import pytest

from queue_core.model.job import Claim
from queue_core.ports.store import ClaimRequest
from queue_core.stores.postgres.scans.blocks import WHOLE_TABLE
from queue_core.stores.postgres.store import PostgresStore
from tests.conformance.making import LEASE, QUEUE, TYPE, WORKER, outcome
from tests.postgres.traps.conftest import NewHand
from tests.postgres.traps.hands import insert_parameters, new_job, reclaim_parameters, settle_parameters

KINDS = ("completed", "cancelled", "retrying", "released", "dead")


async def two_claims(store: PostgresStore) -> list[Claim]:
    jobs = [new_job(), new_job()]
    await store.insert(jobs)
    return await store.claim(ClaimRequest(QUEUE, WORKER, (TYPE,), 2, LEASE, [job.id for job in jobs]))


async def test_trap_8_two_settles_of_one_queue_and_type_never_wait(store: PostgresStore, new_hand: NewHand) -> None:
    first, second, watching = new_hand(), new_hand(), new_hand()
    for kind in KINDS:
        mine, other = await two_claims(store)
        # The signature of a failure exists already: only who sees a new one first may have to be waited for.
        await store.settle([outcome((await two_claims(store))[0], "dead")])
        with first.transaction():
            first.do(*settle_parameters([outcome(mine, kind)]))
            late = second.later(*settle_parameters([outcome(other, kind)]))
            assert not second.waits_or_ends(late, watching), kind
        assert len(late.result()) == 1


@pytest.mark.parametrize("kind", ["completed", "cancelled", "dead"])
async def test_a_wait_as_long_as_a_bound_belongs_to_its_bucket(
    store: PostgresStore, new_hand: NewHand, kind: str
) -> None:
    hand = new_hand()
    for wait in (1000, 1001):
        claim, _ = await two_claims(store)
        due = "(select run_at from jobs where jobs.id = leases.id)"
        hand.do(f"update leases set started_at = {due} + make_interval(secs => %(us)s / 1e6)", {"us": wait})
        await store.settle([outcome(claim, kind)])
    found = hand.do("select wait_us, wait_bucket from tally_deltas where outcome = %(kind)s order by 1", {"kind": kind})
    assert found == [(1000, 0), (1001, 1)]


async def test_trap_8_enqueue_reclaim_and_fold_never_wait(store: PostgresStore, new_hand: NewHand) -> None:
    first, second, watching = new_hand(), new_hand(), new_hand()
    await two_claims(store)
    watching.do("update leases set expires_at = now() - interval '1 second'")
    with first.transaction():
        first.do("insert/jobs", insert_parameters([new_job()], 1))
        for statement, params in (
            ("insert/jobs", insert_parameters([new_job()], 1)),
            ("settle/reclaim", reclaim_parameters()),
            ("upkeep/fold", {"limit": 100, **WHOLE_TABLE}),
        ):
            late = second.later(statement, params)
            assert not second.waits_or_ends(late, watching), statement
            assert late.result()


async def test_trap_8_can_fail(store: PostgresStore, new_hand: NewHand) -> None:
    """One row that every settle counts up is seen: the second one waits until the first has committed."""
    first, second, watching = new_hand(), new_hand(), new_hand()
    watching.do("create table counter (n bigint)")
    watching.do("insert into counter values (0)")
    count = b"update counter set n = n + 1 returning n"
    with first.transaction():
        first.do(count)
        late = second.later(count)
        assert second.waits_or_ends(late, watching)
    assert late.result() == [(2,)]


async def test_trap_8_a_settle_that_is_rolled_back_counts_nothing(store: PostgresStore, new_hand: NewHand) -> None:
    hand = new_hand()
    mine, other = await two_claims(store)
    await store.upkeep()
    hand.do("begin")
    hand.do(*settle_parameters([outcome(mine, "completed")]))
    hand.do("rollback")
    await store.settle([outcome(other, "completed")])
    for _ in range(2):
        rows = hand.do(
            "select outcome, sum(n)::int from (select outcome, n from tally_deltas union all"
            " select outcome, n from tallies) t group by 1 order by 1"
        )
        assert rows == [("completed", 1), ("enqueued", 2)]
        await store.upkeep()
