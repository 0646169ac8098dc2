"""Numbers and times keep to their widths and never lie about their size."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobconsole.format import humanize

NOW = datetime(2026, 3, 1, 3, 7, 41, tzinfo=UTC)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"),
        (999, "999"),
        (9_999, "9,999"),
        (12_400, "12.4k"),
        (99_999, "99.9k"),
        (999_999, "999k"),
        (1_250_000, "1.25M"),
    ],
)
def test_short_counts(number: int, text: str) -> None:
    assert humanize.short(number) == text


@given(st.integers(min_value=0, max_value=999_999_999_999))
def test_a_short_count_takes_five_characters_at_most(number: int) -> None:
    assert len(humanize.short(number)) <= 5


def test_a_count_is_exact_where_it_fits() -> None:
    assert humanize.count(48_213, 6) == "48,213"
    assert humanize.count(148_213, 6) == "148k"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, ""),
        (0.2, "now"),
        (4, "4s"),
        (59.9, "59s"),
        (720, "12m"),
        (3600 * 3, "3h"),
        (86400 * 16, "16d"),
        (86400 * 300, "42w"),
    ],
)
def test_ages(seconds: float | None, text: str) -> None:
    assert humanize.age(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "now"),
        (0.2, "now"),
        (0.8, "1s"),
        (59.7, "1m"),
        (3599.9, "1h"),
        (4 * 3600 - 0.5, "4h"),
        (86400 - 3, "1d"),
        (86400 * 99 - 1, "14w"),
    ],
)
def test_what_has_just_begun_lasts_as_long_as_was_chosen(seconds: float, text: str) -> None:
    assert humanize.remaining(seconds) == text


@given(st.floats(min_value=-10, max_value=3600 * 24 * 365 * 10))
def test_what_remains_takes_four_characters_at_most(seconds: float) -> None:
    assert len(humanize.remaining(seconds)) <= 4


@given(st.floats(min_value=0, max_value=3600 * 24 * 365 * 10))
def test_an_age_takes_four_characters_at_most(seconds: float) -> None:
    assert len(humanize.age(seconds)) <= 4


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.018, "18ms"), (1.23, "1.2s"), (9.99, "10s"), (87, "1m27"), (7500, "2h05"), (86400 * 3 + 3600 * 4, "3d04")],
)
def test_durations(seconds: float, text: str) -> None:
    assert humanize.duration(seconds) == text


@pytest.mark.parametrize(("seconds", "text"), [(0.4, "0s"), (3.9, "3s"), (87.2, "1m27")])
def test_elapsed_time_is_in_whole_seconds(seconds: float, text: str) -> None:
    assert humanize.elapsed(seconds) == text


@pytest.mark.parametrize(
    ("per_second", "text"), [(0, "0/s"), (0.42, "0.4/s"), (5120.4, "5,120/s"), (12_400, "12.4k/s")]
)
def test_rates(per_second: float, text: str) -> None:
    assert humanize.rate(per_second) == text


def test_a_moment_of_another_day_has_its_date() -> None:
    assert humanize.moment_of(NOW - timedelta(hours=1), NOW) == "02:07:41"
    assert humanize.moment_of(NOW - timedelta(days=1), NOW) == "2026-02-28 03:07"
    assert humanize.moment_of(NOW - timedelta(days=28), NOW) == "2026-02-01 03:07", "the same day of another month"


def test_a_clock_that_runs_ahead_gives_no_negative_age() -> None:
    assert humanize.seconds_between(NOW + timedelta(seconds=5), NOW) == 0.0


def test_plurals() -> None:
    assert [humanize.plural(1, "job"), humanize.plural(2, "job"), humanize.plural(2, "crash", "crashes")] == [
        "1 job",
        "2 jobs",
        "2 crashes",
    ]
