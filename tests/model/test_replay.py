"""Traces of the model, done on every store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest

from queue_core.delivery import audit
from queue_core.delivery.cluster_dispatcher import make_dispatcher
from queue_core.delivery.redis_dispatcher import RedisDispatcher
from queue_core.errors import StoreUnavailable
from queue_core.model.settings import RedisSettings
from queue_core.redis.circuit import CircuitBreaker
from queue_core.redis.client import make_pipelined
from queue_core.stores.postgres.migrate import migrate
from tests.conformance.conftest import redis_address, sqlite_path  # noqa: F401
from tests.conformance.modes import OPENERS, empty
from tests.conftest import StartServers
from tests.model.delivered import DeliveredReplay
from tests.model.replay import Replay, Walker
from tests.model.traces import KINDS_OF_JOBS, STEPS, read
from tests.postgres.traps.test_traps_tokens import SLOW_WRITER
from tests.waiting import eventually

PARTS = 10
TOGETHER = 20
"""Traces of one store, which is empty before: what a store holds makes time pass slowly for it."""
CANNOT_CRASH = {
    "memory": "its jobs are those of the process that has them",
    "sqlite": "it has no server: its processes are killed in tests/sqlite/test_crash.py",
}
"""Stores of which no server can be killed, and why."""
KILLED = 12
"""Traces on a server that is killed."""
DELIVERED_PARTS = 20
"""Parts of the same traces with a dispatcher beside the store."""
CANNOT_LOSE_OFFERS = {
    "memory": "its ready set is the store's",
    "postgres": "it has no ready set: a claim looks for what is ready",
    "sqlite": "it has no ready set: a claim looks for what is ready",
    "redis": "its ready set is written in the step that writes the job",
}
"""Stores with nothing beside them that could lose what was offered, and why; with a dispatcher PostgreSQL has it."""


def test_what_a_store_cannot_have_is_named() -> None:
    assert CANNOT_LOSE_OFFERS.keys() == OPENERS.keys()
    assert CANNOT_CRASH.keys() < OPENERS.keys()


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("mode", list(OPENERS))
async def test_the_store_does_what_the_model_does(mode: str, part: int, request: pytest.FixtureRequest) -> None:
    fixture, opener = OPENERS[mode]
    address: str | None = request.getfixturevalue(fixture) if fixture else None
    traces = read()[part::PARTS]
    for first in range(0, len(traces), TOGETHER):
        if address is not None and first:
            empty(address)
        world = await opener(address)()
        try:
            some = traces[first : first + TOGETHER]
            for number, trace in enumerate(some):
                await Replay(world, f"trace-{number}", trace.jobs).run(trace)
            where = await world.inspector.conservation()
            assert (where.unfinished, where.completed + where.dead + where.cancelled) == (0, 2 * len(some))
        finally:
            await world.close()


@pytest.fixture
async def dispatcher(redis_url: str, redis_prefix: str) -> AsyncIterator[RedisDispatcher]:
    """Delivery on an empty ready set."""
    settings = RedisSettings.model_validate({"url": redis_url, "prefix": redis_prefix, "timeout": 10})
    made = make_dispatcher(settings, CircuitBreaker("redis"), make_pipelined(settings))
    yield made
    await made.close()


@pytest.mark.parametrize("part", range(DELIVERED_PARTS))
async def test_with_delivery_beside_it(
    part: int, empty_store_url: str, dispatcher: RedisDispatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In mode postgres+redis: what is ready is in the ready set, comes out of it once, and is offered again if lost."""
    monkeypatch.setattr(audit, "SETTLE_SECONDS", 0.0)
    traces = read()[part::DELIVERED_PARTS]
    world = await OPENERS["postgres"][1](empty_store_url)()
    try:
        for number, trace in enumerate(traces):
            await DeliveredReplay(world, f"trace-{number}", trace.jobs, dispatcher).run(trace)
        where = await world.inspector.conservation()
        assert (where.unfinished, where.completed + where.dead + where.cancelled) == (0, 2 * len(traces))
    finally:
        await world.close()


@pytest.mark.timeout(600)
@pytest.mark.parametrize("mode", [mode for mode in OPENERS if mode not in CANNOT_CRASH])
async def test_also_when_its_server_is_killed(mode: str, start_servers: StartServers) -> None:
    """PostgreSQL loses the last asynchronous commits then, Redis with its file none."""
    keeps = {"appendfsync": "always"}
    options = SLOW_WRITER | {"synchronous_commit": "on"}
    servers = start_servers(postgres_options=options, redis_appendonly=mode == "redis", redis_options=keeps)
    address, handle = f"{servers.redis_url} model:", servers.redis
    if mode == "postgres":
        address, handle = servers.postgres_url, servers.postgres
        migrate(address)
    world = await OPENERS[mode][1](address)()
    crashes = 0

    async def crash() -> None:
        nonlocal crashes
        crashes += 1
        await asyncio.to_thread(handle.kill)
        await asyncio.to_thread(handle.start)
        # As a leader does: no claim before no token can come twice.
        assert await eventually(led)

    async def led() -> bool:
        with suppress(StoreUnavailable):
            return await world.store.acquire_leadership("conformance", "conformance", 0)
        return False

    try:
        walker = Walker(11, STEPS)
        for number in range(KILLED):
            jobs = KINDS_OF_JOBS[number % len(KINDS_OF_JOBS)]
            await Replay(world, f"trace-{number}", jobs, crash).run(walker)
        where = await world.inspector.conservation()
        assert (where.unfinished, where.completed + where.dead + where.cancelled) == (0, 2 * KILLED)
    finally:
        await world.close()
    assert crashes > KILLED / 2
