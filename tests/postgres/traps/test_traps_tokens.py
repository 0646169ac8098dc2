"""Trap 1: a lease token never comes twice, although claims commit asynchronously and a crash takes some back."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from jobconsole.embedded.servers import EmbeddedServers
from queue_core.model.job import Claim
from queue_core.model.settings import SCHEMA, PostgresSettings
from queue_core.ports.store import ClaimRequest
from queue_core.stores.postgres.dialect import load
from queue_core.stores.postgres.migrate import migrate
from queue_core.stores.postgres.store import PostgresStore
from tests.conformance.making import LEASE, QUEUE, TYPE, WORKER, outcome
from tests.conftest import StartServers
from tests.postgres.schema.test_restores import DAYS
from tests.postgres.traps.hands import Hand, claim_parameters, new_job, without

SLOW_WRITER = {"wal_writer_delay": "10s", "bgwriter_delay": "10s", "full_page_writes": "off"}
"""What is committed asynchronously stays in memory for long enough to be lost with the server, each time."""
NEW_PAGE = "SELECT pg_switch_wal()"
"""Up to PostgreSQL 16 a full page of the log is written at once: what is to be lost has to fit into one."""


@pytest.fixture
def servers_with_a_slow_writer(start_servers: StartServers) -> EmbeddedServers:
    """Servers that lose the last asynchronous commits when they are killed."""
    servers = start_servers(postgres_options=SLOW_WRITER | {"synchronous_commit": "on"})
    migrate(servers.postgres_url)
    return servers


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(PostgresSettings(url=url))
    await store.open()
    yield store
    await store.close()


def crash(servers: EmbeddedServers) -> None:
    servers.postgres.stop("immediate")
    servers.postgres.start()


async def claim_all(store: PostgresStore, worker: str = WORKER) -> list[Claim]:
    await store.queues()
    return await store.claim(ClaimRequest(QUEUE, worker, (TYPE,), 100, LEASE))


async def test_trap_1_no_token_comes_twice_after_a_crash(servers_with_a_slow_writer: EmbeddedServers) -> None:
    url = servers_with_a_slow_writer.postgres_url
    tokens: list[int] = []
    lost = 0
    for number in range(3):
        async with opened(url) as store:
            await store.insert([new_job() for _ in range(5)])
            assert await claim_all(store) == [], "claims wait until a higher epoch is durable"
            assert await store.acquire_leadership("sweep", WORKER, 0)
            claims = await claim_all(store)
            tokens += [claim.token for claim in claims]
            lost += len(claims) > 5 * (number > 0)
        crash(servers_with_a_slow_writer)
    assert lost, "the crashes have to lose claims, else this test shows nothing"
    assert len(tokens) > 15
    assert tokens == sorted(set(tokens))


async def test_trap_1_can_fail(servers_with_a_slow_writer: EmbeddedServers) -> None:
    """Without the epoch, the sequence gives the same numbers again."""
    url = servers_with_a_slow_writer.postgres_url
    epoch = (
        '(SELECT epoch FROM "jobconsole".lease_epoch_live)::bigint << 40 | ',
        'WHERE EXISTS (SELECT FROM "jobconsole".lease_epoch_live)',
    )
    text = without(load("claim/by_rank", SCHEMA), *epoch)
    async with opened(url) as store:
        await store.insert([new_job() for _ in range(5)])
    numbers = []
    for _ in range(2):
        with Hand(url) as hand:
            hand.do(NEW_PAGE)
            numbers.append([row[1] for row in hand.do(text, claim_parameters(1))])
        crash(servers_with_a_slow_writer)
    assert numbers[0] == numbers[1] != []


async def test_trap_1_a_settle_from_before_the_crash_is_refused(servers_with_a_slow_writer: EmbeddedServers) -> None:
    url = servers_with_a_slow_writer.postgres_url
    async with opened(url) as store:
        await store.acquire_leadership("sweep", WORKER, 0)
        await store.insert([new_job() for _ in range(3)])
        before = await claim_all(store, "worker-1")
    crash(servers_with_a_slow_writer)
    async with opened(url) as store:
        await store.acquire_leadership("sweep", WORKER, 0)
        after = await claim_all(store, "worker-2")
        assert {claim.id for claim in after} == {claim.id for claim in before}, "the claims are lost, the jobs are not"
        assert min(claim.token for claim in after) > max(claim.token for claim in before)
        refused = await store.settle([outcome(claim, "completed") for claim in before])
        assert [one.accepted for one in refused] == [False] * 3
        accepted = await store.settle([outcome(claim, "completed") for claim in after])
        assert [one.accepted for one in accepted] == [True] * 3


async def test_trap_1_the_epoch_is_durable_where_commits_are_not(start_servers: StartServers) -> None:
    """A server whose default is asynchronous commits loses jobs in a crash, but gives no token twice either."""
    servers = start_servers(postgres_options=SLOW_WRITER | {"synchronous_commit": "off"})
    migrate(servers.postgres_url)
    tokens = []
    for _ in range(3):
        async with opened(servers.postgres_url) as store:
            await store.acquire_leadership("sweep", WORKER, 0)
            await store.insert([new_job()])
            # Also one whose insert survived the crash, and whose claim did not.
            tokens += [claim.token for claim in await claim_all(store)]
        crash(servers)
    assert len(tokens) == len(set(tokens))
    assert len({token >> 40 for token in tokens}) == 3


async def test_trap_1_an_orderly_restart_keeps_the_epoch(own_servers: EmbeddedServers) -> None:
    migrate(own_servers.postgres_url)
    async with opened(own_servers.postgres_url) as store:
        await store.acquire_leadership("sweep", WORKER, 0)
        await store.insert([new_job()])
        (first,) = await claim_all(store)
    own_servers.postgres.stop("fast")
    own_servers.postgres.start()
    async with opened(own_servers.postgres_url) as store:
        await store.insert([new_job()])
        (second,) = await claim_all(store)
    assert second.token > first.token
    assert second.token >> 40 == first.token >> 40


async def test_trap_1_two_leaders_raise_the_epoch_once(postgres_url: str) -> None:
    async with opened(postgres_url) as first, opened(postgres_url) as second:
        with Hand(postgres_url) as hand:
            await first.acquire_leadership("sweep", "leader-1", 0)
            await second.acquire_leadership("sweep", "leader-2", 0)
            ((once, live),) = hand.do("select e.epoch, l.epoch from lease_epoch e, lease_epoch_live l")
            ((days,),) = hand.do(DAYS)
            assert days - 1 <= once == live <= days
            hand.do("delete from lease_epoch_live")
            with hand.transaction():
                hand.do("epoch/lock")
                hand.do("epoch/raise", {"place": "here"})
            ((raised, live),) = hand.do("select e.epoch, l.epoch from lease_epoch e, lease_epoch_live l")
            assert raised == live == once + 1
            await second.acquire_leadership("sweep", "leader-2", 0)
            assert hand.do("select e.epoch, l.epoch from lease_epoch e, lease_epoch_live l") == [(raised, raised)]
