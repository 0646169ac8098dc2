"""Run times by type: quantiles from the histograms of the totals, over the time that somebody looked."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from jobconsole.core.latency import KEPT_SECONDS, Latency, TypeTotals, quantile, type_line
from jobconsole.format.glyphs import UNICODE
from jobconsole.format.spans import RenderContext
from jobconsole.present.columns import TYPES
from queue_core import JobQueue
from queue_core.model.report import HISTOGRAM_BOUNDS, Tally
from tests.conformance.world import World


def tally(outcome: str, count: int, buckets: dict[int, int], type_: str = "t", queue: str = "q") -> Tally:
    return Tally(queue, type_, outcome, count, 0, 0, {}, buckets)


@pytest.mark.parametrize(
    ("buckets", "part", "seconds"),
    [
        ({}, 0.5, None),
        ({0: 10}, 0.5, 0.0005),
        ({1: 4}, 0.5, 0.00175),
        ({0: 90, 9: 10}, 0.5, 0.001 * 50 / 90),
        ({0: 90, 9: 10}, 0.95, 0.75),
        ({3: 0, 5: 2}, 1.0, 0.05),
    ],
)
def test_a_quantile_lies_in_its_bucket(buckets: dict[int, int], part: float, seconds: float | None) -> None:
    assert quantile(buckets, part) == (None if seconds is None else (pytest.approx(seconds), ""))


@pytest.mark.parametrize(
    ("buckets", "part", "shown"),
    [
        ({15: 100}, 0.5, "<5m00"),  # all took 60.06 s: evenly spread they would be 3m00, 4m48 and 4m58
        ({15: 100}, 0.99, "<5m00"),
        ({13: 1}, 0.5, "<30s"),
        ({14: 2}, 0.5, "45s"),
        ({0: 1, len(HISTOGRAM_BOUNDS): 99}, 0.5, ">1h00"),
        ({}, 0.5, "-"),
    ],
)
def test_of_a_wide_bucket_its_end_is_shown(buckets: dict[int, int], part: float, shown: str) -> None:
    line = type_line("slow", TypeTotals(completed=sum(buckets.values()), buckets=buckets))
    p50, p99 = (column for column in TYPES if column.title in {"P50", "P99"})
    ((text, _),) = (p50 if part == 0.5 else p99).value(line, RenderContext(datetime(2026, 1, 1, tzinfo=UTC), UNICODE))
    assert text == shown


def test_of_all_time_until_something_ends_then_of_the_last_minutes() -> None:
    latency = Latency()
    assert latency.lines() == []
    latency.update([tally("completed", 100, {9: 100}), tally("dead", 100, {9: 100}, queue="other")], 0.0)
    (line,) = latency.lines()
    assert (line.ended, line.ratio, latency.seconds) == (200, 0.5, 0.0)
    latency.update([tally("completed", 110, {9: 100, 0: 10}), tally("dead", 100, {9: 100}, queue="other")], 30.0)
    (line,) = latency.lines()
    assert (line.ended, line.failed, latency.seconds) == (10, 0, 30.0)
    assert line.p99 is not None
    assert line.p99.seconds < 0.001


def test_old_readings_are_let_go() -> None:
    latency = Latency()
    for minute in range(60):
        latency.update([tally("completed", minute * 10, {0: minute * 10})], minute * 60.0)
    assert KEPT_SECONDS - 60 <= latency.seconds <= KEPT_SECONDS
    assert latency.lines()[0].ended == round(latency.seconds / 6)


async def test_what_a_store_counts(jobs: JobQueue, world: World) -> None:
    await world.ended("completed", {"run_us": 20_000}, type="quick")
    await world.ended("dead", {"run_us": 3_000_000}, type="slow\x1b")
    latency = Latency()
    latency.update(await jobs.inspector.tallies(), 0.0)
    slow, quick = latency.lines()
    assert (slow.type, slow.ratio, quick.type, quick.ratio) == ("slow␛", 1.0, "quick", 0.0)
    assert slow.p50 is not None
    assert 2.5 <= slow.p50.seconds <= 5.0
