"""Trap 10: with a snapshot held, claims pass over what ended, and nothing to be claimed is passed over for long."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from math import inf
from typing import TypeVar

import psycopg
import pytest

from queue_core.model.settings import PostgresSettings
from queue_core.ports.store import ClaimRequest
from queue_core.stores.postgres import claim
from queue_core.stores.postgres.scans import ranks, times
from queue_core.stores.postgres.scans.ranks import EVERYWHERE, PassedRanks, Ranks, merged, named, rank_parameters, spell
from queue_core.stores.postgres.session.connection import hot_options
from queue_core.stores.postgres.store import PostgresStore
from tests.conformance.making import LEASE, QUEUE, TYPE, WORKER, outcome, worker_beat
from tests.postgres.traps.conftest import NewHand
from tests.postgres.traps.hands import Hand, claim_parameters, new_job
from tests.postgres.traps.test_traps_plans import LOOKED_AT, looked_at
from tests.postgres.traps.test_traps_snapshot import ENDED, FEW, generic

T = TypeVar("T")

END_JOBS = f"""
insert into jobs (id, queue_id, rank, seq, priority, status, run_at, type, payload, max_retries)
select gen_random_uuid(), 1, (127 - p)::bigint << 45 | seq, seq, p, 'queued', now(), 'task', '{{}}', 3
  from (select nextval('job_seq') as seq, (array[5, 10])[1 + n %% 2] as p from generate_series(1, {ENDED}) n) numbers;
delete from jobs;
"""
REQUEST = ClaimRequest(QUEUE, WORKER, (TYPE,), 10, LEASE)


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every look counts as slow, so that the next one leaves out what was passed; the walk rests."""
    monkeypatch.setattr(ranks, "USUAL_SECONDS", -1.0)
    monkeypatch.setattr(claim, "USUAL_SECONDS", -1.0)
    monkeypatch.setattr(ranks, "COMMIT_LAG", 0.0)
    monkeypatch.setattr(ranks, "MIN_PAUSE", 3600.0)


async def claimed(store: PostgresStore, limit: int = 10) -> list[str]:
    return [claim.id for claim in await store.claim(REQUEST._replace(limit=limit))]


async def inserted(store: PostgresStore, count: int = 1, **given: object) -> list[str]:
    jobs = [new_job(**given) for _ in range(count)]
    await store.insert(jobs)
    return [job.id for job in jobs]


async def test_trap_10_claims_pass_over_what_ended(
    store: PostgresStore, new_hand: NewHand, snapshot: Hand, postgres_url: str, slow: None
) -> None:
    """Of every priority that was claimed, and of those in which nothing was found once that took long."""
    await inserted(store)
    await claimed(store)
    hand = new_hand()
    hand.do(END_JOBS.replace("%%", "%"))
    ready = await inserted(store, 100)
    assert await claimed(store) == ready[:10]
    passed = store._claimer.passed.of(QUEUE, (TYPE,))
    for _ in range(3):
        # The claims took long, it says; so it is asked how far the arrivals have come, and what comes first.
        await claimed(store)
    with psycopg.connect(**hot_options(PostgresSettings(url=postgres_url))) as connection:
        read = {}
        for name, parts in (("passed", passed.next_scan(time.monotonic()).parts), ("everywhere", [EVERYWHERE])):
            asked = claim_parameters(1, limit=10, starting=10) | rank_parameters(parts)
            assert generic(connection, "claim/by_rank", asked)["Actual Rows"] == 10
            read[name] = looked_at(connection, "claim/by_rank", asked)
    assert read["passed"] < FEW < ENDED < read["everywhere"]


async def test_trap_10_what_comes_later_is_found_at_once_whatever_its_priority(
    store: PostgresStore, slow: None
) -> None:
    first = await inserted(store, 30)
    assert await claimed(store, 20) == first[:20]
    low, high, same = [(await inserted(store, priority=priority))[0] for priority in (-128, 127, 5)]
    assert await claimed(store, 30) == [high, *first[20:], same, low]
    other = await inserted(store, priority=9)
    assert await claimed(store) == other


async def test_trap_10_what_comes_back_is_found_at_once(store: PostgresStore, slow: None) -> None:
    """Given back, retried and due again, or taken from a lost worker; each at its old place."""
    jobs = await inserted(store, 30)
    claims = await store.claim(REQUEST._replace(limit=20))
    await store.settle([outcome(claims[3], "released")])
    assert await claimed(store, 1) == [jobs[3]]
    await store.settle([outcome(claims[5], "retrying", delay=0.0)])
    assert [ready.id for ready in await store.promote(10)] == [jobs[5]]
    assert await claimed(store, 1) == [jobs[5]]
    lost = (await store.claim(REQUEST._replace(limit=1, lease=0.0)))[0].id
    later = await claimed(store, 5)
    assert [job.id for job in await store.reclaim(10)] == [lost]
    assert await claimed(store, 1) == [lost]
    assert await claimed(store) == [job for job in jobs[20:] if job not in (lost, *later)]


async def test_trap_10_what_a_long_transaction_commits_late_is_found_at_once(
    store: PostgresStore, postgres_url: str, slow: None
) -> None:
    """It took its place long before: its commit says so to every process."""
    await store._notifications.wait_until_listening(60)
    async with await psycopg.AsyncConnection.connect(postgres_url) as caller:
        (late,) = await store.insert_on(caller, [new_job()])
        later = await inserted(store, 5)
        assert await claimed(store) == later
        await caller.commit()
    assert await store.committed(60) == {QUEUE}
    assert await claimed(store) == [late.id]


async def test_trap_10_what_nobody_told_of_is_found_by_the_walk(
    store: PostgresStore, new_hand: NewHand, slow: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step at a time; what was passed is left out until then."""
    await store._notifications.wait_until_listening(60)  # to begin with it is a gap, behind which the walk hurries
    jobs = await inserted(store, 300)
    assert await claimed(store, 250) == jobs[:250]
    hand = new_hand()
    hand.do("delete from leases where id = any(%(ids)s::uuid[])", {"ids": jobs[200:202]})
    assert await claimed(store, 1) == [jobs[250]]
    monkeypatch.setattr(ranks, "MIN_PAUSE", 0.0)
    passed = store._claimer.passed.of(QUEUE, (TYPE,))
    passed._walk_at = passed._pause = 0.0
    passed._step = 50
    found = [(await claimed(store, 1))[0] for _ in range(12)]
    assert set(jobs[200:202]) < set(found)


@pytest.mark.parametrize("seconds", [0.2, 0.01])
async def test_trap_10_a_scan_waits_for_what_a_slow_one_has_passed_rather_than_read_it_again(seconds: float) -> None:
    passed = ranks.PassedRanks()
    began = 100.0
    passed.claimed(passed.next_scan(began), [7, 8], began + seconds)
    wait = passed.due_in(began + seconds)
    if seconds < ranks.FULL_SCAN_LONG:
        assert wait == 0
        return
    assert 0 < wait <= ranks.COMMIT_LAG
    assert passed.next_scan(began + seconds).parts == [ranks.EVERYWHERE]
    assert passed.next_scan(began + seconds + wait).parts == [(8, ranks.ABOVE_ALL_RANKS)]
    assert passed.due_in(began + seconds + wait) == 0
    passed.claimed(passed.next_scan(began + 0.5), [9], began + 0.8)
    assert passed.due_in(began + 0.8) == 0, "one that was not of everything may be slow for other reasons"


async def test_trap_10_heads_find_types_that_are_announced_late(store: PostgresStore, slow: None) -> None:
    heart = store.open_heartbeat()
    heart.renew(worker_beat())
    (parked,), ready = await inserted(store, type="late"), await inserted(store, 5)
    for _ in range(3):
        assert [job.id for job in await store.list_claimable(QUEUE, 10)] == ready
    heart.renew(worker_beat(worker="worker-2", types=(TYPE, "late")))
    await store.list_claimable(QUEUE, 10)
    assert [job.id for job in await store.list_claimable(QUEUE, 10)] == [parked, *ready]
    heart.close()


async def read_by(store: PostgresStore, call: Callable[[], Awaitable[T]]) -> tuple[T, int]:
    """Return what a sweep returns, and how many rows and entries of indexes its statements look at."""
    # Its probes take any connection, this one, too.
    assert await store._notifications.known(60)
    runner = store._sweeps
    assert runner._session is not None
    connection = runner._session.connection
    async with connection.transaction():
        before = await (await connection.execute(LOOKED_AT)).fetchone()
        found = await call()
        after = await (await connection.execute(LOOKED_AT)).fetchone()
    assert before is not None
    assert after is not None
    return found, after[0] - before[0]


async def test_trap_10_pages_of_the_audit_pass_over_what_ended_and_a_rebuild_misses_nothing(
    store: PostgresStore, new_hand: NewHand, snapshot: Hand, slow: None
) -> None:
    """A job that came back where all was passed, of which nobody told, is still offered after Redis lost its data."""
    heart = store.open_heartbeat()
    heart.renew(worker_beat())
    heart.close()
    (lost,) = await inserted(store)
    hand = new_hand()
    hand.do("insert into leases values (%(id)s::uuid, 1, 1, 'x', now(), now() + interval '1 hour')", {"id": lost})
    hand.do(END_JOBS.replace("%%", "%").replace("delete from jobs", f"delete from jobs where id <> '{lost}'"))
    (urgent,), ready = await inserted(store, priority=10), await inserted(store, 100)
    for _ in range(3):
        head = await store.list_claimable(QUEUE, 10)
    assert [job.id for job in head] == [urgent, *ready[:9]]
    hand.do("delete from leases")
    page, read = await read_by(store, lambda: store.list_ready(QUEUE, head[0].rank, 10, whole=False))
    assert [job.id for job in page] == ready[:10]
    assert read < FEW
    page, read = await read_by(store, lambda: store.list_ready(QUEUE, -1, 10))
    assert [job.id for job in page] == [urgent, lost, *ready[:8]]
    assert read > ENDED
    passed = store._claimer.heads.passed.of(QUEUE)
    for _ in range(ranks.MAX_CUT_OFF):
        passed.cut_off()
    passed.know_edge(5_000_000, 0, 0, time.monotonic())
    page, read = await read_by(store, lambda: store.list_ready(QUEUE, -1, 10))
    assert [job.id for job in page] == []
    assert read < FEW, "a rebuild that is cut off again and again keeps to what arrived last"


async def test_trap_10_heads_go_on_naming_what_the_walk_has_found(
    store: PostgresStore, new_hand: NewHand, slow: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The audit looks twice before it offers a job; the walk was elsewhere by then."""
    await store._notifications.wait_until_listening(60)  # to begin with it is a gap, behind which the walk hurries
    heart = store.open_heartbeat()
    heart.renew(worker_beat())
    heart.close()
    jobs = await inserted(store, 300)
    hand = new_hand()
    hand.do("insert into leases select id, 1, 1, 'x', now(), now() + interval '1 hour' from jobs where seq <= 250")
    for _ in range(2):
        assert [job.id for job in await store.list_claimable(QUEUE, 1)] == [jobs[250]]
    hand.do("delete from leases where id = any(%(ids)s::uuid[])", {"ids": jobs[200:202]})
    assert [job.id for job in await store.list_claimable(QUEUE, 1)] == [jobs[250]]
    passed = store._claimer.heads.passed.of(QUEUE)
    passed._walk_at, passed._walked, passed._step = 0.0, -1, 50_000
    for _ in range(5):
        assert [job.id for job in await store.list_claimable(QUEUE, 3)] == [*jobs[200:202], jobs[250]]


async def test_trap_10_the_leader_looks_rarely_at_what_is_ready_while_that_takes_long(
    store: PostgresStore, new_hand: NewHand, snapshot: Hand, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of its rounds asked it: with millions of ended jobs in front the leader did nothing else."""
    await inserted(store)
    hand = new_hand()
    hand.do(END_JOBS.replace("%%", "%") + "delete from jobs")
    monkeypatch.setattr(store._ready, "_enough", ((1, 0.0),))
    monkeypatch.setattr(times, "SCANS_REST", 1e9)
    look, read = await read_by(store, store.next_work)
    assert not look.busy
    assert read > ENDED
    look, read = await read_by(store, store.next_work)
    assert look.busy, "it is assumed"
    assert read < FEW


async def test_a_slow_way_to_the_server_is_no_slow_look(store: PostgresStore) -> None:
    """The first look of a process waits for its connection: on a busy machine an idle leader then never rested."""
    asked: list[bool] = []
    for _ in range(3):
        look = asyncio.create_task(store.next_work())
        await asyncio.sleep(0)
        time.sleep(0.1)  # noqa: ASYNC251  this process has no time for the answer
        asked.append((await look).busy)
    assert asked == [False, False, False]


async def test_fast_looks_are_at_all_ranks(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranks, "USUAL_SECONDS", 3600.0)
    await inserted(store, 5)
    await claimed(store)
    assert store._claimer.passed.of(QUEUE, (TYPE,)).next_scan(time.monotonic()).parts == [EVERYWHERE]


def test_after_a_quick_turn_of_the_walk_all_is_looked_at() -> None:
    passed, now = PassedRanks(), 100.0
    slow, quick = 1.0, 0.0
    for seconds in (slow, quick, quick, quick, quick):
        look = passed.next_scan(now)
        passed.claimed(look, [122 << 45 | int(now)], now + seconds)
        now += 10
    assert not passed.slow
    assert passed.next_scan(now).parts == [EVERYWHERE]


def test_on_a_busy_machine_everything_is_looked_at_again_and_again() -> None:
    """Every look is slow there, whatever it is at, and nobody may have told of what came back."""
    passed, now, since, waited = PassedRanks(), 100.0, 100.0, []
    for _ in range(60):
        look = passed.next_scan(now)
        if look.parts == [EVERYWHERE]:
            waited.append(now - since)
            since = now
        passed.claimed(look, [122 << 45 | int(now * 10)], now + ranks.USUAL_SECONDS + 0.05)
        now += 0.5
    assert passed.slow
    assert len(waited) > 5
    assert max(waited) <= ranks.PAUSE_FACTOR * 0.06


def test_looks_at_everything_that_take_long_are_left_to_the_walk() -> None:
    passed, now = PassedRanks(), 100.0
    passed.claimed(passed.next_scan(now), [122 << 45 | 90_000_000], now + 2 * ranks.FULL_SCAN_LIMIT)
    for _ in range(20):
        now += 10
        look = passed.next_scan(now)
        assert look.parts != [EVERYWHERE]
        passed.claimed(look, [122 << 45 | int(now * 1_000_000)], now + 2 * ranks.FULL_SCAN_LIMIT)


def test_the_larger_the_table_the_rarer_are_scans_of_what_ended() -> None:
    """Else they take the place of all other tables in the server's cache. Who may have missed some hurries."""

    def rests(blocks: int, extra: float, hears: bool = True, missed: bool = False) -> tuple[float, float]:
        passed, now = PassedRanks(hears=lambda: hears), 100.0
        assert not passed.wants_edge(now)
        passed.claimed(passed.next_scan(now), [122 << 45 | 9_000_000], now + ranks.USUAL_SECONDS + 0.02)
        assert passed.wants_edge(now), "how large the table is"
        passed.know_edge(9_000_000, blocks, 50 * blocks, now)
        passed.claimed(passed.next_scan(now), [122 << 45 | 9_000_000], now)
        assert not passed.wants_edge(now)
        now += 2.0
        scan = passed.next_scan(now)
        assert scan.whole
        passed.claimed(scan, [122 << 45 | 9_000_001], now + ranks.USUAL_SECONDS + extra)
        whole = passed._whole_at - now - ranks.USUAL_SECONDS - extra
        if missed:
            passed.reread_all()
        now += 1.0
        scan = passed.next_scan(now)
        assert scan.walk is not None
        passed.claimed(scan, [122 << 45 | 9_000_001], now + ranks.USUAL_SECONDS + extra)
        return whole, passed._walk_at - now - ranks.USUAL_SECONDS - extra

    few, many = rests(ranks.LARGE_TABLE_BLOCKS - 1, 0.02), rests(ranks.LARGE_TABLE_BLOCKS, 0.02)
    assert few == pytest.approx((ranks.PAUSE_FACTOR * 0.02, ranks.PAUSE_FACTOR * 0.02), rel=0.01)
    assert many == pytest.approx((ranks.LARGE_PAUSE * few[0], ranks.FIRST_STEP / 50 / ranks.LARGE_BLOCKS), rel=0.01)
    assert rests(ranks.LARGE_TABLE_BLOCKS - 1, 0.2)[0] < inf
    assert rests(ranks.LARGE_TABLE_BLOCKS, 0.2)[0] == inf
    # On a busy machine, which takes long for anything, it is not rarer than with few.
    assert rests(ranks.LARGE_TABLE_BLOCKS, 1.0)[1] == pytest.approx(
        rests(ranks.LARGE_TABLE_BLOCKS - 1, 1.0)[1], rel=0.01
    )
    assert rests(ranks.LARGE_TABLE_BLOCKS, 0.02, hears=False) == pytest.approx(few)
    assert rests(ranks.LARGE_TABLE_BLOCKS, 0.02, missed=True)[1] == pytest.approx(few[1])


def test_it_hurries_until_it_has_come_round() -> None:
    """From where it is, at once, and however often it is called for; then it is slow again."""
    passed, now, places = PassedRanks(), 100.0, list[int]()
    passed.claimed(passed.next_scan(now), [122 << 45 | 900_000], now + ranks.USUAL_SECONDS + 0.02)
    passed.know_edge(900_000, ranks.LARGE_TABLE_BLOCKS, 50 * ranks.LARGE_TABLE_BLOCKS, now)

    def step() -> float:
        """Take the next step of the walk; return for how long the walk rests."""
        nonlocal now
        while True:
            now = max(now + 1.0, passed._walk_at)
            scan = passed.next_scan(now)
            passed.claimed(scan, [122 << 45 | 900_001], now + ranks.USUAL_SECONDS + 0.01)
            if scan.walk is not None:
                places.append(scan.walk[0] & ranks.LAST_IN_BAND)
                return passed._walk_at - now

    slow = [step() for _ in range(5)][-1]
    before = len(places)
    while len([place for place in places[before:] if place < places[before]]) < 8:
        passed.reread_all()
        assert step() < slow / 2
    assert {place > places[before] for place in places[before + 1 :]} == {True, False}, "it has come round"
    while passed._hurried:
        step()
    step()
    assert step() == pytest.approx(slow)


def test_the_walk_takes_priorities_together_that_never_had_a_job() -> None:
    """Where nothing was found all 256 of them are passed; one at a time, a turn took a minute of a small queue."""
    passed, now, steps = PassedRanks(), 100.0, 0
    passed.know_edge(10_000, 0, 0, now)
    now += 1
    passed.stopped(passed.next_scan(now), [], ranks.ABOVE_ALL_RANKS, now + 1)
    while passed.slow and steps < ranks.BANDS:
        now += 10
        passed.stopped(passed.next_scan(now), [], ranks.ABOVE_ALL_RANKS, now)
        steps += 1
    assert steps <= 12


def test_parts_are_told_in_few_words() -> None:
    assert merged([(5, 9), (-1, 3), (8, 12), (3, 4)]) == [(-1, 4), (5, 12)]
    assert named([10, 12, 5000]) == [(9, 12), (4999, 5000)]
    assert len(named(range(0, 10_000_000, 5000))) <= 200
    assert ranks.read(spell([(-1, 4), (7, 8)], "a queue")) == ("a queue", [(-1, 4), (7, 8)])
    assert ranks.read("no ranks at all")[1] == []
    queues = Ranks()
    assert queues.of("a", ("x",)) is queues.of("a", ("x",)) is not queues.of("a")


def test_looks_that_are_cut_off_again_and_again_keep_to_what_arrived_last() -> None:
    """A new process that meets tens of millions of ended jobs; the walk finds what is older."""
    passed, now = PassedRanks(), 100.0
    for _ in range(ranks.MAX_CUT_OFF):
        assert passed.next_scan(now).parts == [EVERYWHERE]
        passed.cut_off()
        assert passed.wants_edge(now)
        passed.know_edge(5_000_000, 0, 0, now)
    look = passed.next_scan(now + 1)
    assert all(high - low <= ranks.FIRST_STEP or (low + 1) & ranks.LAST_IN_BAND > 3_999_999 for low, high in look.parts)
    assert look.walk is not None
    passed.claimed(look, [], now + 1)
    assert not passed.wants_edge(now + 1)


def test_a_store_that_did_not_answer_once_is_looked_at_as_before() -> None:
    passed, now = PassedRanks(), 100.0
    passed.cut_off()
    passed.know_edge(5_000_000, 0, 0, now)
    passed.claimed(passed.next_scan(now), [], now)
    passed.cut_off()
    passed.know_edge(5_000_000, 0, 0, now)
    assert passed.next_scan(now).parts == [EVERYWHERE]
