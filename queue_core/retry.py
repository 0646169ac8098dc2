"""The retry policy of a task."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta

from queue_core.backoff import backoff, jittered
from queue_core.errors import ConfigurationError
from queue_core.settings import Defaults
from queue_core.units import parse_duration

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
    # exceptions that are buried at once
    never: tuple[type[BaseException], ...] = ()
    # exceptions with a policy of their own, the nearest class first; what one leaves open is as here
    on: Mapping[type[BaseException], Retry] = field(default_factory=dict)

    def resolved(self, defaults: Defaults) -> Policy:
        """Return the policy with the queue's defaults filled in.

        Raises:
            ConfigurationError: a value is out of its range.
        """
        try:
            policy = Policy(
                max_retries=defaults.max_retries if self.max_retries is None else self.max_retries,
                delay=defaults.retry_delay if self.delay is None else parse_duration(self.delay),
                factor=defaults.retry_backoff if self.backoff is None else float(self.backoff),
                cap=defaults.retry_cap if self.cap is None else parse_duration(self.cap),
                jitter=defaults.retry_jitter if self.jitter is None else float(self.jitter),
                never=tuple(self.never),
            )
            policy = replace(policy, on={error: retry._within(policy, defaults) for error, retry in self.on.items()})
        except ValueError as error:
            raise ConfigurationError(f"retry policy: {error}") from error
        if policy.max_retries < 0 or policy.factor < 1 or not 0 <= policy.jitter <= 1:
            raise ConfigurationError("retry policy: max_retries is at least 0, backoff at least 1, jitter from 0 to 1")
        return policy

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
        return next((self.on[kind] for kind in type(error).__mro__ if kind in self.on), self)

    def limit(self, own: Policy, max_retries: int) -> int:
        """Return how often a job may be retried for an error with its own policy.

        What was asked for when the job was enqueued holds for every error.
        """
        return own.max_retries if max_retries == self.max_retries else max_retries

    def wait(self, retry_count: int) -> float:
        """Return the seconds before the next attempt of a job that was retried this often already."""
        return jittered(backoff(retry_count, self.delay, self.factor, self.cap), self.jitter, _source)
