"""The arguments of `jobconsole demo`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from jobconsole.demo.releases import Deployment


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """What the demo was asked for, checked."""

    # plain lines in place of the console
    headless: bool = False
    # one JSON object on stdout, everything else on stderr; headless
    json: bool = False
    # seconds until it ends by itself; None: until SIGINT or SIGTERM
    seconds: float | None = None
    # seconds
    lease: float = 5.0
    # worker processes
    processes: int = 2
    # jobs that one worker process runs at once
    concurrency: int = 4
    # the most jobs enqueued per second, on average; None: as the workers keep up
    rate: float | None = None
    # jobs after which the producer stops; None: no limit
    jobs: int | None = None
    # releases of the workers after the first one; None: those of the story that the demo plays
    deployments: tuple[Deployment, ...] | None = None
    # other servers than the embedded ones; only an empty database and an empty prefix are accepted
    postgres_url: str | None = None
    redis_url: str | None = None
    prefix: str = "demo:"

    @classmethod
    def of(cls, namespace: argparse.Namespace) -> DemoOptions:
        """Return what `add_arguments` has parsed."""
        given = {field.name: getattr(namespace, field.name, None) for field in fields(cls)}
        return cls(**{name: value for name, value in given.items() if value is not None})


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `jobconsole demo`; those that are global ones elsewhere mean only the demo here."""
    default = DemoOptions()

    def add(*names: str, **kwargs: Any) -> None:
        # No defaults here: they would overwrite a global option that was given before the noun.
        parser.add_argument(*names, default=argparse.SUPPRESS, **kwargs)

    add("--headless", action="store_true", help="print a line per second and a summary instead of opening the console")
    add("--json", action="store_true", help="print one JSON object on stdout, everything else on stderr (headless)")
    add("--seconds", type=_seconds, metavar="N", help="end after N seconds (otherwise: Ctrl+C, or quit the console)")
    add("--lease", type=_lease, metavar="T", help="the workers' lease, at least 1s (default 5s)")
    add("--processes", type=_whole(1, 64), metavar="N", help="worker processes (default 2)")
    add(
        "--concurrency",
        type=_whole(1, 1000),
        metavar="N",
        help=f"jobs that one worker process runs at once (default {default.concurrency})",
    )
    add("--rate", type=_rate, metavar="N", help="enqueue at most N jobs a second (default: as the workers keep up)")
    add("--jobs", type=_whole(1, 10_000_000), metavar="N", help="enqueue N jobs and no more")
    add(
        "--deployments",
        type=_deployments,
        metavar="LIST",
        help="when releases of the workers are deployed at the latest (default r2=15s,r3=4m,r4=7m,r5=never), or none",
    )
    add("--postgres-url", metavar="URL", help="use this PostgreSQL, whose database must be empty")
    add("--redis-url", metavar="URL", help="use this Redis, in which the prefix must be empty")
    add("--prefix", metavar="TEXT", help=f"prefix of all keys in Redis (default {default.prefix})")


def _seconds(text: str) -> float:
    return _duration(text, 1.0)


def _lease(text: str) -> float:
    return _duration(text, 1.0)


def _duration(text: str, least: float) -> float:
    from queue_core.model.validation import parse_duration

    try:
        seconds = parse_duration(text)
    except ValueError as problem:
        raise argparse.ArgumentTypeError(str(problem)) from None
    if seconds < least:
        raise argparse.ArgumentTypeError(f"'{text}' is too short: at least {least:g} s")
    return seconds


def _deployments(text: str) -> tuple[Deployment, ...]:
    from jobconsole.demo.releases import parse_deployments

    return parse_deployments(text)


def _rate(text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = 0.0
    if not 0.1 <= rate <= 100_000:
        raise argparse.ArgumentTypeError(f"'{text}' is no rate: a number of jobs per second from 0.1 to 100000")
    return rate


def _whole(least: int, most: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not text.isascii() or not text.isdigit() or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"'{text}' is not a whole number from {least} to {most}")
        return int(text)

    return read


class Voice:
    """Writes lines; a reader that has gone away is no error, but a reason to end."""

    def __init__(self, stream: TextIO | None) -> None:
        # None: the demo was started with this stream closed
        self._stream = stream
        self.heard = True

    def write(self, line: str) -> None:
        """Write one line at once."""
        if self._stream is None or not self.heard:
            return
        try:
            self._stream.write(f"{line}\n")
            self._stream.flush()
        except (OSError, ValueError):
            self.heard = False
            self._silence()

    def _silence(self) -> None:
        """Let nothing that is still buffered fail again when the interpreter ends."""
        assert self._stream is not None
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self._stream.fileno())
        os.close(nowhere)


def voice_for(json: bool) -> Voice:
    """Return the voice of a run."""
    return Voice(sys.stderr if json else sys.stdout)
