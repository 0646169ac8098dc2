"""Trap 12 again: a table in which most rows have ended is scanned by ranges of blocks, and no row is missed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import count

import pytest

from queue_core.model.settings import PostgresSettings
from queue_core.stores.postgres.dialect import Rows
from queue_core.stores.postgres.scans import blocks
from queue_core.stores.postgres.scans.blocks import BlockRanges, BlockScan
from queue_core.stores.postgres.session.runner import SerialRunner
from tests.postgres.traps.conftest import NewHand
from tests.postgres.traps.hands import Hand, new_lease, reclaim_parameters

ENDED = 15_000
BLOCKS = 4
"""Of a range: 15,000 leases are far more than a step."""
FEW = 6
"""Ranges of a step once most are left out."""


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every scan of everything is too slow, and what is found empty is left out."""
    monkeypatch.setattr(blocks, "SCAN_LONG", -1.0)
    monkeypatch.setattr(blocks, "RANGE_BLOCKS", BLOCKS)
    monkeypatch.setattr(blocks, "EMPTY_LONG", 0.0)
    monkeypatch.setattr(blocks, "RANGES_REREAD_A_SECOND", 0.0)


@pytest.fixture
async def scan(postgres_url: str, new_hand: NewHand, snapshot: Hand) -> AsyncIterator[BlockScan]:
    runner = SerialRunner(PostgresSettings(url=postgres_url))
    yield BlockScan(runner, "leases")
    await runner.close()


def end_leases(hand: Hand) -> None:
    """Leave leases that ended, which nobody may vacuum away while there is a snapshot."""
    hand.do(f"""
        insert into leases (id, token, queue_id, worker, started_at, expires_at)
        select gen_random_uuid(), n, 1, 'gone', now(), now() + interval '1 hour' from generate_series(1, {ENDED}) n;
        delete from leases where worker = 'gone'
    """)
    hand.do("select pg_stat_force_next_flush()")


def expire(hand: Hand, *ids: str) -> None:
    """Let leases expire where they are: on the same block, as an update in place does while it has room."""
    hand.do(f"update leases set expires_at = now() - interval '1 second' where id = any ('{{{','.join(ids)}}}')")


async def reclaim(scan: BlockScan, limit: int = 5) -> Rows:
    return await scan.run("settle/reclaim", reclaim_parameters() | {"limit": limit}, lambda rows: len(rows) == limit)


async def read_all(scan: BlockScan) -> int:
    """Take steps until all that can be left out is; return how many."""
    for steps in count(1):
        assert await reclaim(scan) == []
        if (ranges := scan._ranges) is not None and 0 < len(ranges._open) <= FEW:
            return steps
    raise AssertionError


async def test_what_expires_is_found_where_everything_else_has_ended(scan: BlockScan, new_hand: NewHand) -> None:
    """In a range that holds a lease it is found by the next step, once the empty ranges are left out."""
    hand = new_hand()
    end_leases(hand)
    middle = new_lease(hand)
    end_leases(hand)
    last = new_lease(hand)
    await read_all(scan)
    expire(hand, middle, last)
    assert {row[0] for row in await reclaim(scan)} == {middle, last}
    assert await reclaim(scan) == []


async def test_all_of_many_are_found(scan: BlockScan, new_hand: NewHand) -> None:
    """A step is taken again until nothing more is found in it."""
    hand = new_hand()
    ids = []
    for _ in range(4):
        end_leases(hand)
        ids += [new_lease(hand) for _ in range(7)]
    await reclaim(scan)
    assert scan.slow
    expire(hand, *ids)
    found: list[str] = []
    for _ in range(60):
        found += [row[0] for row in await reclaim(scan)]
    assert sorted(found) == sorted(ids)


async def test_ranges_that_are_left_out_are_read_again(
    scan: BlockScan, new_hand: NewHand, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row that was not committed yet, or took the room that a vacuum had left, is found late, but found."""
    hand, late = new_hand(), new_hand()
    end_leases(hand)
    late.do("begin")
    missed = new_lease(late)
    end_leases(hand)
    await read_all(scan)
    late.do("commit")
    expire(hand, missed)
    end_leases(hand)
    await read_all(scan)
    monkeypatch.setattr(blocks, "RANGES_REREAD_A_SECOND", 1e9)
    found: list[str] = []
    while not found:
        found = [row[0] for row in await reclaim(scan)]
    assert found == [missed]


async def test_once_all_is_vacuumed_away_all_is_read(
    scan: BlockScan, new_hand: NewHand, snapshot: Hand, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the table stays as large as it is, since the last block has a row."""
    hand = new_hand()
    end_leases(hand)
    last = new_lease(hand)
    await read_all(scan)
    snapshot.do("rollback")
    monkeypatch.setattr(blocks, "SCAN_LONG", 3600.0)
    while scan.slow:
        hand.do("vacuum leases")
        assert await reclaim(scan) == []
    expire(hand, last)
    assert [row[0] for row in await reclaim(scan)] == [last]


def test_ranges_with_rows_are_read_in_each_step_before_the_others_are() -> None:
    """A new leader does not read all that ended before it comes to what has expired."""
    ranges, full = BlockRanges(), {990, 995, 3}
    ranges.grow(1000 * BLOCKS)
    steps = []
    for now in range(12):
        steps.append(ranges.next_step(float(now)))
        ranges.looked(steps[-1], [number in full for number in steps[-1]], float(now))
    assert {990, 995, 998, 999} <= set(steps[0])
    assert all({990, 995} <= set(numbers) for numbers in steps)
    assert len(set().union(*steps)) > 12 * (blocks.STEP_RANGES - 4)


def test_few_ranges_are_read_and_all_of_them_periodically(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last ones always, those with rows in turn, and of the others so many a second."""
    monkeypatch.setattr(blocks, "EMPTY_LONG", 10.0)
    monkeypatch.setattr(blocks, "RANGES_REREAD_A_SECOND", 4.0)
    ranges, full, now = BlockRanges(), {3, 500}, 100.0
    ranges.grow(1000 * BLOCKS)

    def step() -> list[int]:
        numbers = ranges.next_step(now)
        ranges.looked(numbers, [number in full for number in numbers], now)
        return numbers

    read = []
    while len(ranges._open) > 4:
        read.append(step())
        now += 1.0
    assert set().union(*read) == set(range(1000))
    assert len(read) <= 2 * 1000 / (blocks.STEP_RANGES - 4) + 12
    later = []
    for _ in range(250):
        later.append(step())
        now += 1.0
    assert all({3, 500, 998, 999} <= set(numbers) and len(numbers) == 8 for numbers in later)
    assert set().union(*later) == set(range(1000))
    # It grows and shrinks.
    ranges.grow(1010 * BLOCKS)
    assert {1000, 1009} <= set(step())
    ranges.grow(4 * BLOCKS)
    assert set(ranges._open) <= {2, 3}
    assert set(step()) <= {0, 1, 2, 3}
