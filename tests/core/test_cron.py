"""When a cron expression ticks, above all when the clocks are changed."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queue_core.errors import ConfigurationError
from queue_core.model.schedule import check_cron, next_tick

PARIS = "Europe/Paris"
NOW = 1_767_225_600.0
"""2026-01-01 00:00 UTC."""


def ticks(cron: str, tz: str, start: str, number: int) -> list[str]:
    """Return the ticks after a local time with its offset, by the clocks of the zone."""
    at, found = datetime.fromisoformat(start).timestamp(), []
    for _ in range(number):
        at = next_tick(cron, tz, at)
        found.append(datetime.fromtimestamp(at, ZoneInfo(tz)).isoformat(timespec="minutes"))
    return found


def test_a_time_that_the_clocks_leave_out_ticks_after_the_gap() -> None:
    """On 2026-03-29 Paris goes from 02:00 to 03:00."""
    assert ticks("30 2 * * *", PARIS, "2026-03-28T00:00+01:00", 3) == [
        "2026-03-28T02:30+01:00",
        "2026-03-29T03:00+02:00",
        "2026-03-30T02:30+02:00",
    ]


def test_several_times_in_the_gap_tick_together_once() -> None:
    assert ticks("0,30 2 * * *", PARIS, "2026-03-29T00:00+01:00", 2) == [
        "2026-03-29T03:00+02:00",
        "2026-03-30T02:00+02:00",
    ]


def test_a_time_that_comes_twice_ticks_the_first_time() -> None:
    """On 2026-10-25 Paris goes from 03:00 back to 02:00."""
    assert ticks("30 2 * * *", PARIS, "2026-10-24T12:00+02:00", 2) == [
        "2026-10-25T02:30+02:00",
        "2026-10-26T02:30+01:00",
    ]


def test_asked_in_the_second_pass_it_does_not_tick_once_more() -> None:
    for start in ("2026-10-25T02:10+01:00", "2026-10-25T02:30+01:00", "2026-10-25T02:50+01:00"):
        assert ticks("30 2 * * *", PARIS, start, 1) == ["2026-10-26T02:30+01:00"]


def test_intervals_go_by_the_time_that_passes() -> None:
    assert ticks("*/30 * * * *", PARIS, "2026-03-29T01:00+01:00", 3) == [
        "2026-03-29T01:30+01:00",
        "2026-03-29T03:00+02:00",
        "2026-03-29T03:30+02:00",
    ]
    assert ticks("*/30 * * * *", PARIS, "2026-10-25T01:30+02:00", 5) == [
        "2026-10-25T02:00+02:00",
        "2026-10-25T02:30+02:00",
        "2026-10-25T02:00+01:00",
        "2026-10-25T02:30+01:00",
        "2026-10-25T03:00+01:00",
    ]
    assert ticks("0 * * * *", PARIS, "2026-10-25T01:30+02:00", 3) == [
        "2026-10-25T02:00+02:00",
        "2026-10-25T02:00+01:00",
        "2026-10-25T03:00+01:00",
    ]


def test_a_zone_whose_clocks_are_not_changed() -> None:
    for day in ("2026-03-29", "2026-10-25"):
        assert ticks("30 2 * * *", "Asia/Kolkata", f"{day}T00:00+05:30", 1) == [f"{day}T02:30+05:30"]
        assert ticks("30 2 * * *", "UTC", f"{day}T00:00+00:00", 1) == [f"{day}T02:30+00:00"]


def test_clocks_that_are_changed_by_half_an_hour() -> None:
    """On 2026-04-05 Lord Howe Island goes from 02:00 back to 01:30."""
    assert ticks("*/15 1 * * *", "Australia/Lord_Howe", "2026-04-05T01:30+11:00", 3) == [
        "2026-04-05T01:45+11:00",
        "2026-04-05T01:30+10:30",
        "2026-04-05T01:45+10:30",
    ]
    assert ticks("45 1 * * *", "Australia/Lord_Howe", "2026-04-05T01:30+11:00", 2) == [
        "2026-04-05T01:45+11:00",
        "2026-04-06T01:45+10:30",
    ]


def test_nine_in_paris_is_nine_in_paris_all_year() -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
    for _ in range(365):
        at = next_tick("0 9 * * *", PARIS, at)
        local = datetime.fromtimestamp(at, ZoneInfo(PARIS))
        assert (local.hour, local.minute, local.second) == (9, 0, 0)


def test_days_of_month_and_of_week() -> None:
    # Both given: either (Debian's rule); one with a star: both.
    assert ticks("0 0 13 * FRI", "UTC", "2026-01-01T00:00+00:00", 3) == [
        "2026-01-02T00:00+00:00",
        "2026-01-09T00:00+00:00",
        "2026-01-13T00:00+00:00",
    ]
    assert ticks("0 0 L * *", "UTC", "2026-02-01T00:00+00:00", 1) == ["2026-02-28T00:00+00:00"]
    assert ticks("0 0 29 2 *", "UTC", "2026-01-01T00:00+00:00", 1) == ["2028-02-29T00:00+00:00"]


def test_six_fields_begin_with_the_seconds() -> None:
    assert next_tick("*/10 * * * * *", "UTC", NOW + 0.001) == NOW + 10
    assert next_tick("*/10 * * * * *", PARIS, NOW + 10) == NOW + 20


def test_six_fields_follow_the_clocks_as_five_do() -> None:
    assert ticks("0 30 2 * * *", PARIS, "2026-03-28T12:00+01:00", 2) == [
        "2026-03-29T03:00+02:00",
        "2026-03-30T02:30+02:00",
    ]
    assert ticks("0 30 2 * * *", PARIS, "2026-10-24T12:00+02:00", 2) == [
        "2026-10-25T02:30+02:00",
        "2026-10-26T02:30+01:00",
    ]
    gap_end = datetime.fromisoformat("2026-03-29T03:00+02:00").timestamp()
    assert next_tick("*/20 30 2 * * *", PARIS, gap_end - 3600) == gap_end
    assert next_tick("*/20 30 2 * * *", PARIS, gap_end) == gap_end + 84600


CHANGES = {
    PARIS: "2026-03-29 2026-10-25",
    "America/New_York": "2026-03-08 2026-11-01",
    "America/Santiago": "2026-04-05 2026-09-06",
    "America/St_Johns": "2026-03-08 2026-11-01",
    "Africa/Cairo": "2026-04-24 2026-10-30",
    "Africa/Casablanca": "2026-02-15 2026-03-22",
    "Antarctica/Troll": "2026-03-29 2026-10-25",
    "Asia/Beirut": "2026-03-29 2026-10-25",
    "Atlantic/Azores": "2026-03-29 2026-10-25",
    "Australia/Lord_Howe": "2026-04-05 2026-10-04",
    "Pacific/Apia": "2011-12-30",
    "Asia/Kolkata": "2026-03-29",
}
"""Zones, and days on which their clocks are changed: by half an hour, an hour, two or a day; one has none."""
HOURS, MINUTES, SECONDS = (0, 1, 2, 3, 23), (0, 15, 30, 45), (0, 20, 40)


@pytest.mark.parametrize(("tz", "day"), [(tz, day) for tz, days in CHANGES.items() for day in days.split()])
@pytest.mark.parametrize("seconds", ["", "0", "*/20", "40,0,20", "50"])
def test_fixed_times_tick_as_the_clocks_show_them_first(tz: str, day: str, seconds: str) -> None:
    zone = ZoneInfo(tz)
    start = datetime.fromisoformat(f"{day}T00:00+00:00").timestamp() - 2 * 86400
    # every minute that the clocks show, and when they show it first
    shown: dict[datetime, float] = {}
    for minute in range(5 * 1440):
        at = start + 60 * minute
        shown.setdefault(datetime.fromtimestamp(at, zone).replace(tzinfo=None), at)
    first, last = min(shown), max(shown)
    expected = set()
    for minute in range(int((last - first).total_seconds()) // 60 + 1):
        local = first + timedelta(minutes=minute)
        if local.hour in HOURS and local.minute in MINUTES:
            later = {"": (0,), "0": (0,), "50": (50,)}.get(seconds, SECONDS)
            after_gap = min(one for one in shown if one >= local) if local not in shown else local
            expected |= {shown[after_gap] + (second if local in shown else 0) for second in later}
    cron = f"{seconds} {','.join(map(str, MINUTES))} {','.join(map(str, HOURS))} * * *"
    at, found = start - 0.5, []
    while (at := next_tick(cron, tz, at)) <= max(expected):
        found.append(at)
    assert found == sorted(expected)


def test_a_tick_is_after_the_time_that_was_asked() -> None:
    assert next_tick("0 0 * * *", "UTC", NOW) == NOW + 86400
    assert next_tick("0 0 * * *", "UTC", NOW - 0.001) == NOW


@given(
    st.sampled_from(["* * * * *", "*/7 * * * *", "30 2 * * *", "0,30 1-3 * * *", "15 */2 * * 0", "* * * * * *"]),
    st.sampled_from([PARIS, "America/New_York", "Africa/Cairo", "America/St_Johns", "UTC"]),
    st.floats(1_700_000_000, 2_000_000_000),
    st.floats(0, 0.99),
)
def test_whoever_asks_before_a_tick_is_told_the_same(cron: str, tz: str, after: float, part: float) -> None:
    tick = next_tick(cron, tz, after)
    assert after < tick
    assert next_tick(cron, tz, after + part * (tick - after)) == tick
    assert next_tick(cron, tz, tick) > tick


WRONG = {
    ("", "UTC"): "the cron expression '' cannot be read: it has five fields (minute, hour, day of month, month, day of "
    "week), or six with the seconds in front",
    ("* * * *", "UTC"): "the cron expression '* * * *' cannot be read: it has five fields",
    ("@daily", "UTC"): "the cron expression '@daily' cannot be read: it has five fields",
    ("61 * * * *", "UTC"): "the cron expression '61 * * * *' cannot be read: its field minute is wrong",
    ("* * * * MOO", "UTC"): "the cron expression '* * * * MOO' cannot be read: its field day-of-week is wrong",
    ("0 0 30 2 *", "UTC"): "the cron expression '0 0 30 2 *' cannot be read: its field day-of-month is wrong",
    ("0 0 */31 2 2#5", "UTC"): "the cron expression '0 0 */31 2 2#5' never ticks",
    ("1\n2 3 4 5", "UTC"): "a cron expression is a text of at most 200 characters, not '1\\n2 3 4 5'",
    ("9" * 10_000, "UTC"): "a cron expression is a text of at most 200 characters, not '9999",
    (5, "UTC"): "a cron expression is a text of at most 200 characters, not 5",
    ("* * * * *", "Europe/Pari"): "there is no time zone 'Europe/Pari'; did you mean 'Europe/Paris'?",
    ("* * * * *", "Mars/Olympus"): "there is no time zone 'Mars/Olympus'",
    ("* * * * *", "../../etc/passwd"): "there is no time zone '../../etc/passwd'",
    ("* * * * *", "Europe"): "there is no time zone 'Europe'",
    ("* * * * *", ""): "there is no time zone ''",
    ("* * * * *", "a\0b"): "there is no time zone 'a\\x00b'",
    ("* * * * *", None): "tz is the name of a time zone, such as Europe/Paris, not None",
}


@pytest.mark.parametrize(("given_", "sentence"), WRONG.items())
def test_what_is_wrong_is_one_sentence(given_: tuple[object, object], sentence: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        check_cron(*given_, time.time())
    assert str(raised.value).startswith(sentence)
    assert len(str(raised.value)) < 400
    assert "\n" not in str(raised.value)


def test_a_machine_without_zones_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("queue_core.model.schedule.available_timezones", set)
    with pytest.raises(ConfigurationError, match="this machine has no zones: install the package tzdata"):
        check_cron("* * * * *", "Europe/Atlantis", NOW)


def test_spaces_do_not_matter() -> None:
    assert check_cron("  0   9 * *  mon-fri ", PARIS, NOW) == ("0 9 * * mon-fri", PARIS)
