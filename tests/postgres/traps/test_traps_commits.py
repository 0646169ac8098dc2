"""Trap 17: claims and heartbeats commit without waiting for the disk, everything else waits, through any pooler."""

from __future__ import annotations

import psycopg
import pytest

from queue_core.model.settings import PostgresSettings
from queue_core.ports.store import ClaimRequest, LeaseRenewal
from queue_core.stores.postgres.session.runner import SerialRunner
from queue_core.stores.postgres.store import PostgresStore
from tests.conformance.making import LEASE, QUEUE, TYPE, WORKER, outcome, worker_beat
from tests.postgres.traps.conftest import NewHand
from tests.postgres.traps.hands import Hand, claim_parameters, new_job

WATCHED = {
    # table: what writes to it
    "jobs": "insert or update or delete",
    "leases": "insert or update or delete",
    "lease_epoch": "update",
    "job_history": "insert",
}


@pytest.fixture
def commits(new_hand: NewHand, postgres_url: str) -> Hand:
    """Notes, as the last thing before each commit, how it is going to be made."""
    hand = new_hand()
    hand.do(
        "create table commits (at_table text, operation text, setting text, place int generated always as identity)"
    )
    # Deferred, so that it runs when nothing can change the setting any more.
    hand.do(
        "create function note() returns trigger language plpgsql as $$ begin"
        " insert into commits (at_table, operation, setting)"
        " values (tg_argv[0], lower(tg_op), current_setting('synchronous_commit')); return null; end $$"
    )
    for table, operations in WATCHED.items():
        hand.do(
            f"create constraint trigger note after {operations} on {table} deferrable initially deferred"
            f" for each row execute function note('{table}')"
        )
    # Whatever this test's server was started with, the default of this database is the default of PostgreSQL.
    hand.do("do $$ begin execute format('alter database %I set synchronous_commit to on', current_database()); end $$")
    return hand


def taken(hand: Hand) -> set[tuple[str, str, str]]:
    rows = hand.do("with gone as (delete from commits returning *) select at_table, operation, setting from gone")
    return set(rows)


async def test_trap_17_only_claims_and_heartbeats_are_asynchronous(commits: Hand, postgres_url: str) -> None:
    store = PostgresStore(PostgresSettings(url=postgres_url))
    await store.acquire_leadership("sweep", WORKER, 0)
    assert taken(commits) == {("lease_epoch", "update", "on")}
    jobs = [new_job() for _ in range(6)]
    await store.insert(jobs)
    assert taken(commits) == {("jobs", "insert", "on")}
    request = ClaimRequest(QUEUE, WORKER, (TYPE,), 4, LEASE)
    claims = await store.claim(request._replace(ids=[job.id for job in jobs[:4]]))
    assert len(claims) == 4
    assert taken(commits) == {("leases", "insert", "off")}
    claims += await store.claim(request)
    assert len(claims) == 6
    assert taken(commits) == {("leases", "insert", "off")}
    heart = store.open_heartbeat()
    beat = worker_beat()._replace(leases=[])
    assert heart.renew(beat).lost == ()
    assert heart.renew(beat._replace(leases=[LeaseRenewal(claim.id, claim.token) for claim in claims])).lost == ()
    heart.close()
    assert taken(commits) == {("leases", "update", "off")}
    for claim, kind in zip(claims, ("completed", "cancelled", "retrying", "released", "dead"), strict=False):
        assert (await store.settle([outcome(claim, kind)]))[0].accepted
        found = taken(commits)
        assert {setting for _, _, setting in found} == {"on"}, kind
        assert ("leases", "delete", "on") in found
    commits.do("update leases set expires_at = now() - interval '1 second'")
    taken(commits)
    assert len(await store.reclaim(10)) == 1
    assert {setting for _, _, setting in taken(commits)} == {"on"}
    await store.close()


async def test_trap_17_ends_that_hand_over_are_durable(commits: Hand, postgres_url: str) -> None:
    """The claim behind them is in their transaction, and must not take the wait for the disk away from them."""
    store = PostgresStore(PostgresSettings(url=postgres_url))
    await store.acquire_leadership("sweep", WORKER, 0)
    await store.insert([new_job(ordering_key="key") for _ in range(3)])
    request = ClaimRequest(QUEUE, WORKER, (TYPE,), 1, LEASE, (), 1)
    (claim,) = await store.claim(request._replace(ids=None))
    taken(commits)
    for _ in range(2):
        ended = outcome(claim, "completed", ordering_key="key")
        settled, (claim,) = await store.settle_and_claim([ended], [request])
        assert settled[0].accepted
        found = taken(commits)
        assert {one for one in found if one[2] != "on"} == set()
        assert {("leases", "delete", "on"), ("leases", "insert", "on")} <= found
    await store.close()


async def test_trap_17_can_fail(commits: Hand, postgres_url: str) -> None:
    """With SET instead, the setting stays on the connection, and the next one's settle is not durable."""
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("set synchronous_commit to off")
        connection.execute("update lease_epoch set epoch = epoch")
    assert taken(commits) == {("lease_epoch", "update", "off")}


async def test_trap_17_a_claim_leaves_nothing_on_its_connection(store: PostgresStore, commits: Hand) -> None:
    """A pooler gives the connection to somebody else after each transaction."""
    await store.insert([new_job()])
    commits.do("set synchronous_commit to on")
    before = commits.do("select name, setting from pg_settings where source = 'session' order by name")
    assert len(commits.do("claim/by_rank", claim_parameters(1))) == 1
    assert commits.do("select name, setting from pg_settings where source = 'session' order by name") == before


@pytest.mark.parametrize("prepare", [True, False])
async def test_trap_17_prepared_statements_are_an_option(postgres_url: str, prepare: bool) -> None:
    runner = SerialRunner(PostgresSettings(url=postgres_url, prepare=prepare))
    for _ in range(5):
        await runner.run("store/next_due", {"back": 1e9})
    assert runner._session is not None
    cursor = await runner._session.connection.execute("select count(*) from pg_prepared_statements")
    assert await cursor.fetchone() == (int(prepare),)
    await runner.close()
