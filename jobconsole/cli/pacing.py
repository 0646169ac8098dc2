"""How retried and moved jobs go on, and how carefully: the options, and what they are in words."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from jobconsole.cli.parsing import Parser, duration, whole
from jobconsole.core.humanize import duration as length
from jobconsole.core.humanize import plural
from queue_core.text import safe

if TYPE_CHECKING:
    from queue_core.operations import Pace, Way

_MOST = 1_000_000


def add_spread(verb: Parser) -> None:
    """Declare the options of a retry that avoid a stampede."""
    verb.add_argument(
        "--spread",
        type=duration,
        metavar="T",
        help="over this time (default: 200 jobs a second from 50 jobs on, unless --canary or --rate is given; 0 = now)",
    )
    verb.add_argument("--delay", type=duration, default=0.0, metavar="T", help="due after this time, as in 5m")


def add_pace(verb: Parser) -> None:
    """Declare the options of a retry that begins carefully."""
    verb.add_argument("--canary", type=whole(0, _MOST), metavar="N", help="N jobs first, and wait for their outcome")
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
    from queue_core.rules import parse_rate

    try:
        return parse_rate(float(text) if re.fullmatch(r"\d{1,9}(\.\d{1,9})?", text) else text) or 0.0
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
    from queue_core.validation import check_name

    try:
        return check_name(text, "the queue's name")
    except InvalidJob as problem:
        raise argparse.ArgumentTypeError(str(problem)) from None


def priority(text: str) -> int:
    """Return a priority by its number or name."""
    from queue_core.errors import InvalidJob
    from queue_core.priorities import parse_priority

    try:
        return int(parse_priority(text))
    except InvalidJob as problem:
        raise argparse.ArgumentTypeError(str(problem)) from None


def paced(options: argparse.Namespace, number: int) -> tuple[Way, Pace]:
    """Return what the options say of an operation on so many jobs.

    A canary is never the default: a script must not wait for its outcome unless somebody said so.
    """
    from jobconsole.core.operations import CAREFUL, CAREFUL_FROM
    from queue_core.operations import Pace, Way

    target = (getattr(options, "to_queue", None), getattr(options, "priority", None))
    if not hasattr(options, "spread"):
        return Way(0.0, 0.0, *target), Pace()
    spread, most = options.spread, CAREFUL.rate
    if spread is None:
        gentle = options.canary is None and options.rate is None and number > CAREFUL_FROM
        spread = number / most if gentle and most else 0.0
    return Way(options.delay, spread, *target), Pace(options.canary or 0, options.rate, options.stop_if)


def in_words(way: Way, pace: Pace) -> list[str]:
    """Return how an operation goes on, for people; nothing where it goes on as ever."""
    return [*_pace_in_words(pace), *_way_in_words(way)]


def _pace_in_words(pace: Pace) -> Iterator[str]:
    if pace.canary:
        yield f"a canary of {plural(pace.canary, 'job')} first"
    if pace.rate is not None:
        yield f"{pace.rate:g} a second"
    if pace.stop_percent is not None:
        yield f"stopped when more than {pace.stop_percent:g}% die again"


def _way_in_words(way: Way) -> Iterator[str]:
    if way.queue is not None:
        yield f"into queue {safe(way.queue, 120)}"
    if way.priority is not None:
        yield f"with priority {way.priority}"
    if way.delay:
        yield f"due after {length(way.delay)}"
    if way.spread:
        yield f"spread over {length(way.spread)}"
