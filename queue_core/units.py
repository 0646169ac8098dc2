"""Durations and sizes as people write them, and the base of all settings."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_SIZES = {"b": 1, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "kb": 1000, "mb": 1000_000, "gb": 1000_000_000}


def parse_duration(value: object) -> float:
    """Return the seconds in 5, "5", "5m", "1.5h", "100ms" or a timedelta.

    Raises:
        ValueError: none of these, or negative.
    """
    if isinstance(value, timedelta):
        seconds = value.total_seconds()
    elif isinstance(value, int | float) and not isinstance(value, bool):
        seconds = float(value)
    elif isinstance(value, str) and (match := re.fullmatch(r"\s*(-?\d+(?:\.\d+)?)\s*([a-z]*)\s*", value.lower())):
        unit = match.group(2) or "s"
        if unit not in _UNITS:
            raise ValueError(f"'{value}' has no unit of time known here; use ms, s, m, h, d or w")
        seconds = float(match.group(1)) * _UNITS[unit]
    else:
        raise ValueError(f"{value!r} is no duration; write seconds, or for example 500ms, 5s, 5m, 1h, 7d")
    if not 0 <= seconds < float("inf"):
        raise ValueError(f"a duration cannot be negative or infinite: {value!r}")
    return seconds


def parse_size(value: object) -> int:
    """Return the bytes in 1024, "64KiB" or "1MiB".

    Raises:
        ValueError: neither a whole number nor a size.
    """
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    if isinstance(value, str) and (match := re.fullmatch(r"\s*(\d+)\s*([a-z]*)\s*", value.lower())):
        unit = match.group(2) or "b"
        if unit in _SIZES:
            return int(match.group(1)) * _SIZES[unit]
    raise ValueError(f"{value!r} is no size; write bytes, or for example 64KiB or 1MiB")


def _or_never(value: object) -> float | None:
    return None if value is None or value == "never" else parse_duration(value)


Duration = Annotated[float, BeforeValidator(parse_duration)]
"""Seconds."""
Retention = Annotated[float | None, BeforeValidator(_or_never)]
"""Seconds, or None for never."""
Size = Annotated[int, BeforeValidator(parse_size)]
"""Bytes."""


class Model(BaseModel):
    """Base of all settings: unknown keys are errors, values never change."""

    model_config = ConfigDict(extra="forbid", frozen=True)
