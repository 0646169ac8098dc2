"""The options for where jobs go and how carefully: spread, canary, ramp, rate, threshold, queue and priority."""

from __future__ import annotations

import argparse
import re
from datetime import datetime
from typing import TYPE_CHECKING

from jobconsole.cli.parser import Parser, duration, whole

if TYPE_CHECKING:
    from queue_core.model.operation import ChangeOptions, Rollout

_MAX_CANARY = 1_000_000
"""Jobs of a canary."""


def add_spread(verb: Parser) -> None:
    """Declare the options of a retry that avoid a stampede."""
    verb.add_argument(
        "--spread",
        type=duration,
        metavar="T",
        help="over this time (default: 200 jobs a second from 50 jobs on, unless --canary or --rate is given; 0 = now)",
    )
    verb.add_argument("--delay", type=duration, default=0.0, metavar="T", help="due after this time, as in 5m")


def add_rollout(verb: Parser) -> None:
    """Declare the options of a retry that begins carefully."""
    verb.add_argument(
        "--canary", type=whole(0, _MAX_CANARY), metavar="N", help="N jobs first, and wait for their outcome"
    )
    verb.add_argument(
        "--canary-first-failure",
        action="store_true",
        help="a job of the canary, or of a step of the ramp, counts for --stop-if at its first failed attempt",
    )
    verb.add_argument(
        "--ramp",
        type=ramp,
        metavar="N,N,…",
        help="N jobs, then N, …, then the rest; each step waits for its outcome, and the first one is the canary",
    )
    verb.add_argument(
        "--when-release", metavar="NAME", help="begin when a live worker that runs such jobs announces this release"
    )
    verb.add_argument("--begin-at", type=begin_at, metavar="TIME", help="begin then, as in 2030-01-31T09:00:00+01:00")
    verb.add_argument("--rate", type=rate, metavar="R", help="at most so many jobs a second, as in 100, 100/s or 90/m")
    verb.add_argument(
        "--stop-if", type=percent, metavar="PCT", help="stop when more than so many percent of them die again"
    )


def add_target(verb: Parser) -> None:
    """Declare another queue and another priority."""
    verb.add_argument("--to-queue", type=queue, metavar="Q", help="into this queue")
    verb.add_argument("--priority", type=priority, metavar="P", help="-128 to 127, or low, normal, high, urgent")


def rate(text: str) -> float:
    """Return the jobs a second in 100, 100/s or 90/m."""
    from queue_core.model.rules import parse_rate

    try:
        return parse_rate(float(text) if re.fullmatch(r"\d{1,9}(\.\d{1,9})?", text) else text) or 0.0
    except ValueError as problem:
        raise argparse.ArgumentTypeError(str(problem)) from None


def ramp(text: str) -> tuple[int, ...]:
    """Return the steps of 1,10,100."""
    from queue_core.errors import InvalidArgument
    from queue_core.model.operation import Rollout
    from queue_core.model.validation import check_rollout

    if not re.fullmatch(r"\d{1,9}(,\d{1,9})*", text) or not all(int(step) for step in text.split(",")):
        raise argparse.ArgumentTypeError(f"'{text}' is no ramp; write the jobs of each step, as in 1,10,100")
    try:
        return check_rollout(Rollout(ramp=tuple(int(step) for step in text.split(",")))).ramp
    except InvalidArgument as problem:
        raise argparse.ArgumentTypeError(str(problem)) from None


def begin_at(text: str) -> datetime:
    """Return a moment with its time zone."""
    from queue_core.model.rules import parse_moment

    try:
        return parse_moment(text)
    except ValueError as problem:
        raise argparse.ArgumentTypeError(str(problem)) from None


def percent(text: str) -> float:
    """Return 20 for 20 or 20%."""
    number = text.removesuffix("%")
    if not re.fullmatch(r"\d{1,3}(\.\d{1,9})?", number) or float(number) > 100:
        raise argparse.ArgumentTypeError(f"'{text}' is not a percentage from 0 to 100")
    return float(number)


def queue(text: str) -> str:
    """Return the name of a queue."""
    from queue_core.errors import InvalidJob
    from queue_core.model.validation import check_queue_name

    try:
        return check_queue_name(text)
    except InvalidJob as problem:
        raise argparse.ArgumentTypeError(str(problem)) from None


def priority(text: str) -> int:
    """Return a priority by its number or name."""
    from queue_core.errors import InvalidJob
    from queue_core.model.rules import parse_priority

    try:
        return int(parse_priority(text))
    except InvalidJob as problem:
        raise argparse.ArgumentTypeError(str(problem)) from None


def options_and_rollout(options: argparse.Namespace, number: int) -> tuple[ChangeOptions, Rollout]:
    """Return the changes and the rollout from the options, for an operation on so many jobs.

    A canary is never the default: a script must not wait for its outcome unless an option asks for it.
    """
    from jobconsole.actions.plan import default_spread
    from queue_core.model.operation import ChangeOptions, Rollout
    from queue_core.model.validation import check_rollout

    target = (getattr(options, "to_queue", None), getattr(options, "priority", None))
    if not hasattr(options, "spread"):
        return ChangeOptions(0.0, 0.0, *target), Rollout()
    spread = options.spread
    if spread is None:
        paced = options.canary is not None or options.rate is not None or options.ramp
        spread = 0.0 if paced else default_spread("retry", number)
    rollout = Rollout(
        canary=options.canary or 0,
        rate=options.rate,
        stop_percent=options.stop_if,
        first_failure=options.canary_first_failure,
        ramp=options.ramp or (),
        begin_at=options.begin_at,
        when_release=options.when_release,
    )
    return ChangeOptions(options.delay, spread, *target), check_rollout(rollout)
