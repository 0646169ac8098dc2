"""What may go into a job: names, times, tags. Every refusal says what is wrong and what would be right."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from queue_core.errors import InvalidJob
from queue_core.settings import parse_duration

LONGEST_NAME = 200
"""Characters of a queue's or a type's name."""
MOST_TAGS = 32
FARTHEST = 100 * 366 * 86400.0
"""Seconds; a job that is due in more than a hundred years is a mistake in a unit."""


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
        raise InvalidJob(f"{what} cannot hold braces, control characters or spaces at its ends: {name!r}")
    return name


def check_delay(delay: object) -> float:
    """Return a delay in seconds.

    Raises:
        InvalidJob: no duration, negative, not finite, or more than a hundred years.
    """
    try:
        seconds = parse_duration(delay)
    except ValueError as error:
        raise InvalidJob(f"delay: {error}") from None
    if not seconds <= FARTHEST:
        raise InvalidJob(f"delay: {delay!r} is more than a hundred years")
    return seconds


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
    if not -FARTHEST <= seconds <= 2 * FARTHEST:
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


def check_tags(tags: Sequence[str]) -> tuple[str, ...]:
    """Return tags, each once.

    Raises:
        InvalidJob: a tag is no valid name, or there are too many.
    """
    if isinstance(tags, str) or not isinstance(tags, Sequence):
        raise InvalidJob(f"tags is a list of texts, not {tags!r}")
    if len(tags) > MOST_TAGS:
        raise InvalidJob(f"a job has at most {MOST_TAGS} tags, not {len(tags)}")
    return tuple(dict.fromkeys(check_name(tag, "a tag") for tag in tags))
