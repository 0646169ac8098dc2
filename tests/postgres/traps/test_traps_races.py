"""Traps 2 and 3: what the locks and the fence of the hot path are for, each race made to happen by hand.

Every test runs twice: with the statement as it is, and with the clause taken out that decides the race, to show that it
would be seen.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from queue_core.model.job import Claim
from queue_core.model.settings import SCHEMA
from queue_core.ports.store import ClaimRequest
from queue_core.stores.postgres.dialect import load
from queue_core.stores.postgres.store import PostgresStore
from tests.conformance.making import LEASE, QUEUE, TYPE, WORKER, outcome
from tests.postgres.traps.conftest import NewHand
from tests.postgres.traps.hands import (
    Hand,
    beat_parameters,
    claim_parameters,
    new_job,
    reclaim_parameters,
    settle_parameters,
    without,
)

LOCK = "FOR NO KEY UPDATE OF j SKIP LOCKED"
FENCE = "AND last_token = ANY (ARRAY(SELECT DISTINCT last_token FROM held))"
KINDS = ("completed", "cancelled", "retrying", "released", "dead")


async def running(store: PostgresStore, count: int = 1) -> list[Claim]:
    jobs = [new_job() for _ in range(count)]
    await store.insert(jobs)
    claims = await store.claim(ClaimRequest(QUEUE, WORKER, (TYPE,), count, LEASE, [job.id for job in jobs]))
    assert len(claims) == count
    return claims


async def queue_number(store: PostgresStore, hand: Hand) -> int:
    await store.queues()
    number: int = hand.do("select id from queues where name = %(name)s", {"name": QUEUE})[0][0]
    return number


def expire(hand: Hand) -> None:
    hand.do("update leases set expires_at = now() - interval '1 second'")


def places(hand: Hand, job_id: str) -> list[str]:
    """Return every table that holds the job."""
    tables = ("jobs", "leases", "jobs_dead", "job_history")
    return [table for table in tables if hand.do(f"select 1 from {table} where id = %(id)s", {"id": job_id})]


# -- 2: a claim locks the job's row


async def completed_while_a_claim_runs(
    store: PostgresStore, new_hand: NewHand, claim_statement: bytes
) -> tuple[bool, list[str]]:
    """Let a claim by ids start while the job's settle is not committed; say whether it waited, and where the job is."""
    (claim,) = await running(store)
    settling, claiming, watching = new_hand(), new_hand(), new_hand()
    params = claim_parameters(await queue_number(store, watching), [claim.id], worker="worker-2")
    with settling.transaction():
        settling.do(*settle_parameters([outcome(claim, "completed")]))
        late = claiming.later(claim_statement, params)
        waited = claiming.waits_or_ends(late, watching)
    late.result()
    return waited, places(watching, claim.id)


async def test_trap_2_a_job_that_is_just_completed_is_not_claimed(store: PostgresStore, new_hand: NewHand) -> None:
    waited, where = await completed_while_a_claim_runs(store, new_hand, load("claim/by_ids", SCHEMA))
    assert where == ["job_history"]
    assert not waited, "a claim leaves locked jobs to others"


async def test_trap_2_can_fail(store: PostgresStore, new_hand: NewHand) -> None:
    """Without the lock the claim waits at the lease, and then runs the completed job again."""
    _, where = await completed_while_a_claim_runs(store, new_hand, without(load("claim/by_ids", SCHEMA), LOCK))
    assert where == ["leases", "job_history"]


async def test_trap_2_two_claims_of_one_job_give_it_to_one(store: PostgresStore, new_hand: NewHand) -> None:
    job = new_job()
    await store.insert([job])
    first, second, watching = new_hand(), new_hand(), new_hand()
    number = await queue_number(store, watching)
    for statement, ids in (("claim/by_ids", [job.id]), ("claim/by_rank", None)):
        with first.transaction():
            assert len(first.do("claim/by_ids", claim_parameters(number, [job.id]))) == 1
            late = second.later(statement, claim_parameters(number, ids, worker="worker-2"))
            assert not second.waits_or_ends(late, watching)
        assert late.result() == []
        assert second.do(statement, claim_parameters(number, ids, worker="worker-2")) == []
        watching.do("delete from leases")


# -- 3: lock order and fence


def ended_by_reclaim(hand: Hand, claim: Claim) -> None:
    expire(hand)
    assert len(hand.do("settle/reclaim", reclaim_parameters())) == 1


def ended_by(kind: str) -> Callable[[Hand, Claim], None]:
    def end(hand: Hand, claim: Claim) -> None:
        assert len(hand.do(*settle_parameters([outcome(claim, kind)]))) == 1

    return end


def ended_in_place(hand: Hand, claim: Claim) -> None:
    """The statements of the product write such a row anew; one that changes it where it stands needs the fence."""
    hand.do("update jobs set last_token = %(token)s where id = %(id)s", {"token": claim.token, "id": claim.id})
    hand.do("delete from leases where id = %(id)s", {"id": claim.id})


ENDINGS: dict[str, Callable[[Hand, Claim], None]] = {
    "in_place": ended_in_place,
    "reclaim": ended_by_reclaim,
    "retry": ended_by("retrying"),
    "release": ended_by("released"),
}


async def settled_while_the_job_goes_back(
    store: PostgresStore, new_hand: NewHand, ending: str, kind: str, *clauses: str
) -> tuple[list[Any], list[str], int]:
    """Let a zombie's settle start while its job is being requeued; return its rows, where the job is, and its token."""
    (claim,) = await running(store)
    first, zombie, watching = new_hand(), new_hand(), new_hand()
    statement, params = settle_parameters([outcome(claim, kind)])
    with first.transaction():
        ENDINGS[ending](first, claim)
        late = zombie.later(without(load(statement, SCHEMA), *clauses), params)
        assert zombie.waits_or_ends(late, watching), "the settle has to have seen the job as it was before"
    rows = late.result()
    tokens = watching.do("select last_token from jobs where id = %(id)s", {"id": claim.id})
    return rows, places(watching, claim.id), tokens[0][0] - claim.token if tokens else -1


@pytest.mark.parametrize("ending", ENDINGS)
async def test_trap_3_a_zombie_cannot_settle_a_job_that_was_just_requeued(
    store: PostgresStore, new_hand: NewHand, ending: str
) -> None:
    for kind in KINDS:
        assert await settled_while_the_job_goes_back(store, new_hand, ending, kind) == ([], ["jobs"], 0), kind


async def test_trap_3_can_fail(store: PostgresStore, new_hand: NewHand) -> None:
    """With the token checked on the lease alone, the zombie takes the requeued job away."""
    for kind in ("completed", "cancelled"):
        rows, where, _ = await settled_while_the_job_goes_back(store, new_hand, "in_place", kind, FENCE)
        assert (len(rows), where) == (1, ["job_history"]), kind


async def test_trap_3_requeue_can_fail(store: PostgresStore, new_hand: NewHand) -> None:
    """Without the fence a job that waits for its backoff is made ready by its own earlier attempt."""
    rows, where, _ = await settled_while_the_job_goes_back(store, new_hand, "in_place", "released", FENCE)
    assert (len(rows), where) == (1, ["jobs"])


def lease_is_locked(hand: Hand) -> bool:
    try:
        hand.do("select 1 from leases for update nowait")
    except psycopg.errors.LockNotAvailable:
        return True
    return False


async def test_trap_3_a_settle_locks_the_job_before_its_lease(store: PostgresStore, new_hand: NewHand) -> None:
    """Whoever waits for a job holds no lease, so that no two writers can wait for each other."""
    holding, settling, watching = new_hand(), new_hand(), new_hand()
    for kind in KINDS:
        (claim,) = await running(store)
        with holding.transaction():
            holding.do("select 1 from jobs for no key update")
            late = settling.later(*settle_parameters([outcome(claim, kind)]))
            assert settling.waits_or_ends(late, watching)
            assert not lease_is_locked(watching), kind
        assert len(late.result()) == 1


async def test_trap_3_a_reclaim_locks_the_job_before_its_lease(store: PostgresStore, new_hand: NewHand) -> None:
    await running(store)
    holding, reclaiming, watching = new_hand(), new_hand(), new_hand()
    expire(watching)
    with holding.transaction():
        holding.do("select 1 from jobs for no key update")
        late = reclaiming.later("settle/reclaim", reclaim_parameters())
        assert not reclaiming.waits_or_ends(late, watching), "a job that somebody else has locked is left to him"
        assert late.result() == []
        assert not lease_is_locked(watching)


async def test_trap_3_lock_order_can_fail(store: PostgresStore, new_hand: NewHand) -> None:
    """The other order is seen: a lease is taken first, and the job is waited for with it in hand."""
    (claim,) = await running(store)
    holding, settling, watching = new_hand(), new_hand(), new_hand()
    lease_first = (
        b"with freed as materialized (delete from leases where id = %(id)s returning id)"
        b" delete from jobs j using freed f where j.id = f.id returning j.id"
    )
    with holding.transaction():
        holding.do("select 1 from jobs for no key update")
        late = settling.later(lease_first, {"id": claim.id})
        assert settling.waits_or_ends(late, watching)
        assert lease_is_locked(watching)
    late.result()


async def reclaimed_while_a_heartbeat_renews(
    store: PostgresStore, new_hand: NewHand, *clauses: str
) -> tuple[list[Any], list[str]]:
    """Let a reclaim start while the heartbeat that renews the expired lease is not committed."""
    (claim,) = await running(store)
    beating, reclaiming, watching = new_hand(), new_hand(), new_hand()
    expire(watching)
    statement = without(load("settle/reclaim", SCHEMA), *clauses)
    with beating.transaction():
        beating.do("heartbeat/beat", beat_parameters([claim]))
        late = reclaiming.later(statement, reclaim_parameters())
        reclaiming.waits_or_ends(late, watching)
    return late.result(), places(watching, claim.id)


async def test_trap_3_a_lease_that_was_just_renewed_is_not_taken_back(store: PostgresStore, new_hand: NewHand) -> None:
    assert await reclaimed_while_a_heartbeat_renews(store, new_hand) == ([], ["jobs", "leases"])


async def test_trap_3_renewal_can_fail(store: PostgresStore, new_hand: NewHand) -> None:
    rows, where = await reclaimed_while_a_heartbeat_renews(store, new_hand, "AND expires_at < now()")
    assert (len(rows), where) == (1, ["jobs"])


async def test_trap_3_a_heartbeat_never_waits_for_a_settle(store: PostgresStore, new_hand: NewHand) -> None:
    """It could only deadlock; and the lease that is about to go is not called lost before it has gone."""
    ending, staying = await running(store, 2)
    settling, beating, watching = new_hand(), new_hand(), new_hand()
    watching.do("update leases set expires_at = now() + interval '1 second'")
    with settling.transaction():
        settling.do(*settle_parameters([outcome(ending, "completed")]))
        late = beating.later("heartbeat/beat", beat_parameters([ending, staying]))
        assert not beating.waits_or_ends(late, watching)
        assert {row[0] for row in late.result() if row[0]} == {ending.id, staying.id}
    left = watching.do("select id::text, expires_at > now() + interval '30 seconds' from leases")
    assert left == [(staying.id, True)]


async def test_trap_3_an_order_that_comes_while_a_heartbeat_is_written_waits_for_the_next_one(
    store: PostgresStore, new_hand: NewHand
) -> None:
    """What a heartbeat takes away is the order that it answers with, not one that was committed meanwhile."""
    ordering, beating, watching = new_hand(), new_hand(), new_hand()
    beating.do("heartbeat/beat", beat_parameters([]))
    with ordering.transaction():
        ordering.do("update workers set command = 'quiet'")
        late = beating.later("heartbeat/beat", beat_parameters([]))
        assert beating.waits_or_ends(late, watching)
    assert [row[2] for row in late.result() if not row[0]] == [""]
    assert [row[2] for row in beating.do("heartbeat/beat", beat_parameters([])) if not row[0]] == ["quiet"]
    assert watching.do("select command from workers") == [("",)]


async def test_trap_3_heartbeat_can_fail(store: PostgresStore, new_hand: NewHand) -> None:
    (claim,) = await running(store)
    settling, beating, watching = new_hand(), new_hand(), new_hand()
    with settling.transaction():
        settling.do(*settle_parameters([outcome(claim, "completed")]))
        text = without(load("heartbeat/beat", SCHEMA), "SKIP LOCKED")
        late = beating.later(text, beat_parameters([claim]))
        assert beating.waits_or_ends(late, watching)
    late.result()


async def test_trap_3_settles_of_many_and_claims_of_the_same_never_deadlock(
    store: PostgresStore, new_hand: NewHand
) -> None:
    """Two settles that overlap in opposite order, a claim, a reclaim and a heartbeat, all at once, again and again."""
    watching = new_hand()
    for _ in range(10):
        claims = await running(store, 40)
        number = await queue_number(store, watching)
        ids = [claim.id for claim in claims]
        hands = [new_hand() for _ in range(5)]
        futures = [
            hands[0].later(*settle_parameters([outcome(claim, "completed") for claim in claims])),
            hands[1].later(*settle_parameters([outcome(claim, "retrying") for claim in reversed(claims)])),
            hands[2].later("claim/by_ids", claim_parameters(number, ids[::-1], worker="worker-2")),
            hands[3].later("settle/reclaim", reclaim_parameters()),
            hands[4].later("heartbeat/beat", beat_parameters(claims)),
        ]
        ended = [len(future.result()) for future in futures]
        assert ended[0] + ended[1] == len(claims), "each attempt ended once"
        for hand in hands:
            hand.close()
        watching.do("delete from leases")
        watching.do("delete from jobs")
