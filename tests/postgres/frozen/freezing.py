"""Freezes a process after each statement of a scene, and measures how long others are held up by it."""

from __future__ import annotations

import asyncio
import contextlib
import time
from contextlib import AsyncExitStack

from queue_core.errors import StoreUnavailable
from tests.postgres.frozen.proxy import Proxy
from tests.postgres.frozen.scenes import Process, Scene, queue_of, rules_of
from tests.postgres.poolers.pooler import POOLED_PORT
from tests.postgres.traps.hands import Hand
from tests.waiting import PATIENCE, eventually

AT_ONCE = 12
"""Freezes at a time: each takes some ten connections."""
TRIES = 3
WITHIN = 12.0
"""Seconds within which others go on: two are promised, but a machine may be slow. Without bounds they never do."""
HELD_UP = """
select pid, state, query from pg_stat_activity
 where datname = current_database() and (cardinality(pg_blocking_pids(pid)) > 0 or state = 'idle in transaction')
"""
"""Who waits for somebody, and transactions that go on although nobody says anything in them. One that has failed holds
neither locks nor a snapshot; behind a pooler it has lost its bounds with its settings, and waits for its process."""


async def frozen_after(n: int, scene: Scene, url: str, hand: Hand, deaf: bool = False) -> float | None:
    """Freeze a process after n statements; return how long another one took then, None when it was not frozen."""
    queue, prepare = queue_of(n), not pooled(url)
    async with AsyncExitStack() as stack:
        proxy = await stack.enter_async_context(Proxy(url).serve())
        one = Process(proxy.url, queue, rules_of(scene, queue), hand, prepare, scene.timeout)
        stack.push_async_callback(one.close)
        other = Process(url, queue, rules_of(scene, queue), hand, prepare, scene.timeout)
        stack.push_async_callback(other.close)
        await one.store.acquire_leadership("sweep", "leader", 0)
        await scene.before(one)
        other.kept = one.kept
        proxy.hold_after(n, deaf)
        working = asyncio.ensure_future(scene.work(one))
        holding = asyncio.ensure_future(proxy.held.wait())
        await asyncio.wait([working, holding], return_when=asyncio.FIRST_COMPLETED)
        holding.cancel()
        if not proxy.held.is_set():
            await working
            return None
        since = time.monotonic()
        await asyncio.wait_for(scene.other(other), PATIENCE)
        took = time.monotonic() - since
        if not scene.caller_s:
            assert await eventually(lambda: hand.do(HELD_UP) == []), hand.do(HELD_UP)
        proxy.release()
        # It was slow, and nothing worse: it tries again, and its caller sees that it is done. Where the answer to a
        # commit may be lost, that is for its caller to find out.
        with contextlib.suppress(*[StoreUnavailable] * (deaf or scene.may_fail)):
            await asyncio.wait_for(working, PATIENCE)
        return took


async def frozen_at(n: int, scene: Scene, url: str, hand: Hand, deaf: bool) -> float | None:
    """Freeze a process after n statements; again where the machine was so slow that one failed that was not frozen."""
    for _ in range(TRIES - 1):
        with contextlib.suppress(StoreUnavailable):
            return await frozen_after(n, scene, url, hand, deaf)
    return await frozen_after(n, scene, url, hand, deaf)


async def frozen_anywhere(scene: Scene, url: str, hand: Hand, deaf: bool = False) -> None:
    """Freeze a process after each statement of a scene; no time may others be held up."""
    if scene.alone:
        took: list[float] = []
        while (one := await frozen_at(len(took) + 1, scene, url, hand, deaf)) is not None:
            took.append(one)
    else:
        free = asyncio.Semaphore(AT_ONCE)

        async def freeze(n: int) -> float | None:
            async with free:
                return await frozen_at(n, scene, url, hand, deaf)

        found = await asyncio.gather(*map(freeze, scene.points))
        assert found[-1] is None or not isinstance(scene.points, range), "a plan has more statements than were tried"
        took = [one for one in found if one is not None]
    if scene.one_message and not pooled(url):
        assert took == [], "it was frozen in the midst of a transaction"
        return
    assert took, "it was never frozen"
    assert max(took) < WITHIN, took


def pooled(url: str) -> bool:
    """Return whether this is the address of a pooler."""
    return f"port={POOLED_PORT}" in url
