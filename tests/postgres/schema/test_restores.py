"""A lease token never comes twice, whatever is restored: an attempt of before cannot end in place of a later one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from queue_core.model.job import Claim
from queue_core.model.settings import SCHEMA, PostgresSettings
from queue_core.ports.store import ClaimRequest
from queue_core.stores.postgres.session.epoch import EPOCH_SECONDS
from queue_core.stores.postgres.store import PostgresStore
from tests.conformance.making import LEASE, QUEUE, TYPE, new_job, outcome
from tests.postgres.schema.programs import backup_programs, run
from tests.postgres.traps.hands import Hand
from tests.servers import SessionServers, random_name

Restore = Callable[[], None]
Backup = Callable[[str], Restore]
"""Makes a backup of the schema in a database, and returns what puts it in the place of what is there then."""
DAYS = "select floor(extract(epoch from clock_timestamp() - timestamptz '2025-01-01 00:00+00') / 86400)::int"


def dump_backup(programs: Path, file: Path, *options: str) -> Backup:
    """Return a backup by pg_dump and pg_restore."""

    def backup(url: str) -> Restore:
        assert run(programs / "pg_dump", "-Fc", "-n", SCHEMA, *options, "-f", file, url) == ""

        def restore() -> None:
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute(f"drop schema {SCHEMA} cascade".encode())
            assert run(programs / "pg_restore", "-d", url, file) == ""

        return restore

    return backup


def copy_backup(url: str) -> Restore:
    """Make a backup of a database by copying it as a whole, which keeps the numbers of all tables."""
    copy = random_name("copy")
    with psycopg.connect(url) as connection:
        name = connection.info.dbname

    def replace(target: str, source: str) -> None:
        with psycopg.connect(url, dbname="postgres", autocommit=True) as connection:
            connection.execute(sql.SQL("drop database if exists {} (force)").format(sql.Identifier(target)))
            made = sql.SQL("create database {} template {}")
            connection.execute(made.format(sql.Identifier(target), sql.Identifier(source)))

    def restore() -> None:
        replace(name, copy)
        with psycopg.connect(url, dbname="postgres", autocommit=True) as connection:
            connection.execute(sql.SQL("drop database {}").format(sql.Identifier(copy)))

    replace(copy, name)
    return restore


@pytest.fixture(params=["dump", "dump without the live epoch", "database"])
def backup(request: pytest.FixtureRequest, servers: SessionServers, postgres_url: str, tmp_path: Path) -> Backup:
    """A way to make backups."""
    if request.param == "database":
        return copy_backup
    options = ("--no-unlogged-table-data",) if "without" in request.param else ()
    return dump_backup(backup_programs(servers, postgres_url), tmp_path / "dump", *options)


async def claim(url: str, worker: str, leads: bool = True) -> list[Claim]:
    """Claim what is there, as a worker that leads if need be."""
    store = PostgresStore(PostgresSettings(url=url))
    await store.open()
    try:
        if leads:
            assert await store.acquire_leadership("sweep", worker, 0)
        await store.queues()
        return await store.claim(ClaimRequest(QUEUE, worker, (TYPE,), 100, LEASE))
    finally:
        await store.close()


async def end(url: str, claimed: Claim) -> bool:
    """End an attempt; return whether that was accepted."""
    store = PostgresStore(PostgresSettings(url=url))
    await store.open()
    try:
        (answer,) = await store.settle([outcome(claimed, "completed")])
        return answer.accepted
    finally:
        await store.close()


async def prepare(url: str) -> None:
    """Leave a job that waits, on a server that has given out a token already."""
    store = PostgresStore(PostgresSettings(url=url))
    await store.open()
    await store.insert([new_job()])
    (first,) = await claim(url, "first")
    assert (await store.settle([outcome(first, "completed")]))[0].accepted
    await store.insert([new_job()])
    await store.close()


async def test_a_restored_store_goes_on_above_all_tokens_given_out(postgres_url: str, backup: Backup) -> None:
    await prepare(postgres_url)
    restore = backup(postgres_url)
    (old,) = await claim(postgres_url, "frozen")
    restore()
    (new,) = await claim(postgres_url, "present")
    assert (new.id, new.token > old.token) == (old.id, True)
    assert not await end(postgres_url, old)
    assert await end(postgres_url, new)


async def test_one_that_had_given_out_no_token_repeats_nothing(postgres_url: str, backup: Backup) -> None:
    """Whatever is restored, its first token is another one than that of the store that it replaces."""
    store = PostgresStore(PostgresSettings(url=postgres_url))
    await store.open()
    await store.insert([new_job()])
    await store.close()
    restore = backup(postgres_url)
    (old,) = await claim(postgres_url, "frozen")
    restore()
    (new,) = await claim(postgres_url, "present")
    assert (new.id, new.token > old.token) == (old.id, True)
    assert not await end(postgres_url, old)
    assert await end(postgres_url, new)


async def test_the_first_claim_raises_the_epoch_whoever_leads(
    servers: SessionServers, postgres_url: str, tmp_path: Path
) -> None:
    await prepare(postgres_url)
    restore = dump_backup(backup_programs(servers, postgres_url), tmp_path / "dump")(postgres_url)
    (old,) = await claim(postgres_url, "frozen")
    restore()
    (new,) = await claim(postgres_url, "no leader", leads=False)
    assert new.token >> 40 > old.token >> 40


async def test_a_worker_that_hung_meanwhile_raises_the_epoch(
    servers: SessionServers, postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await prepare(postgres_url)
    restore = dump_backup(backup_programs(servers, postgres_url), tmp_path / "dump")(postgres_url)
    store = PostgresStore(PostgresSettings(url=postgres_url))
    await store.open()
    request = ClaimRequest(QUEUE, "hung", (TYPE,), 100, LEASE)
    (old,) = await store.claim(request)
    restore()
    monkeypatch.setattr(time, "monotonic", lambda began=time.monotonic: began() + EPOCH_SECONDS)
    (new,) = await store.claim(request)
    assert (new.id, new.token >> 40 > old.token >> 40) == (old.id, True)
    await store.close()


async def test_one_that_is_restored_twice_repeats_nothing(
    servers: SessionServers, postgres_url: str, tmp_path: Path
) -> None:
    """Also where the epoch was raised meanwhile by a crash, which the dump knows nothing of."""
    restore = dump_backup(backup_programs(servers, postgres_url), tmp_path / "dump")
    await prepare(postgres_url)
    again = restore(postgres_url)
    claims = await claim(postgres_url, "before")
    with Hand(postgres_url) as hand:
        hand.do("truncate lease_epoch_live, leases")
    claims += await claim(postgres_url, "after the crash")
    for number in range(3):
        again()
        claims += await claim(postgres_url, f"restored {number}")
    assert len({one.id for one in claims}) == 1
    tokens = [one.token for one in claims]
    assert len(set(tokens)) == len(tokens) == 5
    assert max(tokens) < 1 << 53, "readers of JSON in other languages have no greater whole numbers"
    assert [await end(postgres_url, one) for one in claims] == [False] * 4 + [True]


async def test_an_epoch_goes_on_at_the_days_since_2025_and_never_back(postgres_url: str) -> None:
    await prepare(postgres_url)
    with Hand(postgres_url) as hand:
        ((first,),) = hand.do("select epoch from lease_epoch")
        ((days,),) = hand.do(DAYS)
        assert days - 1 <= first <= days, "a new store has no copies yet, but may have some later"
        hand.do("update lease_epoch set epoch = 1")
        hand.do("truncate lease_epoch_live, leases")
        await claim(postgres_url, "after a crash")
        ((epoch, sequence),) = hand.do("select epoch, last_value from lease_epoch, lease_seq")
        assert days <= epoch <= days + 1
        assert sequence <= 86_400_000_000
        hand.do("update lease_epoch set epoch = 4000000")
        hand.do("select setval('lease_seq', %(value)s)", {"value": 1 << 39})
        hand.do("truncate lease_epoch_live, leases")
        (claimed,) = await claim(postgres_url, "with a clock that was set back")
    assert divmod(claimed.token, 1 << 40) > (4_000_001, 1 << 39)


GRANTS = """
GRANT USAGE ON SCHEMA jobconsole TO {role};
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA jobconsole TO {role};
GRANT USAGE ON ALL SEQUENCES IN SCHEMA jobconsole TO {role}
"""


@contextmanager
def worker_role(url: str) -> Iterator[str]:
    """Make a role with what a worker needs; give the address for it."""
    role = random_name("worker")
    with Hand(url) as hand:
        hand.do(f"create role {role} login")
        try:
            for grant in GRANTS.format(role=role).split(";"):
                hand.do(grant)
            yield f"{url}{'&' if '?' in url else '?'}user={role}"
        finally:
            hand.do(f"drop owned by {role}")
            hand.do(f"drop role {role}")


async def test_a_role_without_the_servers_identity_claims(postgres_url: str) -> None:
    """A restore does not show to it, a crash does: the function is the administrator's to grant."""
    await prepare(postgres_url)
    with worker_role(postgres_url) as url, Hand(postgres_url) as hand:
        hand.do("revoke execute on function pg_control_system() from public")
        before = hand.do("select epoch from lease_epoch")
        (claimed,) = await claim(url, "worker")
        assert [(claimed.token >> 40,)] == before
        hand.do("truncate lease_epoch_live, leases")
        (again,) = await claim(url, "worker")
        assert again.token > claimed.token


async def test_a_role_that_may_only_take_numbers_raises_the_epoch(postgres_url: str) -> None:
    await prepare(postgres_url)
    with worker_role(postgres_url) as url, Hand(postgres_url) as hand:
        ((before,),) = hand.do("select epoch from lease_epoch")
        hand.do("delete from leaders where duty = 'tokens'")
        (claimed,) = await claim(url, "worker")
        assert claimed.token >> 40 > before


async def test_a_role_that_may_not_raise_the_epoch_claims_with_the_one_there_is(
    postgres_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    await prepare(postgres_url)
    with worker_role(postgres_url) as url, Hand(postgres_url) as hand:
        hand.do("delete from leaders where duty = 'tokens'")
        role = url.rpartition("=")[2]
        hand.do(f"revoke update on lease_epoch from {role}")
        before = hand.do("select epoch from lease_epoch")
        (claimed,) = await claim(url, "worker")
        assert [(claimed.token >> 40,)] == before
    assert "permission denied for table lease_epoch" in caplog.text
