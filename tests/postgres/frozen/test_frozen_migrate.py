"""A migration that is frozen or cut off at any statement stops neither another one nor the work of others."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta

from queue_core.model.settings import SCHEMA
from queue_core.stores.postgres.migrate import KNOWN, migrate
from tests.conformance.making import outcome
from tests.postgres.frozen.freezing import HELD_UP, WITHIN
from tests.postgres.frozen.proxy import Proxy
from tests.postgres.frozen.scenes import Process, queue_of
from tests.postgres.traps.hands import PATIENCE, Hand
from tests.waiting import eventually

MOST = 80
"""More statements than a migration of an empty database has."""


async def frozen_after(n: int, url: str, schema: str, hand: Hand, other: Callable[[], object]) -> float | None:
    """Freeze a migration after n statements; return how long others took then, None when it was not frozen."""
    async with AsyncExitStack() as stack:
        proxy = await stack.enter_async_context(Proxy(url).serve())
        proxy.hold_after(n)
        working = asyncio.ensure_future(asyncio.to_thread(migrate, proxy.url, schema))
        holding = asyncio.ensure_future(proxy.held.wait())
        await asyncio.wait([working, holding], return_when=asyncio.FIRST_COMPLETED)
        holding.cancel()
        if proxy.held.is_set():
            since = time.monotonic()
            try:
                await asyncio.wait_for(asyncio.to_thread(other), PATIENCE)
            finally:
                took = time.monotonic() - since
                assert await eventually(lambda: hand.do(HELD_UP) == []), hand.do(HELD_UP)
                # It was slow, and nothing worse: it does again what the server has rolled back.
                proxy.release()
        await asyncio.wait_for(working, PATIENCE)
        assert hand.do(f"select max(version) from {schema}.schema_version") == [(KNOWN,)]
        return took if proxy.held.is_set() else None


def judge(took: Sequence[float | None]) -> None:
    assert took[0] is not None, "it was never frozen"
    assert took[-1] is None, "there are more statements than were tried"
    assert max(filter(None, took)) < WITHIN, took


async def test_another_one_makes_the_schema(empty_postgres_url: str) -> None:
    with Hand(empty_postgres_url) as hand:
        # Each takes two threads, of which a loop has six at least.
        free = asyncio.Semaphore(3)

        async def freeze(n: int) -> float | None:
            schema = f"frozen_after_{n}"
            async with free:
                return await frozen_after(
                    n, empty_postgres_url, schema, hand, lambda: migrate(empty_postgres_url, schema)
                )

        judge(await asyncio.gather(*map(freeze, range(1, MOST))))


async def test_jobs_are_run_while_a_partition_is_made(postgres_url: str, hand: Hand) -> None:
    last = f"job_history_{(datetime.now(UTC) + timedelta(days=7)):%Y%m%d}"

    async def work() -> None:
        process = Process(postgres_url, queue_of(0), {}, hand)
        try:
            await process.store.acquire_leadership("sweep", "leader", 0)
            await process.insert()
            (claim,) = await process.claim()
            assert (await process.store.settle([outcome(claim, "completed")]))[0].accepted
        finally:
            await process.close()

    took: list[float | None] = []
    while None not in took:
        hand.do(f"drop table if exists jobconsole.{last}")
        n = len(took) + 1
        took.append(await frozen_after(n, postgres_url, SCHEMA, hand, lambda: asyncio.run(work())))
    judge(took)
