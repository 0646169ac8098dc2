"""A process that is frozen or cut off at any statement stops no other one, and leaves no blocked server process."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack

import pytest

from queue_core.errors import StoreUnavailable
from tests.postgres.frozen.proxy import Proxy
from tests.postgres.frozen.scenes import LARGE, SCENES, Process, Scene, queue_of, rules_of
from tests.postgres.traps.hands import Hand
from tests.waiting import eventually

MOST = 20
"""Statements that no plan has more of."""
WITHIN = 6.0
"""Seconds within which others go on: two are promised, and a machine under load is slow."""

BLOCKED = """
select pid, query from pg_stat_activity
 where datname = current_database() and cardinality(pg_blocking_pids(pid)) > 0
"""


@pytest.fixture
def hand(postgres_url: str) -> Iterator[Hand]:
    with Hand(postgres_url) as hand:
        yield hand


async def frozen_after(n: int, scene: Scene, url: str, hand: Hand, deaf: bool = False) -> float | None:
    """Freeze a process after n statements; return how long another one took then, None when it was not frozen."""
    queue = queue_of(n)
    async with AsyncExitStack() as stack:
        proxy = await stack.enter_async_context(Proxy(url).serve())
        one = Process(proxy.url, queue, rules_of(scene, queue), hand)
        stack.push_async_callback(one.close)
        other = Process(url, queue, rules_of(scene, queue), hand)
        stack.push_async_callback(other.close)
        await one.store.lead("sweep", "leader", 0)
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
        await asyncio.wait_for(scene.other(other), 30)
        took = time.monotonic() - since
        assert await eventually(lambda: hand.do(BLOCKED) == [], 30)
        proxy.release()
        # It was slow, and nothing worse: it tries again, and its caller sees that it is done. Where the answer to a
        # commit may be lost, that is for its caller to find out.
        with contextlib.suppress(*[StoreUnavailable] * deaf):
            await asyncio.wait_for(working, 30)
        return took


async def frozen_anywhere(scene: Scene, url: str, hand: Hand, deaf: bool = False) -> list[float]:
    """Freeze a process after each statement of a scene; return how long others took."""
    at_once = asyncio.Semaphore(1 if scene.alone else MOST)

    async def freeze(n: int) -> float | None:
        async with at_once:
            return await frozen_after(n, scene, url, hand, deaf)

    took = await asyncio.gather(*[freeze(n) for n in range(1, MOST)])
    assert took[-1] is None, "a plan has more statements than were tried"
    return [one for one in took if one is not None]


@pytest.mark.parametrize("name", SCENES)
async def test_others_go_on_and_it_goes_on_later(name: str, postgres_url: str, hand: Hand) -> None:
    took = await frozen_anywhere(SCENES[name], postgres_url, hand)
    assert took, "it was never frozen"
    assert max(took) < WITHIN


async def test_a_process_that_reads_no_answer_stops_nobody(postgres_url: str, hand: Hand) -> None:
    """A server that sends heeds no time limit: what is large is sent when nothing is locked any more."""
    took = await frozen_anywhere(LARGE, postgres_url, hand, deaf=True)
    assert took, "it was never frozen"
    assert max(took) < WITHIN
