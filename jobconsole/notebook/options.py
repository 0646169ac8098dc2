"""The options of a retry from a notebook: their names, and their values as the command line takes them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TypedDict, TypeVar

from jobconsole.actions.plan import default_spread
from queue_core.errors import InvalidArgument
from queue_core.model.operation import ChangeOptions, Rollout
from queue_core.model.rules import parse_moment, parse_priority, parse_rate
from queue_core.model.validation import check_delay, check_queue_name, check_rollout

T = TypeVar("T")
V = TypeVar("V")


class RetryOptions(TypedDict, total=False):
    """How retried jobs go on; what is left out is the command line's default."""

    # into another queue
    queue: str
    # -128 to 127, or low, normal, high, urgent
    priority: int | str
    # seconds from now until they are due
    delay: float
    # seconds over which they are spread; by default 200 jobs a second from 50 jobs on
    spread: float
    # jobs that are retried first, and whose outcome is waited for
    canary: int
    # jobs a second, or as on the command line: "50/s", "90/m"
    rate: float | str
    # percent of them that die again, above which it is stopped
    stop_percent: float
    # jobs of each of the first steps, in place of a canary; each step's outcomes are waited for
    ramp: tuple[int, ...]
    # whether a job of a canary or a ramp counts for `stop_percent` at its first failed attempt
    canary_first_failure: bool
    # it begins no earlier than this time, also as an ISO text with its time zone, or than a live worker that runs these
    # jobs announces this release
    begin_at: datetime | str
    when_release: str


def check_names(given: RetryOptions) -> None:
    """Check that there are such options: one that is mistyped would leave out a precaution.

    Raises:
        InvalidArgument: there are not; this is a TypeError, too.
    """
    unknown = given.keys() - RetryOptions.__annotations__.keys()
    if unknown:
        known = ", ".join(RetryOptions.__annotations__)
        raise InvalidArgument(f"retry() takes no {', '.join(sorted(unknown))}; it takes {known}")


def options_and_rollout(given: RetryOptions, number: int) -> tuple[ChangeOptions, Rollout]:
    """Return options and rollout for so many jobs as the command line does: a canary is never the default.

    Raises:
        InvalidArgument, InvalidJob: a value cannot be.
    """
    queue, priority = given.get("queue"), given.get("priority")
    spread = given.get("spread")
    if spread is None:
        paced = given.keys() & {"canary", "rate", "ramp"}
        spread = 0.0 if paced else default_spread("retry", number)
    options = ChangeOptions(
        check_delay(given.get("delay", 0.0)),
        check_delay(spread, "spread"),
        None if queue is None else check_queue_name(queue),
        None if priority is None else int(parse_priority(priority)),
    )
    rollout = Rollout(
        given.get("canary", 0),
        _parsed(parse_rate, given.get("rate")),
        _percent(given.get("stop_percent")),
        given.get("canary_first_failure", False),
        _ramp(given.get("ramp", ())),
        _moment(given.get("begin_at")),
        given.get("when_release"),
    )
    return options, check_rollout(rollout)


def _parsed(parse: Callable[[V], T], value: V) -> T:
    try:
        return parse(value)
    except ValueError as error:
        raise InvalidArgument(str(error)) from None


def _moment(value: datetime | str | None) -> datetime | None:
    return _parsed(parse_moment, value) if isinstance(value, str) else value


def _percent(value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidArgument(f"a threshold is 0 to 100 percent, not {value!r}")
    return value


def _ramp(value: object) -> tuple[int, ...]:
    if not isinstance(value, tuple | list):
        raise InvalidArgument(f"a ramp is the jobs of each step, as in (1, 10, 100), not {value!r}")
    return tuple(value)
