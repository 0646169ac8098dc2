"""The retry policy of a task."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from queue_core.errors import ConfigurationError, reduced
from queue_core.model.settings import Defaults
from queue_core.model.validation import MAX_DELAY_SECONDS, check_delay, check_max_retries, check_run_at


class RetryLater(Exception):
    """End this attempt as failed and try again after a delay, or after the policy's when it is left out.

    It uses an attempt: without retries left the job is buried. `raise RetryLater(delay="5m") from error`
    keeps that error as the reason. `delay` is seconds, "5m" or a timedelta.
    """

    __reduce__ = reduced

    def __init__(self, message: str = "", *, delay: float | str | timedelta | None = None) -> None:
        # seconds
        self.delay = None if delay is None else check_delay(delay)
        super().__init__(message or "the handler asked for a retry")


class Reschedule(Exception):
    """Give the job back without using an attempt: to the back of its queue, after a delay, or at a time.

    Whichever it is, it then comes behind the jobs of its priority that arrived before. `delay` is seconds, "5m" or a
    timedelta; `at` a datetime with its zone.
    """

    __reduce__ = reduced

    def __init__(self, *, delay: float | str | timedelta | None = None, at: datetime | None = None) -> None:
        if delay is not None and at is not None:
            raise ValueError("give either delay or at, not both")
        # seconds
        self.delay = 0.0 if delay is None else check_delay(delay)
        # seconds since the epoch
        self.run_at = None if at is None else check_run_at(at)
        super().__init__("the handler gave its job back")


def backoff(retry_count: int, delay: float, factor: float, cap: float) -> float:
    """Return the seconds before retry number `retry_count + 1`: delay · factor^retry_count, at most `cap`.

    >>> [backoff(n, 5, 2, 3600) for n in range(3)]
    [5.0, 10.0, 20.0]
    """
    if delay <= 0:
        return 0.0
    try:
        seconds = delay * factor**retry_count
    except OverflowError:
        return float(min(cap, MAX_DELAY_SECONDS))
    return float(min(seconds, cap, MAX_DELAY_SECONDS))


def jittered(seconds: float, part: float, source: random.Random) -> float:
    """Return a delay of which the last `part` (0 to 1) is random, so that equal failures do not come back at once."""
    return seconds * (1.0 - part * source.random())


_source = random.Random()


@dataclass(frozen=True, slots=True)
class Retry:
    """When and how often a failed attempt is repeated; None takes the queue's default.

    `max_retries = 3` means up to four attempts. Durations are seconds, "5m" or a timedelta.
    """

    max_retries: int | None = None
    # before the first retry
    delay: float | str | timedelta | None = None
    # what each further delay is multiplied with
    backoff: float | None = None
    # the longest delay
    cap: float | str | timedelta | None = None
    # 0 to 1: the part of a delay that is random
    jitter: float | None = None
    # exceptions that are buried at once: one class or several
    never: type[BaseException] | Iterable[type[BaseException]] = ()
    # exceptions with a policy of their own, the nearest class first; what one leaves open is as here
    on: Mapping[type[BaseException], Retry] = field(default_factory=dict)

    def resolved(self, defaults: Defaults) -> Policy:
        """Return the policy with the queue's defaults filled in.

        Raises:
            ConfigurationError: a value is out of its range.
        """
        try:
            policy = Policy(
                max_retries=defaults.max_retries if self.max_retries is None else check_max_retries(self.max_retries),
                delay=defaults.retry_delay if self.delay is None else check_delay(self.delay),
                factor=defaults.retry_backoff if self.backoff is None else _number(self.backoff, "backoff"),
                cap=defaults.retry_cap if self.cap is None else check_delay(self.cap, "cap"),
                jitter=defaults.retry_jitter if self.jitter is None else _number(self.jitter, "jitter"),
                never=_errors(self.never, "never"),
            )
            own = {error: _policy(retry)._within(policy, defaults) for error, retry in _items(self.on)}
        except (ValueError, TypeError) as error:
            raise ConfigurationError(f"retry policy: {error}") from error
        if policy.factor < 1 or not 0 <= policy.jitter <= 1:
            raise ConfigurationError("retry policy: backoff is at least 1, jitter from 0 to 1")
        return replace(policy, on=own)

    def _within(self, outer: Policy, defaults: Defaults) -> Policy:
        """Return the policy for one exception of a task with this outer policy."""
        if self.on or self.never:
            raise ValueError("a policy within `on` has no `on` and no `never` of its own")
        own = replace(
            self,
            max_retries=outer.max_retries if self.max_retries is None else self.max_retries,
            delay=outer.delay if self.delay is None else self.delay,
            backoff=outer.factor if self.backoff is None else self.backoff,
            cap=outer.cap if self.cap is None else self.cap,
            jitter=outer.jitter if self.jitter is None else self.jitter,
        )
        return own.resolved(defaults)


def _number(value: object, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{what} is a number, not {value!r}")
    return float(value)


def _errors(given: object, what: str) -> tuple[type[BaseException], ...]:
    """Return the classes of exceptions in one class or several, as in an `except` clause."""
    several = isinstance(given, Iterable) and not isinstance(given, type | str)
    found: tuple[Any, ...] = tuple(given) if several else (given,)  # type: ignore[arg-type]
    for one in found:
        if not (isinstance(one, type) and issubclass(one, BaseException)):
            raise TypeError(f"`{what}` takes classes of exceptions, not {one!r}")
    return found


def _items(on: object) -> list[tuple[type[BaseException], object]]:
    if not isinstance(on, Mapping):
        raise TypeError(f"`on` is a dictionary of policies by classes of exceptions, not {on!r}")
    return list(zip(_errors(tuple(on), "on"), on.values(), strict=True))


def _policy(given: object) -> Retry:
    if not isinstance(given, Retry):
        raise TypeError(f"the policies of `on` are of the class Retry, not {given!r}")
    return given


# by the built-in descriptor, whatever a class answers
_MRO = vars(type)["__mro__"]


@dataclass(frozen=True, slots=True)
class Policy:
    """A retry policy with every value decided; times in seconds."""

    max_retries: int
    delay: float
    factor: float
    cap: float
    jitter: float
    never: tuple[type[BaseException], ...]
    on: Mapping[type[BaseException], Policy] = field(default_factory=dict)

    def of(self, error: BaseException) -> Policy:
        """Return the policy for an error: that of its nearest class which has one, or this."""
        if not self.on:
            return self
        return next((self.on[kind] for kind in _MRO.__get__(type(error)) if kind in self.on), self)

    def limit(self, own: Policy, max_retries: int) -> int:
        """Return how often a job may be retried for an error with its own policy.

        What was asked for when the job was enqueued holds for every error.
        """
        return own.max_retries if max_retries == self.max_retries else max_retries

    def wait(self, retry_count: int) -> float:
        """Return the seconds before the next attempt of a job that was retried this often already."""
        return jittered(backoff(retry_count, self.delay, self.factor, self.cap), self.jitter, _source)
