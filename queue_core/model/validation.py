"""What may go into a job: names, times, tags. Every refusal names what is wrong and what would be right."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from math import isnan
from numbers import Real
from typing import Annotated, Any, ClassVar, SupportsInt

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

from queue_core.errors import ConfigurationError, InvalidArgument, InvalidJob
from queue_core.model.operation import Rollout
from queue_core.model.text import storable
from queue_core.model.triage.release import parse_release

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


MAX_DELAY_SECONDS = 100 * 366 * 86400.0
"""Seconds; a job that is due in more than a hundred years is a mistake in a unit."""


def _or_never(value: object) -> float | None:
    seconds = None if value is None or value == "never" else parse_duration(value)
    if seconds is not None and seconds > MAX_DELAY_SECONDS:
        raise ValueError(f"{value!r} is more than 100 years; write never")
    return seconds


Duration = Annotated[float, BeforeValidator(parse_duration)]
"""Seconds."""
Retention = Annotated[float | None, BeforeValidator(_or_never)]
"""Seconds, 100 years at most, or None for never."""
Size = Annotated[int, BeforeValidator(parse_size)]
"""Bytes."""


class SettingsModel(BaseModel):
    """Base of all settings: unknown keys are errors, values never change."""

    beside: ClassVar[tuple[str, ...]] = ()
    """Keys of the same block that are read elsewhere."""

    model_config = ConfigDict(extra="forbid", frozen=True)


_PROBLEMS = {
    "extra_forbidden": "unknown key",
    **dict.fromkeys(("int_parsing", "int_type", "int_from_float"), "must be a whole number"),
    **dict.fromkeys(("float_parsing", "float_type"), "must be a number"),
    "bool_parsing": "must be true or false",
    "bool_type": "must be true or false",
    "string_type": "must be text",
}


def first_problem(error: ValidationError) -> tuple[list[str], str]:
    """Return the key of the first problem, by its levels, and what is wrong, without the value: it may be a secret."""
    problems = error.errors(include_url=False, include_input=False)
    path = [str(part) for part in problems[0]["loc"] if part != "[key]"]  # a name itself
    what = problems[0]["msg"].removeprefix("Value error, ").replace("Input should be", "must be")
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return path, f"{_PROBLEMS.get(problems[0]['type'], what)}{more}"


LONGEST_NAME = 200
"""Characters of a queue's or a type's name."""
MAX_TAGS = 32


def check_name(name: object, what: str) -> str:
    """Return the name of a queue, a type or a tag.

    Raises:
        InvalidJob: empty, too long, or with characters that keys and terminals cannot carry.
    """
    if not isinstance(name, str) or not name:
        raise InvalidJob(f"{what} is a text that is not empty, not {name!r}")
    if len(name) > LONGEST_NAME:
        raise InvalidJob(f"{what} has {len(name)} characters; the limit is {LONGEST_NAME}")
    if not name.isprintable() or "{" in name or "}" in name or name.strip() != name:
        raise InvalidJob(f"{what} cannot hold braces, unseen characters or spaces at its ends: {name!r}")
    return name


ALL_QUEUES = "*"
"""The name under which rules are given to all queues; no queue has it."""


def check_queue_name(name: object) -> str:
    """Return the name of a queue that jobs go to or come from.

    Raises:
        InvalidJob: it is no name, or the one that rules for all queues have.
    """
    if name == ALL_QUEUES:
        raise InvalidJob(f"a queue cannot be named '{ALL_QUEUES}', under which rules for all queues are given")
    return check_name(name, "the queue's name")


def check_percent(percent: object) -> int:
    """Return the whole part of a percentage; 0 or 100 for what is beyond these.

    Raises:
        InvalidArgument: no number, or none of this size: NaN, infinity.
    """
    if isinstance(percent, _NUMBERS) and not isinstance(percent, bool):
        with suppress(ValueError, OverflowError):
            return max(0, min(100, int(percent)))
    raise InvalidArgument(f"progress is a number from 0 to 100, not {percent!r}")


# Real: also the numbers of numpy.
_NUMBERS: tuple[type[SupportsInt], ...] = (int, float, Decimal, Real)  # type: ignore[assignment]


def check_id(job_id: object) -> str:
    """Return a job's id; whether there is such a job, the store knows.

    Raises:
        InvalidArgument: no text.
    """
    if not isinstance(job_id, str):
        raise InvalidArgument(f"a job's id is a text, not {job_id!r}")
    return job_id


def check_ids(ids: object) -> Sequence[str]:
    """Return the ids of jobs.

    Raises:
        InvalidArgument: no list of texts.
    """
    if isinstance(ids, str) or not isinstance(ids, Sequence):
        raise InvalidArgument(f"ids is a list of jobs' ids, not {ids!r}")
    return [check_id(job_id) for job_id in ids]


def check_payloads(payloads: object) -> list[Mapping[str, Any]]:
    """Return the payloads of many jobs; what each may hold is decided later.

    Raises:
        InvalidJob: no list of them.
    """
    if isinstance(payloads, str | Mapping) or not isinstance(payloads, Iterable):
        raise InvalidJob(f"payloads is a list with one dict a job, not {type(payloads).__name__}")
    return list(payloads)


def check_timeout(timeout: object) -> float | None:
    """Return the seconds to wait at most; None: for ever.

    Raises:
        InvalidArgument: no number.
    """
    if timeout is None:
        return None
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or isnan(timeout):
        raise InvalidArgument(f"timeout is a number of seconds or None, not {timeout!r}")
    return timeout


def check_seconds(value: object, what: str) -> float:
    """Return a duration in seconds.

    Raises:
        InvalidArgument: no duration.
    """
    try:
        return parse_duration(value)
    except ValueError as error:
        raise InvalidArgument(f"{what}: {error}") from None


def check_lease(lease: object, what: str = "lease") -> float:
    """Return the length of a lease in seconds.

    Raises:
        InvalidArgument: no duration, none at all, or more than a hundred years.
    """
    seconds = check_seconds(lease, what)
    if not seconds:
        raise InvalidArgument("a lease of 0 s is over at once")
    if seconds > MAX_DELAY_SECONDS:
        raise InvalidArgument(f"{what}: {lease!r} is more than a hundred years")
    return seconds


def check_types(types: object) -> tuple[str, ...] | None:
    """Return the names of types; None: of any.

    Raises:
        InvalidArgument: no list; InvalidJob: something in it is no name.
    """
    if isinstance(types, str) or not isinstance(types, Sequence | None):
        raise InvalidArgument(f"types is a list of names, not {types!r}")
    return None if types is None else tuple(check_name(type_, "the type's name") for type_ in types)


def check_delay(delay: object, what: str = "delay") -> float:
    """Return a delay in seconds.

    Raises:
        InvalidJob: no duration, negative, not finite, or more than a hundred years.
    """
    try:
        seconds = parse_duration(delay)
    except ValueError as error:
        raise InvalidJob(f"{what}: {error}") from None
    if not seconds <= MAX_DELAY_SECONDS:
        raise InvalidJob(f"{what}: {delay!r} is more than a hundred years")
    return seconds


MAX_RAMP_STEPS = 10
"""Steps of a ramp at most."""


def check_rollout(rollout: Rollout) -> Rollout:
    """Return how carefully an operation may go on.

    Raises:
        InvalidArgument: a value of it cannot be, or two of them do not go together.
    """
    if isinstance(rollout.canary, bool) or not isinstance(rollout.canary, int) or rollout.canary < 0:
        raise InvalidArgument(f"a canary is a whole number of jobs, not {rollout.canary!r}")
    if rollout.rate is not None and not 0 < rollout.rate < float("inf"):
        raise InvalidArgument(f"a rate is more than 0 jobs a second, not {rollout.rate!r}")
    if rollout.stop_percent is not None and not 0 <= rollout.stop_percent <= 100:
        raise InvalidArgument(f"a threshold is 0 to 100 percent, not {rollout.stop_percent!r}")
    _check_ramp(rollout.ramp)
    if rollout.ramp and rollout.canary:
        raise InvalidArgument("a ramp begins with a canary of its own: give one of the two")
    if rollout.first_failure and not (rollout.first_steps and rollout.stop_percent is not None):
        raise InvalidArgument("first failures count for the threshold of a canary or a ramp: give both")
    at = rollout.begin_at
    if at is not None and (not isinstance(at, datetime) or at.tzinfo is None):
        raise InvalidArgument(f"an operation begins at a time with its time zone, not {at!r}")
    if rollout.when_release is not None:
        check_name(rollout.when_release, "the release")
        try:
            parse_release(rollout.when_release)
        except ValueError as error:
            raise InvalidArgument(str(error)) from None
    return rollout


def _check_ramp(steps: tuple[int, ...]) -> None:
    whole = isinstance(steps, tuple) and all(type(step) is int and 0 < step < 2**31 for step in steps)
    if not whole or len(steps) > MAX_RAMP_STEPS:
        raise InvalidArgument(f"a ramp is at most {MAX_RAMP_STEPS} whole numbers of jobs, not {steps!r}")
    if any(later <= step for step, later in pairwise(steps)):
        given = ",".join(map(str, steps))
        raise InvalidArgument(f"each step of a ramp has more jobs than the one before, as 1,10,100 have, not {given}")


def check_run_at(run_at: object) -> float:
    """Return a due time in seconds since the epoch.

    Raises:
        InvalidJob: no datetime, or one without its time zone.
    """
    if not isinstance(run_at, datetime):
        raise InvalidJob(f"run_at is a datetime with its time zone, not {run_at!r}")
    if run_at.tzinfo is None or run_at.utcoffset() is None:
        raise InvalidJob(f"run_at {run_at.isoformat()} has no time zone; two machines would read it differently")
    seconds = run_at.timestamp()
    if not -MAX_DELAY_SECONDS <= seconds <= 2 * MAX_DELAY_SECONDS:
        raise InvalidJob(f"run_at {run_at.isoformat()} is out of range")
    return seconds


def check_max_retries(value: object) -> int:
    """Return a number of retries.

    Raises:
        InvalidJob: no whole number from 0 to 1000.
    """
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 1000:
        raise InvalidJob(f"max_retries is a whole number from 0 to 1000, not {value!r}")
    return value


def check_key(key: object, what: str) -> str:
    """Return an ordering key or a unique key.

    Raises:
        InvalidJob: empty, too long, or with characters that no store can keep.
    """
    if not isinstance(key, str) or not key:
        raise InvalidJob(f"{what} is a text that is not empty, not {key!r}")
    if len(key) > LONGEST_NAME:
        raise InvalidJob(f"{what} has {len(key)} characters; the limit is {LONGEST_NAME}")
    if key != storable(key) or "\0" in key:
        raise InvalidJob(f"{what} cannot hold the character NUL or halves of characters: {key!r}")
    return key


MAX_HEADERS = 32
MAX_HEADER_BYTES = 4096
"""Bytes of all headers of a job together, names and values in UTF-8."""


def check_headers(headers: object) -> dict[str, str]:
    """Return headers.

    Raises:
        InvalidJob: no mapping of texts, too many, too large, or with characters that no store can keep.
    """
    if not isinstance(headers, Mapping):
        raise InvalidJob(f"headers is a dict of texts, not {type(headers).__name__}")
    if len(headers) > MAX_HEADERS:
        raise InvalidJob(f"a job has at most {MAX_HEADERS} headers, not {len(headers)}")
    size = 0
    for name, value in headers.items():
        check_name(name, "a header's name")
        if not isinstance(value, str):
            raise InvalidJob(f"header '{name}' is a text, not {type(value).__name__}")
        if value != storable(value):
            raise InvalidJob(f"header '{name}' cannot hold the character NUL or halves of characters")
        size += len(name.encode()) + len(value.encode())
    if size > MAX_HEADER_BYTES:
        raise InvalidJob(f"the headers of a job have {size:,} bytes; the limit is {MAX_HEADER_BYTES:,}")
    return dict(headers)


def check_tags(tags: Sequence[str]) -> tuple[str, ...]:
    """Return tags, each once.

    Raises:
        InvalidJob: a tag is no valid name, or there are too many.
    """
    if isinstance(tags, str) or not isinstance(tags, Sequence):
        raise InvalidJob(f"tags is a list of texts, not {tags!r}")
    if len(tags) > MAX_TAGS:
        raise InvalidJob(f"a job has at most {MAX_TAGS} tags, not {len(tags)}")
    return tuple(dict.fromkeys(check_name(tag, "a tag") for tag in tags))


def time_limits(
    timeout: float | str | timedelta | None, soft_timeout: float | str | timedelta | None, default: float
) -> tuple[float, float]:
    """Return the hard and the soft time limit of a task in seconds; 0 = none.

    Raises:
        ConfigurationError: no durations, or a soft limit that is not the shorter.
    """
    try:
        hard = default if timeout is None else parse_duration(timeout)
        soft = 0.0 if soft_timeout is None else parse_duration(soft_timeout)
    except ValueError as error:
        raise ConfigurationError(f"a task's time limit: {error}") from None
    if hard and soft >= hard:
        raise ConfigurationError(f"the soft time limit ({soft:g} s) must be shorter than the hard one ({hard:g} s)")
    return hard, soft
