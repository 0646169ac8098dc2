"""What rules of queues leave in the file: counts that agree with the jobs, and nothing that stays for ever."""

from __future__ import annotations

import random
import sqlite3
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from queue_core.errors import QueueFull
from queue_core.model.filters import Filter
from queue_core.model.job import Claim
from queue_core.model.operation import MemberVerb
from queue_core.model.rules import BandLimits, QueueRules, Rules
from queue_core.model.settings import RetentionSettings
from queue_core.stores.sqlite.operations import SqliteOperations
from queue_core.stores.sqlite.read import SqliteInspector
from queue_core.stores.sqlite.session import SqliteFile
from queue_core.stores.sqlite.store import SqliteStore
from queue_core.testing import FakeClock
from tests.conformance.making import LEASE, QUEUE, TYPE, new_job, outcome
from tests.sqlite.conftest import NewFile
from tests.sqlite.crashing import REQUEST

LIMITED: Rules = {QUEUE: QueueRules(limit=1_000_000, concurrency=1_000_000)}
COUNTS = "select running, high, normal, low from queues where keeps_counts = 1"
JOBS = """select count(*) filter (where state = 'running'),
                 count(*) filter (where state <> 'running' and priority >= 10),
                 count(*) filter (where state <> 'running' and priority between 5 and 9),
                 count(*) filter (where state <> 'running' and priority < 5)
            from jobs where state in ('scheduled', 'queued', 'running', 'retrying')"""


async def rows(file: SqliteFile, query: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in await file.inspect(lambda transaction: transaction.records(query, ()))]


class Doing:
    """Random things that happen to the jobs of a queue."""

    def __init__(self, file: SqliteFile, clock: FakeClock, rules: Rules, source: random.Random) -> None:
        self.store = SqliteStore(file, rules=rules)
        self.inspector = SqliteInspector(file)
        self.operations = SqliteOperations(file, rules)
        self.clock = clock
        self.source = source
        self.claims: list[Claim] = []
        self.verbs: list[Callable[[], Awaitable[object]]] = [
            self.insert, self.insert, self.claim, self.claim, self.settle, self.settle, self.pass_time, self.change,
        ]  # fmt: skip

    async def insert(self) -> None:
        some = [
            new_job(
                priority=self.source.choice([0, 5, 10]),
                delay=self.source.choice([0, 0, LEASE]),
                ordering_key=self.source.choice([None, "k", "l"]),
                unique_key=self.source.choice([None, "a", "b"]),
            )
            for _ in range(4)
        ]
        await self.store.insert(some)

    async def claim(self) -> None:
        self.claims += await self.store.claim(REQUEST._replace(limit=3))

    async def settle(self) -> None:
        outcomes = []
        for claim in self.source.sample(self.claims, min(3, len(self.claims))):
            kind = self.source.choice(["completed", "retrying", "dead", "released", "cancelled"])
            anew = {"to_back": self.source.random() < 0.5, "delay": self.source.choice([0.0, LEASE])}
            outcomes.append(outcome(claim, kind, **anew if kind == "released" else {}))
        await self.store.settle(outcomes)

    async def pass_time(self) -> None:
        self.clock.advance(LEASE + 5)
        await self.store.promote(100)
        await self.store.reclaim(2)

    async def change(self) -> None:
        page = (await self.inspector.jobs(Filter(), 1000)).jobs
        some = [job.id for job in self.source.sample(page, min(4, len(page)))]
        verbs: list[MemberVerb] = ["retry", "cancel", "delete", "restore", "purge"]
        await self.operations.change(self.source.choice(verbs), some)


@pytest.mark.parametrize("seed", range(5))
async def test_the_counts_agree_with_the_jobs(new_file: NewFile, seed: int) -> None:
    clock, source = FakeClock(), random.Random(seed)
    file = new_file(clock=clock)
    # One process was given no rules: it keeps the counts as well, once somebody has begun to.
    with_rules, without = Doing(file, clock, LIMITED, source), Doing(file, clock, {}, source)
    for _ in range(10):
        await source.choice(without.verbs)()
    await with_rules.store.insert([new_job()])
    for number in range(120):
        if number % 3 == 0:
            await with_rules.insert()
        await source.choice(source.choice([with_rules, without]).verbs)()
        assert await rows(file, COUNTS) == await rows(file, JOBS)
    assert sum((await rows(file, JOBS))[0]) > 0


async def test_counting_begins_with_what_is_there(new_file: NewFile) -> None:
    file = new_file()
    await SqliteStore(file).insert([new_job(), new_job(delay=60), new_job(priority=20), new_job(priority=0)])
    await SqliteStore(file).claim(REQUEST._replace(limit=1))
    assert await rows(file, COUNTS) == []
    store = SqliteStore(file, rules={QUEUE: QueueRules(limit=4)})
    await store.insert([new_job()])
    assert await rows(file, COUNTS) == [(1, 0, 3, 1)]
    with pytest.raises(QueueFull):
        await store.insert([new_job()])
    assert await rows(file, COUNTS) == [(1, 0, 3, 1)]


async def test_who_was_given_no_rules_refuses_nothing_and_counts(new_file: NewFile) -> None:
    file = new_file()
    ruled = SqliteStore(file, rules={QUEUE: QueueRules(band_limits=BandLimits(normal=2))})
    await ruled.insert([new_job()])
    await SqliteStore(file).insert([new_job() for _ in range(5)])
    assert await rows(file, COUNTS) == [(0, 0, 6, 0)]


async def test_a_plain_queue_is_not_counted(new_file: NewFile) -> None:
    file = new_file()
    store = SqliteStore(file, rules={"other": QueueRules(limit=1)})
    await store.insert([new_job()])
    await store.claim(REQUEST)
    assert await rows(file, COUNTS) == []


async def test_depths_tell_of_all_queued_jobs_by_priority(new_file: NewFile) -> None:
    """Whether their ranks tell the priority or, with aging, do not, or they have none for they wait for their turn."""
    clock = FakeClock()
    file = new_file(clock=clock)
    # Among these is one whose ranks begin where those of jobs that arrive now in a queue with aging do.
    plain = [5, 5, *range(110, 128)]
    await SqliteStore(file).insert([new_job(priority=priority) for priority in plain])
    clock.advance(10)
    aging = SqliteStore(file, rules={QUEUE: QueueRules(aging=10)})
    aged = [5, 0, 127, 121]
    await aging.insert([new_job(priority=priority) for priority in aged])
    await aging.insert([new_job(priority=-3, ordering_key="k", type="other") for _ in range(3)])
    overview = await SqliteInspector(file).overview()
    (queue,) = overview.queues
    assert queue.depth == Counter([*plain, *aged, -3, -3, -3])
    assert overview.orphaned_types == {TYPE: len(plain) + len(aged), "other": 3}
    assert queue.oldest is not None
    assert queue.oldest.timestamp() == pytest.approx(clock.now() - 10, abs=1)


async def test_only_waiting_ones_are_the_oldest(new_file: NewFile) -> None:
    clock = FakeClock()
    file = new_file(clock=clock)
    store = SqliteStore(file)
    await store.insert([new_job(ordering_key="k")])
    await store.insert([new_job(ordering_key="k")])
    since = clock.now()
    await store.claim(REQUEST)
    clock.advance(10)
    await store.insert([new_job()])
    (queue,) = (await SqliteInspector(file).overview()).queues
    assert (queue.queued, queue.running) == (2, 1)
    assert queue.oldest is not None
    assert queue.oldest.timestamp() == pytest.approx(since, abs=1)


async def test_unique_keys_do_not_stay_for_ever(new_file: NewFile) -> None:
    clock = FakeClock()
    file = new_file(clock=clock)
    store = SqliteStore(file, RetentionSettings(completed=100.0, dead=100.0, trash=100.0))
    await store.insert([new_job(unique_key=f"k{n}") for n in range(5)])
    await store.insert([new_job(unique_key=f"t{n}", unique_seconds=500.0) for n in range(5)])
    claims = await store.claim(REQUEST)
    await store.settle([outcome(claim, ("completed", "dead")[n % 2]) for n, claim in enumerate(claims)])
    clock.advance(200)
    await store.upkeep()
    assert await rows(file, "select count(*) from jobs") == [(0,)]
    assert await rows(file, "select count(*) from unique_keys") == [(5,)]
    clock.advance(400)
    await store.upkeep()
    assert await rows(file, "select count(*) from unique_keys") == [(0,)]


async def test_a_key_that_another_took_stays_when_its_first_job_goes(new_file: NewFile) -> None:
    clock = FakeClock()
    file = new_file(clock=clock)
    store = SqliteStore(file, RetentionSettings(completed=100.0))
    await store.insert([new_job(unique_key="k")])
    await store.settle([outcome(claim, "completed") for claim in await store.claim(REQUEST)])
    (second,) = await store.insert([new_job(unique_key="k")])
    clock.advance(200)
    await store.upkeep()
    (third,) = await store.insert([new_job(unique_key="k")])
    assert (second.created, third.created, third.id) == (True, False, second.id)


async def test_a_dead_job_that_expires_lets_the_next_through(new_file: NewFile) -> None:
    clock = FakeClock()
    file = new_file(clock=clock)
    store = SqliteStore(file, RetentionSettings(dead=100.0), {QUEUE: QueueRules(dead_blocks_key=True)})
    await store.insert([new_job(ordering_key="k"), second := new_job(ordering_key="k")])
    (claim,) = await store.claim(REQUEST)
    await store.settle([outcome(claim, "dead")])
    arrived = await rows(file, "select ready_total from queues")
    clock.advance(200)
    assert await store.claim(REQUEST) == []
    await store.upkeep()
    assert await rows(file, "select ready_total from queues") == [(arrived[0][0] + 1,)]
    assert [claim.id for claim in await store.claim(REQUEST)] == [second.id]


async def test_rules_that_let_more_through_do_so_with_the_next_end(new_file: NewFile) -> None:
    file = new_file()
    store = SqliteStore(file)
    await store.insert([new_job(ordering_key="k") for _ in range(6)])
    (claim,) = await store.claim(REQUEST)
    wider = SqliteStore(file, rules={QUEUE: QueueRules(key_concurrency=3)})
    (settled,) = await wider.settle([outcome(claim, "completed")])
    assert len(settled.unblocked) == 3
    assert len(await wider.claim(REQUEST)) == 3


@pytest.mark.parametrize("jump", [600.0, -600.0])
async def test_a_clock_that_is_set_moves_keys_and_tokens_along(new_file: NewFile, jump: float) -> None:
    clock = FakeClock()
    file = new_file(clock=clock)
    store = SqliteStore(file, rules={QUEUE: QueueRules(rate=1 / 60)})
    (first,) = await store.insert([new_job(unique_key="k", unique_seconds=100.0)])
    await store.insert([new_job(), new_job()])
    assert len(await store.claim(REQUEST)) == 1
    clock.set_back(-jump)
    (again,) = await store.insert([new_job(unique_key="k", unique_seconds=100.0)])
    assert (again.created, again.id) == (False, first.id)
    assert await store.claim(REQUEST) == []
    clock.advance(61)
    assert len(await store.claim(REQUEST)) == 1
    clock.advance(61)
    (last,) = await store.insert([new_job(unique_key="k", unique_seconds=100.0)])
    assert last.created


@pytest.mark.parametrize(
    "broken",
    [
        "update jobs set rank = null where state = 'queued'",
        "update jobs set admitted = 0, ordering_key = 'k' where state = 'queued'",
        "update jobs set admitted = 1",
        "update jobs set ordering_key = 'k'",
        "update jobs set aged_rank = 7",
        "update jobs set state = 'elsewhere'",
        "update jobs set state = 'completed', rank = null",
        "update jobs set state = 'running', rank = null",
    ],
)
async def test_the_file_refuses_impossible_rows(path: Path, new_file: NewFile, broken: str) -> None:
    await SqliteStore(new_file()).insert([new_job()])
    with closing(sqlite3.connect(path)) as connection, pytest.raises(sqlite3.IntegrityError, match="CHECK"):
        connection.execute(broken)
