"""What processes of the tests of rules do, each with a link of its own to the same store."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from multiprocessing.synchronize import Barrier
from typing import Any, NamedTuple, TypeVar

from queue_core.errors import QueueFull
from queue_core.model.job import Claim
from queue_core.model.rules import QueueRules
from queue_core.model.settings import RedisSettings
from queue_core.ports.store import ClaimRequest
from queue_core.stores.redis.read import RedisInspector
from queue_core.stores.redis.store import RedisStore
from tests.conformance.making import LEASE, QUEUE, TYPE, new_job, outcome

SHORT = 0.3
"""Seconds of a lease that is left to end."""

_T = TypeVar("_T")


class Link(NamedTuple):
    """Where the store is, and the rules of its queue."""

    url: str
    prefix: str
    rules: Mapping[str, Any]


class Run(NamedTuple):
    """What a worker did with one claim."""

    token: int
    id: str
    # time.monotonic, which is one clock for all processes of a machine: surely running from, and until
    start: float
    end: float
    kind: str
    accepted: bool


def opened(link: Link, work: Callable[[RedisStore], Awaitable[_T]]) -> _T:
    """Do something with a store of this process's own."""

    async def run() -> _T:
        settings = RedisSettings.model_validate({"url": link.url, "prefix": link.prefix, "timeout": 60})
        store = RedisStore(settings, rules={QUEUE: QueueRules(**link.rules)})
        try:
            return await work(store)
        finally:
            await store.close()

    return asyncio.run(run())


_meetings: list[Barrier] = []


def introduce(meeting: Barrier) -> None:
    """Tell this process where the others wait for it."""
    _meetings.append(meeting)


def fill(link: Link, seed: int, most: int) -> int:
    """Enqueue lists of up to so many jobs until there is no room for one, as the others do; return how many went in."""
    chance = random.Random(seed)

    async def work(store: RedisStore) -> int:
        done, size = 0, most
        _meetings[0].wait(60)
        while size:
            jobs = [new_job() for _ in range(chance.randint(1, size))]
            try:
                done += len(await store.insert(jobs))
            except QueueFull:
                size = len(jobs) - 1
        return done

    return opened(link, work)


def push(link: Link, priority: int, wanted: int) -> tuple[int, int]:
    """Enqueue one job after the other until so many went in; return how often there was room, and how often not."""

    async def work(store: RedisStore) -> tuple[int, int]:
        done = refused = 0
        while done < wanted:
            try:
                done += len(await store.insert([new_job(priority=priority)]))
            except QueueFull:
                refused += 1
        return done, refused

    return opened(link, work)


def drain(link: Link, wanted: int) -> int:
    """Work jobs off until so many are done; return the most that were ready at a time."""

    async def work(store: RedisStore) -> int:
        done = most = 0
        while done < wanted:
            most = max(most, len(await store.list_ready(QUEUE, -1, 1000)))
            claims = await store.claim(ClaimRequest(QUEUE, "w", (TYPE,), 3, LEASE))
            done += len(await store.settle([outcome(claim, "completed") for claim in claims]))
        return most

    return opened(link, work)


def enqueue_unique(link: Link, seed: int, keys: int) -> dict[str, tuple[str, bool]]:
    """Enqueue a job for each of so many unique keys, in some order; return who holds each, and whether it is new."""
    chance = random.Random(seed)

    async def work(store: RedisStore) -> dict[str, tuple[str, bool]]:
        names = [f"key-{number}" for number in range(keys)]
        chance.shuffle(names)
        found: dict[str, tuple[str, bool]] = {}
        while names:
            some = [names.pop() for _ in range(min(len(names), chance.randint(1, 4)))]
            inserted = await store.insert([new_job(unique_key=name) for name in some])
            found |= {name: (one.id, one.created) for name, one in zip(some, inserted, strict=True)}
        return found

    return opened(link, work)


def enqueue_ordered(link: Link, key: str, count: int) -> list[str]:
    """Enqueue jobs of an ordering key, some by some; return their ids in order."""
    chance = random.Random(key)

    async def work(store: RedisStore) -> list[str]:
        ids: list[str] = []
        while len(ids) < count:
            some = min(count - len(ids), chance.randint(1, 4))
            jobs = [new_job(ordering_key=key, priority=chance.randint(0, 9)) for _ in range(some)]
            ids += [one.id for one in await store.insert(jobs)]
        return ids

    return opened(link, work)


def work_off(link: Link, worker: str, wanted: int, kinds: Mapping[str, int]) -> list[Run]:
    """Claim jobs and end attempts in ways that are drawn by weight, until so many have finished; `lost` ends none."""
    chance = random.Random(worker)

    async def end(store: RedisStore, claims: list[Claim], start: float) -> list[Run]:
        await asyncio.sleep(chance.random() * 0.005)
        drawn = chance.choices(list(kinds), list(kinds.values()), k=len(claims))
        end, kept = time.monotonic(), [kind != "lost" for kind in drawn]
        ending = [outcome(claim, kind, delay=0.0) for claim, kind in zip(claims, drawn, strict=True) if kind != "lost"]
        answers = {settled.id: settled.accepted for settled in await store.settle(ending)}
        return [
            Run(claim.token, claim.id, start, end, kind, keeps and answers[claim.id])
            for claim, kind, keeps in zip(claims, drawn, kept, strict=True)
        ]

    async def work(store: RedisStore) -> list[Run]:
        runs: list[Run] = []
        inspector = RedisInspector(store._settings)
        while (where := await inspector.conservation()).completed + where.dead < wanted:
            lease = SHORT if "lost" in kinds else LEASE
            claims = await store.claim(ClaimRequest(QUEUE, worker, (TYPE,), chance.randint(1, 5), lease))
            if claims:
                runs += await end(store, claims, time.monotonic())
            await store.promote(100)
            await store.reclaim(100)
            if not claims:
                # As a leader does. A process that stood still for a moment between hint and claim needs the repair.
                await store.upkeep()
        await inspector.close()
        return runs

    return opened(link, work)


def take_as_fast_as_it_goes(link: Link, worker: str, seconds: float) -> tuple[int, float, float]:
    """Claim for some seconds; return how many jobs, when the first was asked for, and when the last was given."""

    async def work(store: RedisStore) -> tuple[int, float, float]:
        start, taken = time.monotonic(), 0
        while time.monotonic() < start + seconds:
            taken += len(await store.claim(ClaimRequest(QUEUE, worker, (TYPE,), 7, LEASE)))
        return taken, start, time.monotonic()

    return opened(link, work)
