"""Numbers and times as people read them, in columns whose width never changes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

_STEPS = ((1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k"))


def exact(number: int) -> str:
    """Return 48,213."""
    return f"{number:,}"


def short(number: float) -> str:
    """Return a number in at most five characters: 999, 9,999, 12.4k, 999k, 1.25M."""
    if number < 10_000:
        return f"{number:,.0f}"
    for step, unit in _STEPS:
        if number >= step:
            value = number / step
            digits = 2 if value < 10 else 1 if value < 100 else 0
            return f"{_floor(value, digits):.{digits}f}{unit}"
    raise AssertionError(number)


def count(number: int, width: int = 6) -> str:
    """Return the number exactly where it fits into `width` characters, and short where it does not."""
    text = exact(number)
    return text if len(text) <= width else short(number)


def rate(per_second: float) -> str:
    """Return 5,120/s, 12.4k/s, 3.5/s or 0/s."""
    if 0 < per_second < 9.95:
        return f"{per_second:.1f}/s"
    return f"{short(round(per_second))}/s"


def age(seconds: float | None) -> str:
    """Return the age in at most four characters: now, 4s, 59s, 12m, 3h, 16d, 40w; "" for None."""
    if seconds is None:
        return ""
    if seconds < 1:
        return "now"
    for limit, size, unit in ((60, 1, "s"), (3600, 60, "m"), (86400, 3600, "h"), (86400 * 99, 86400, "d")):
        if seconds < limit:
            return f"{int(seconds // size)}{unit}"
    return f"{int(seconds // 604800)}w"


def remaining(seconds: float) -> str:
    """Return how long something still lasts, to the nearest unit, in at most four characters: 4h for 3:59:59; now."""
    for limit, size, unit in ((60, 1, "s"), (3600, 60, "m"), (86400, 3600, "h"), (86400 * 99, 86400, "d")):
        number = round(seconds / size)
        if number * size < limit:
            return f"{number}{unit}" if number > 0 else "now"
    return f"{round(seconds / 604800)}w"


def duration(seconds: float | None) -> str:
    """Return 850ms, 1.2s, 12s, 1m27, 2h05 or 3d04; "" for None."""
    if seconds is None:
        return ""
    if seconds < 0.9995:
        return f"{max(0, round(seconds * 1000))}ms"
    if seconds < 9.95:
        return f"{seconds:.1f}s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02}"
    if whole < 86400:
        return f"{whole // 3600}h{whole % 3600 // 60:02}"
    return f"{whole // 86400}d{whole % 86400 // 3600:02}"


def elapsed(seconds: float) -> str:
    """Return a duration in whole seconds, for what is drawn again and again: 0s, 12s, 1m27, 2h05."""
    return duration(float(int(seconds))).replace(".0s", "s") if seconds >= 1 else "0s"


def size(number: int) -> str:
    """Return 812 B, 1.5 KiB, 12 MiB."""
    value = float(number)
    for unit in ("B", "KiB", "MiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" or value >= 10 else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} GiB"


def plural(number: int, word: str, many: str = "") -> str:
    """Return "1 job" or "3 jobs"."""
    return f"{exact(number)} {word if number == 1 else many or word + 's'}"


def clock(moment: datetime) -> str:
    """Return 03:07:41 in UTC."""
    return moment.astimezone(UTC).strftime("%H:%M:%S")


def moment_of(moment: datetime | None, now: datetime) -> str:
    """Return 03:07:41 for today, 2026-01-30 03:07 for another day, in UTC; "" for None."""
    if moment is None:
        return ""
    there = moment.astimezone(UTC)
    same_day = there.date() == now.astimezone(UTC).date()
    return there.strftime("%H:%M:%S" if same_day else "%Y-%m-%d %H:%M")


def span_of(moments: Sequence[datetime], now: datetime) -> str:
    """Return "from 02:52:10 to 03:07:37", or the one time at which all of them were."""
    first, last = moment_of(min(moments), now), moment_of(max(moments), now)
    return last if first == last else f"from {first} to {last}"


def seconds_between(earlier: datetime | None, later: datetime) -> float | None:
    """Return the seconds from one moment to a later one, never below 0; None when the first is unknown."""
    return None if earlier is None else max(0.0, (later - earlier).total_seconds())


def _floor(value: float, digits: int) -> float:
    # 999.96k must not become "1000k": cut instead of rounding
    factor = (1, 10, 100)[digits]
    return int(value * factor) / factor
