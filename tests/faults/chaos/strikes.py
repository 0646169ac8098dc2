"""The faults that a run chooses from: each does something to a process, a way, a server, a disk or a clock."""

from __future__ import annotations

import asyncio
import random
import signal
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

import psycopg
import redis
from redis.crc import key_slot

from queue_core.model.settings import JobsSettings
from tests.faults.chaos.fleet import Fleet, Unit, children_of, with_no_error
from tests.faults.chaos.ground import PREFIX, Ground
from tests.faults.chaos.rules import LEASE
from tests.redis_topology.rig import Cluster, Trio
from tests.redis_topology.test_cluster import demote_master, kill_master, pause_master
from tests.redis_topology.test_sentinel import kill_primary, pause_primary

EVERY = frozenset({"*"})
"""All parts of the fleet are hit."""
SQLSTATES = ("40001", "40P01", "57014", "53100")
"""Serialization failure, deadlock, statement timeout, disk full."""
ERRORS = """
create or replace function jobconsole.faults_raise() returns trigger language plpgsql as $$
begin
    if random() < 0.3 then
        raise exception 'a fault of the tests' using errcode = (array['{}'])[1 + floor(random() * {})::int];
    end if;
    return null;
end $$
"""
TABLES = ("jobs", "leases", "job_history")

Hit = Callable[["Site"], Awaitable[frozenset[str]]]


@dataclass
class Site:
    """What a fault may hit, and what decides how."""

    ground: Ground
    fleet: Fleet
    random: random.Random

    def choose(self, *kinds: str) -> Unit:
        """Return a part of the fleet."""
        return self.random.choice(self.fleet.of(*kinds))

    async def wait(self, least: float, most: float) -> None:
        """Let the fault last."""
        await asyncio.sleep(self.random.uniform(least, most))


@dataclass(frozen=True)
class Strike:
    """One kind of fault."""

    name: str
    # what two faults at once must not share
    domain: str
    hit: Hit
    applies: Callable[[Ground], bool]


STRIKES: dict[str, Strike] = {}


def strike(name: str, domain: str, applies: Callable[[Ground], bool] = lambda _: True) -> Callable[[Hit], Hit]:
    """Register a kind of fault: a coroutine that does it, undoes it, and returns the names of the parts it hit."""

    def register(hit: Hit) -> Hit:
        STRIKES[name] = Strike(name, domain, hit, applies)
        return hit

    return register


def on_postgres(ground: Ground) -> bool:
    return ground.has_postgres


def on_redis(ground: Ground) -> bool:
    return ground.has_redis and ground.topology == "single"


def beside_redis(ground: Ground) -> bool:
    return on_redis(ground) and ground.has_postgres


def on_wires(ground: Ground) -> bool:
    return ground.servers is not None


def one(unit: Unit) -> frozenset[str]:
    return frozenset({unit.name})


# -- processes


@asynccontextmanager
async def touched(site: Site, unit: Unit) -> AsyncIterator[None]:
    site.fleet.touched.add(unit.name)
    try:
        yield
        site.fleet.restart(unit)
    finally:
        site.fleet.touched.discard(unit.name)


@strike("kill worker", "process")
async def _kill_worker(site: Site) -> frozenset[str]:
    unit = site.choose("worker")
    async with touched(site, unit):
        unit.kill()
        await site.wait(0.0, 1.0)
    return one(unit)


@strike("kill service", "process")
async def _kill_service(site: Site) -> frozenset[str]:
    """Its workers learn that it is gone, and drain."""
    unit = site.choose("service", "worker")
    async with touched(site, unit):
        unit.kill()
        await site.wait(0.0, 1.0)
    return one(unit)


@strike("kill worker of a service", "process", lambda ground: ground.mode != "sqlite")
async def _kill_child(site: Site) -> frozenset[str]:
    unit = site.choose("service", "worker")
    for pid in children_of(unit.pid)[:1]:
        with_no_error(pid, signal.SIGKILL)
    return one(unit)


@strike("drain worker", "process")
async def _drain(site: Site) -> frozenset[str]:
    """A deploy: what it cannot finish is released."""
    unit = site.choose("worker", "service")
    async with touched(site, unit):
        assert unit.process is not None
        unit.process.terminate()
        await asyncio.to_thread(unit.process.wait, 60)
    return one(unit)


@strike("kill producer", "process")
async def _kill_producer(site: Site) -> frozenset[str]:
    unit = site.choose("producer")
    async with touched(site, unit):
        unit.kill()
    return one(unit)


@strike("freeze worker", "process")
async def _freeze(site: Site) -> frozenset[str]:
    """Half of the time for longer than a lease."""
    unit = site.choose("worker", "service")
    unit.send(signal.SIGSTOP)
    await (site.wait(0.1, LEASE) if site.random.random() < 0.5 else site.wait(LEASE + 1, 2 * LEASE))
    unit.send(signal.SIGCONT)
    return one(unit)


@strike("freeze producer", "process")
async def _freeze_producer(site: Site) -> frozenset[str]:
    unit = site.choose("producer")
    unit.send(signal.SIGSTOP)
    await site.wait(0.1, 2 * LEASE)
    unit.send(signal.SIGCONT)
    return one(unit)


# -- clocks


@strike("set clock", "clock")
async def _skew(site: Site) -> frozenset[str]:
    """Ten minutes at most, forward or back, of one process; in mode sqlite of the machine, by which jobs are due."""
    unit = site.choose("worker", "service", "producer")
    clock = site.ground.clock or unit.clock
    clock.set(site.random.choice([-20.0, 20.0] if site.ground.clock is not None else [-600.0, -30.0, 30.0, 600.0]))
    await site.wait(0.5, 2 * LEASE)
    clock.set(0.0)
    return EVERY if site.ground.clock is not None else one(unit)


# -- ways


def wires_of(site: Site) -> tuple[frozenset[str], list[Any]]:
    """Return the ways of one part to one server or to both, or of all parts to one server."""
    units = [unit for unit in site.fleet.units if unit.wires]
    if site.random.random() < 0.25:
        name = site.random.choice(sorted({name for unit in units for name in unit.wires}))
        return EVERY, [unit.wires[name] for unit in units if name in unit.wires]
    unit = site.random.choice(units)
    names = sorted(unit.wires)
    return one(unit), [unit.wires[name] for name in site.random.sample(names, site.random.randint(1, len(names)))]


def way(name: str, do: Callable[[Any], object], least: float, most: float) -> None:
    """Register a fault of ways that lasts for some seconds."""

    @strike(name, "way", on_wires)
    async def hit(site: Site) -> frozenset[str]:
        units, wires = wires_of(site)
        for wire in wires:
            do(wire)
        await site.wait(least, most)
        for wire in wires:
            wire.mend()
        return units


def _refuse(wire: Any) -> None:
    wire.refuses = True
    wire.cut()


def _swallow(wire: Any) -> None:
    wire.swallows = True


def _delay(wire: Any) -> None:
    wire.delay = 0.3


way("cut", lambda wire: wire.cut(), 0.0, 0.0)
way("refuse", _refuse, 0.5, 2 * LEASE)
way("partition", lambda wire: wire.freeze(), 0.5, 2 * LEASE)
way("swallow replies", _swallow, 0.2, LEASE)
way("delay", _delay, 1.0, LEASE)


@strike("flap", "way", on_wires)
async def _flap(site: Site) -> frozenset[str]:
    units, wires = wires_of(site)
    for _ in range(5):
        for wire in wires:
            _refuse(wire)
        await site.wait(0.1, 0.7)
        for wire in wires:
            wire.mend()
        await site.wait(0.1, 0.7)
    return units


# -- servers


def server(name: str, kind: str, applies: Callable[[Ground], bool], least: float, most: float, *calls: Any) -> None:
    """Register a fault of a server: what is called before and after some seconds."""

    @strike(name, kind, applies)
    async def hit(site: Site) -> frozenset[str]:
        handle = getattr(site.ground.servers, kind)
        (begin, *arguments), (end, *_) = calls
        await asyncio.to_thread(getattr(handle, begin), *arguments)
        await site.wait(least, most)
        await asyncio.to_thread(getattr(handle, end))
        return EVERY


server("kill PostgreSQL", "postgres", on_postgres, 0.0, 2.0, ("kill",), ("start",))
server("stop PostgreSQL", "postgres", on_postgres, 0.0, 2 * LEASE, ("stop", "fast"), ("start",))
server("stop PostgreSQL at once", "postgres", on_postgres, 0.0, 2.0, ("stop", "immediate"), ("start",))
server("freeze PostgreSQL", "postgres", on_postgres, 0.5, 2 * LEASE, ("pause",), ("resume",))
server("kill Redis", "redis", on_redis, 0.0, 2.0, ("kill",), ("start",))
server("stop Redis", "redis", on_redis, 0.0, 2 * LEASE, ("stop",), ("start",))
server("freeze Redis", "redis", on_redis, 0.5, 2 * LEASE, ("pause",), ("resume",))


def sql(ground: Ground, *statements: str) -> None:
    """Run statements beside everything else, again where a lock is not had in time."""
    for _ in range(10):
        with suppress(psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected):
            with psycopg.connect(ground.postgres_url(), autocommit=True) as connection:
                connection.execute("set default_transaction_read_only = off")
                connection.execute("set lock_timeout = '2s'")
                for statement in statements:
                    connection.execute(statement)
            return
    raise AssertionError("no lock was had")


@strike("cut all sessions", "postgres", on_postgres)
async def _cut_sessions(site: Site) -> frozenset[str]:
    statement = "select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid()"
    await asyncio.to_thread(sql, site.ground, f"{statement} and backend_type = 'client backend'")
    return EVERY


@strike("read-only PostgreSQL", "postgres", on_postgres)
async def _read_only(site: Site) -> frozenset[str]:
    """As a primary that was demoted."""
    setting = "alter system set default_transaction_read_only = "
    await asyncio.to_thread(sql, site.ground, f"{setting}on", "select pg_reload_conf()")
    await site.wait(0.5, LEASE)
    await asyncio.to_thread(sql, site.ground, f"{setting}off", "select pg_reload_conf()")
    return EVERY


@strike("statements fail", "postgres", on_postgres)
async def _errors(site: Site) -> frozenset[str]:
    """Three in ten: serialization failures, deadlocks, time limits, full disks."""
    function = ERRORS.format("','".join(SQLSTATES), len(SQLSTATES))
    make = "create trigger faults_raise after insert or update or delete on jobconsole.{} execute function {}()"
    tables = [site.random.choice(TABLES)]
    raising = [make.format(table, "jobconsole.faults_raise") for table in tables]
    await asyncio.to_thread(sql, site.ground, function, *raising)
    await site.wait(0.5, LEASE)
    dropping = [f"drop trigger if exists faults_raise on jobconsole.{table}" for table in tables]
    await asyncio.to_thread(sql, site.ground, *dropping, "drop function if exists jobconsole.faults_raise()")
    return EVERY


@strike("held transaction", "postgres", on_postgres)
async def _held(site: Site) -> frozenset[str]:
    """A snapshot that is kept, which nothing is cleaned behind."""
    url = site.ground.postgres_url()
    with suppress(psycopg.OperationalError):
        async with await psycopg.AsyncConnection.connect(url) as connection:
            await connection.execute("set transaction isolation level repeatable read")
            await connection.execute("select count(*) from jobconsole.jobs")
            await site.wait(2.0, 3 * LEASE)
    return frozenset()


@strike("kill pooler", "pooler", lambda ground: ground.pooler is not None)
async def _kill_pooler(site: Site) -> frozenset[str]:
    assert site.ground.pooler is not None
    site.ground.pooler.kill()
    await site.wait(0.0, LEASE)
    await asyncio.to_thread(site.ground.pooler.start)
    return frozenset(unit.name for unit in site.fleet.units if "pooler" in unit.environment["CHAOS_SETTINGS"])


@strike("freeze pooler", "pooler", lambda ground: ground.pooler is not None)
async def _freeze_pooler(site: Site) -> frozenset[str]:
    assert site.ground.pooler is not None
    site.ground.pooler.send(signal.SIGSTOP)
    await site.wait(0.1, 2 * LEASE)
    site.ground.pooler.send(signal.SIGCONT)
    return frozenset(unit.name for unit in site.fleet.units if "pooler" in unit.environment["CHAOS_SETTINGS"])


def ask_redis(site: Site, *command: Any) -> Any:
    """Run one command."""
    assert site.ground.servers is not None
    with redis.Redis.from_url(site.ground.servers.redis_url, socket_timeout=5) as client:
        return client.execute_command(*command)


@strike("flush Redis", "redis", beside_redis)
async def _flush(site: Site) -> frozenset[str]:
    await asyncio.to_thread(ask_redis, site, "FLUSHALL")
    return frozenset()


@strike("delete a ready set", "redis", beside_redis)
async def _delete(site: Site) -> frozenset[str]:
    queue = site.random.choice(["default", "ordered", "narrow"])
    await asyncio.to_thread(ask_redis, site, "DEL", f"{PREFIX}{{{queue}}}:pending")
    return frozenset()


@strike("Redis out of memory", "redis", on_redis)
async def _memory(site: Site) -> frozenset[str]:
    await asyncio.to_thread(ask_redis, site, "CONFIG", "SET", "maxmemory", "1")
    await site.wait(0.5, 2 * LEASE)
    await asyncio.to_thread(ask_redis, site, "CONFIG", "SET", "maxmemory", "0")
    return EVERY


@strike("Redis busy in a script", "redis", beside_redis)
async def _busy(site: Site) -> frozenset[str]:
    spinning = asyncio.create_task(asyncio.to_thread(ask_redis, site, "EVAL", "while true do end", 0))
    await site.wait(0.5, LEASE)
    with suppress(redis.RedisError):
        await asyncio.to_thread(ask_redis, site, "SCRIPT", "KILL")
    await asyncio.gather(spinning, return_exceptions=True)
    return EVERY


# -- the disk


@strike("full disk", "disk", lambda ground: ground.disk.can_be_filled)
async def _fill(site: Site) -> frozenset[str]:
    """Servers that end for it are started again."""
    ground = site.ground
    await asyncio.to_thread(ground.disk.fill)
    await site.wait(0.5, LEASE)
    ground.disk.free()
    for _ in range(3 if ground.servers is not None else 0):
        for handle in (ground.servers.postgres, ground.servers.redis) if ground.servers is not None else ():
            await asyncio.to_thread(handle.start)
        await asyncio.sleep(0.5)
    return EVERY


@strike("locked file", "disk", lambda ground: ground.mode == "sqlite")
async def _lock(site: Site) -> frozenset[str]:
    """Another program has the file's lock."""
    seconds = site.random.uniform(0.5, 2 * LEASE)

    def hold() -> None:
        import time

        connection = sqlite3.connect(site.ground.sqlite_path, isolation_level=None, timeout=30)
        connection.execute("begin exclusive")
        time.sleep(seconds)
        connection.rollback()
        connection.close()

    await asyncio.to_thread(hold)
    return EVERY


# -- Sentinels and clusters


def trio(name: str, do: Callable[[Trio], None]) -> None:
    """Register a fault behind Sentinels."""

    @strike(name, "topology", lambda ground: ground.trio is not None)
    async def hit(site: Site) -> frozenset[str]:
        found = site.ground.trio
        assert found is not None
        await asyncio.to_thread(do, found)
        for server in found.servers:
            await asyncio.to_thread(server.revive)
        await asyncio.to_thread(found.wait_whole, 1)
        return EVERY


trio("Sentinel failover", Trio.failover)
trio("kill primary", kill_primary)
trio("freeze primary", pause_primary)


def cluster(name: str, do: Callable[[Cluster, JobsSettings], None]) -> None:
    """Register a fault of a cluster."""

    @strike(name, "topology", lambda ground: ground.cluster is not None)
    async def hit(site: Site) -> frozenset[str]:
        found = site.ground.cluster
        assert found is not None
        await asyncio.to_thread(do, found, JobsSettings.model_validate(site.ground.settings()))
        for server in found.servers:
            await asyncio.to_thread(server.revive)
        await asyncio.to_thread(found.wait_whole)
        return EVERY


def _move_slot(found: Cluster, settings: JobsSettings) -> None:
    """Give the slot of a queue to another master, and back."""
    slot = key_slot(f"{settings.redis.prefix}{{default}}:pending".encode())
    master = found.owner(slot)
    found.migrate(slot, next(one for one in found.masters() if one is not master))
    found.migrate(slot, master)


cluster("cluster demotes a master", demote_master)
cluster("kill master", kill_master)
cluster("freeze master", pause_master)
cluster("move slot", _move_slot)


def applicable(ground: Ground, only: Sequence[str] = ()) -> list[Strike]:
    """Return the faults that this ground can have."""
    return [one for name, one in STRIKES.items() if one.applies(ground) and (not only or name in only)]
