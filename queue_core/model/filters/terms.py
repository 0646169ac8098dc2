"""The filter record, and the ranges of time that a filter can name."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Literal, NamedTuple

from queue_core.model.states import Status
from queue_core.model.validation import parse_duration

Operator = Literal["=", "~", "<", ">"]
SIGNATURE_DIGITS = 12
"""Digits of a signature."""
OF_DEAD = frozenset({"died", "owner", "state", "text", "signatures"})
"""Fields that only dead jobs have."""


@dataclass(frozen=True, slots=True)
class Term:
    """One condition of a filter."""

    # status, type, queue, error, signature, tag, id, priority, age, died, retries, worker, host, release,
    # payload.<path>, owner, state, text; word for one without a field; signatures and ids, which programs make
    field: str
    # "=" equal (ids and signatures: begins with), "~" contains without regard to case, "<" and ">" compare
    operator: Operator
    # as `parse` leaves it: a state's name, a whole number, an age in seconds, an id without dashes, a range of
    # time (see `span_of`), else the text
    value: str
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Filter:
    """All terms must hold. No terms: every job (the trash is only shown when asked for)."""

    terms: tuple[Term, ...] = ()
    # jobs in the trash: False leaves them out, True shows only them
    trash: bool = False

    def having(self, *terms: Term) -> Filter:
        """Return this filter with more terms."""
        return Filter((*self.terms, *terms), self.trash)

    def statuses(self) -> frozenset[Status]:
        """Return the states that can match, from the status terms (all when there are none)."""
        found = frozenset(Status)
        for term in self.terms:
            if term.field == "status":
                one = frozenset({Status(term.value)})
                found = found - one if term.negated else found & one
            elif term.field in OF_DEAD and not term.negated:
                found &= {Status.DEAD}
        return found

    def without(self, fields: Collection[str]) -> Filter:
        """Return this filter without the terms of some fields."""
        return Filter(tuple(term for term in self.terms if term.field not in fields), self.trash)

    def having_only(self, fields: Collection[str]) -> Filter:
        """Return this filter with nothing but the terms of some fields."""
        return Filter(tuple(term for term in self.terms if term.field in fields), self.trash)

    @property
    def leading(self) -> tuple[Term, ...]:
        """The terms that an index of dead jobs leads to: a whole signature, and outside the trash a time of death."""
        return tuple(
            term
            for term in self.terms
            if not term.negated
            and (
                (term.field == "died" and not self.trash)
                or (term.field == "signature" and len(term.value) == SIGNATURE_DIGITS)
            )
        )

    @property
    def died(self) -> Span:
        """The time in which everything that matches has died."""
        since, until = None, None
        for term in self.terms:
            if term.field == "died" and not term.negated:
                first, last = span_of(term.value)
                since = max((one for one in (since, first) if one is not None), default=None)
                until = min((one for one in (until, last) if one is not None), default=None)
        return Span(since, until)


def set_of(field: str, members: Iterable[str]) -> Term:
    """Return the term that holds for the jobs of these signatures, or of these ids."""
    return Term(field, "=", " ".join(members))


@lru_cache(maxsize=16)
def members_of(term: Term) -> frozenset[str]:
    """Return the signatures or ids of such a term."""
    return frozenset(term.value.split())


class Searched(NamedTuple):
    """One page of a search for the jobs of a filter."""

    # jobs that match, the newest first
    ids: tuple[str, ...]
    # jobs that were looked at, whether they match or not
    looked_at: int
    # where the next page begins; None: this was the last one
    cursor: str | None
    # jobs that a search from the beginning looks at; of the first page alone
    total: int = 0


class Span(NamedTuple):
    """A range of time; None is an open end."""

    since: datetime | None
    # not in it any more
    until: datetime | None

    def has(self, moment: datetime | None) -> bool:
        """Return whether a moment is in it."""
        if moment is None or (self.since is not None and moment < self.since):
            return False
        return self.until is None or moment < self.until


def span_of(value: str) -> Span:
    """Return the range of a term that `read_span` has read.

    Raises:
        ValueError: it has not.
    """
    first, dots, last = value.partition("..")
    if not dots:
        raise ValueError(f"'{value}' is no range of time")
    since, until = (datetime.fromisoformat(end) if end else None for end in (first, last))
    return Span(since, until)


def read_span(text: str, now: datetime) -> str:
    """Return a range of time as a term carries it: both ends in UTC, either may be left out.

    An end is a time of day (the last one before now, and behind the first end), a date, both with a `T` or a blank
    between them, or how long ago: 2h. Without `..` it is that minute, second or day, or the time since then.

    Raises:
        ValueError: it is no range of time.
    """
    first, dots, last = text.strip().partition("..")
    if not dots:
        point = _point(first, now)
        return _written(Span(point.since, None if point.ago else point.until))
    since = _point(first, now).since if first else None
    if last and _CLOCK.fullmatch(last):
        # From 23:50 to 00:10 is over midnight; to 02:30 of an evening means this night's or day's.
        until = _last_clock(last, now) if since is None else _next_clock(last, since)
    elif last:
        point = _point(last, now)
        until = point.until if _DATE.fullmatch(last) else point.since
    else:
        until = None
    if since is None and until is None:
        raise ValueError(_NO_TIME.format(text))
    if since is not None and until is not None and until <= since:
        raise ValueError(f"'{text}' ends before it begins")
    return _written(Span(since, until))


_CLOCK = re.compile(r"([01]?[0-9]|2[0-3]):([0-5][0-9])(?::([0-5][0-9]))?Z?", re.ASCII)
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_AGO = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?(?:ms|[smhdw])", re.ASCII)
_NO_TIME = "'{}' is no time; write 02:00..02:30 (UTC), 2026-01-30, 2026-01-30T02:00..2h or 15m"
_MAX_AGE_SECONDS = 100 * 366 * 86400.0


class _Point(NamedTuple):
    since: datetime
    until: datetime
    # it was given as how long ago
    ago: bool = False


def _point(text: str, now: datetime) -> _Point:
    if match := _CLOCK.fullmatch(text):
        since = _last_clock(text, now)
        return _Point(since, since + timedelta(seconds=1 if match[3] else 60))
    if _AGO.fullmatch(text):
        seconds = parse_duration(text)
        if seconds > _MAX_AGE_SECONDS:
            raise ValueError(f"'{text}' is longer ago than any job")
        return _Point(now - timedelta(seconds=seconds), now, True)
    try:
        found = datetime.fromisoformat(text)
        since = (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
        size = 86400 if _DATE.fullmatch(text) else 60 if text.count(":") == 1 else 1
        return _Point(since, since + timedelta(seconds=size))
    except (ValueError, OverflowError):
        raise ValueError(_NO_TIME.format(text)) from None


def _last_clock(text: str, now: datetime) -> datetime:
    """Return the last time before now that a clock showed this."""
    found = _on(text, now)
    return found if found <= now else found - timedelta(days=1)


def _next_clock(text: str, since: datetime) -> datetime:
    found = _on(text, since)
    return found if found > since else found + timedelta(days=1)


def _on(text: str, day: datetime) -> datetime:
    hour, minute, second = _CLOCK.fullmatch(text).groups()  # type: ignore[union-attr]
    return day.astimezone(UTC).replace(hour=int(hour), minute=int(minute), second=int(second or 0), microsecond=0)


def _written(span: Span) -> str:
    return "..".join(end.isoformat().replace("+00:00", "Z") if end else "" for end in span)
