"""From the global options to settings and to a connected queue."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVar

from jobconsole.cli.failures import Refused, Unreachable, confirm, note
from jobconsole.cli.output import Output
from jobconsole.cli.parser import LOG_FORMATS, LOG_LEVELS
from jobconsole.settings import ConsoleSettings, queue_of, read_settings
from queue_core.errors import ConfigurationError, ReadOnly, StoreReadOnly

if TYPE_CHECKING:
    from queue_core.client.logs import LogFormat, LogLevel
    from queue_core.queue import JobQueue

T = TypeVar("T", bound=str)


Command = Callable[["JobQueue", argparse.Namespace, Output], Awaitable[int]]


def settings_of(options: argparse.Namespace) -> ConsoleSettings:
    """Return the settings that the global options, the environment and the file give together.

    Raises:
        ConfigurationError: a setting is missing, unknown or contradictory.
    """
    return read_settings(
        path=_given(options, "config"),
        overrides={"jobs": _overrides(options)},
        context=_given(options, "context"),
        read_only=bool(_given(options, "read_only")),
    )


def start_log(options: argparse.Namespace) -> tuple[LogFormat, LogLevel]:
    """Send the log of a long-running command to stderr, in the form of its options, else of the variables; return that.

    Raises:
        ConfigurationError: a variable has a value that is none.
    """
    from queue_core.client.logs import occupy_standard_streams, setup_logging

    log_format: LogFormat = _given(options, "log_format") or _choice("JOBCONSOLE_LOG_FORMAT", LOG_FORMATS) or "text"
    level: LogLevel = _given(options, "log_level") or _choice("JOBCONSOLE_LOG_LEVEL", LOG_LEVELS) or "info"
    occupy_standard_streams()
    setup_logging(log_format, level)
    return log_format, level


def _choice(variable: str, choices: Sequence[T]) -> T | None:
    value = os.environ.get(variable)
    if not value:
        return None
    for one in choices:
        if value.lower() == one:
            return one
    raise ConfigurationError(f"{variable} cannot be '{value}'; one of: {', '.join(map(str, choices))}")


def postgres_url(settings: ConsoleSettings) -> str:
    """Return the address of PostgreSQL.

    Raises:
        ConfigurationError: none is configured.
    """
    url = settings.jobs.postgres.url
    if url is None:
        raise ConfigurationError(
            "no PostgreSQL is configured: give --postgres-url, set JOBS__POSTGRES__URL, "
            "or write jobs.postgres.url into jobs.yaml"
        )
    return url.get_secret_value()


def connected(options: argparse.Namespace, output: Output, command: Command, changes: str = "") -> int:
    """Run a command on an opened queue; `changes` names what a read-only connection refuses.

    Raises:
        ConfigurationError, ReadOnly, StoreUnavailable, SchemaError: nothing was done.
    """
    settings = settings_of(options)
    if changes:
        check_target(settings, changes)

    async def run() -> int:
        jobs = queue_of(settings)
        try:
            await jobs.open()
            if settings.read_only:
                # Verbs that change were refused above; should one have been forgotten, it changes nothing.
                jobs.operations, jobs.schedules = jobs.operations.read_only(), jobs.schedules.read_only()
                jobs.signatures, jobs.filters = jobs.signatures.read_only(), jobs.filters.read_only()
            return await command(jobs, options, output)
        except StoreReadOnly as error:
            if changes:
                raise
            raise Unreachable(f"{error}; --read-only reads what it has") from None
        finally:
            await jobs.close()

    return asyncio.run(run())


@contextmanager
def ending_signals() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end this program as Ctrl+C does: by way of everything that has to be cleaned up."""
    # What is ignored stays so: nohup.
    numbers = [one for one in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(one) is not signal.SIG_IGN]
    before = {number: signal.signal(number, _interrupt) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Do what Ctrl+C does: an event loop ends its tasks in order, which an exception out of nowhere would break."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        raise KeyboardInterrupt
    signal.raise_signal(signal.SIGINT)


def check_target(settings: ConsoleSettings, changes: str) -> None:
    """Write what a change is about to reach, and ask where several contexts are configured and none was named.

    Raises:
        ReadOnly: the context refuses every change.
        Refused: the answer was no, or there is no terminal to ask at; --yes does not name a context.
    """
    if settings.read_only:
        raise ReadOnly(changes)
    if settings.unnamed:
        names = ", ".join(sorted(settings.contexts))
        if not sys.stdin.isatty():
            raise Refused(f"'{changes}' was refused: {settings.unnamed}; give --context with one of: {names}")
        confirm(f"{settings.unnamed} ({names}): {changes} on {settings.target}")
    else:
        note(f"target: {settings.target}")


def _overrides(options: argparse.Namespace) -> dict[str, Any]:
    overrides: dict[str, Any] = {"postgres": {}, "redis": {}, "sqlite": {}}
    for name, block, key in (
        ("postgres_url", "postgres", "url"),
        ("schema", "postgres", "schema"),
        ("redis_url", "redis", "url"),
        ("prefix", "redis", "prefix"),
        ("timeout", "postgres", "timeout"),
        ("timeout", "redis", "timeout"),
        ("timeout", "sqlite", "timeout"),
    ):
        value = _given(options, name)
        if value is not None:
            overrides[block][key] = value
    return overrides


def _given(options: argparse.Namespace, name: str) -> Any:
    return getattr(options, name, None)
