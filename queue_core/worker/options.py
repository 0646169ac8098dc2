"""The options of a worker service, handed from its parent process to its children, and what these note for it."""

from __future__ import annotations

import json
import os
import signal
import tempfile
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from queue_core.client.logs import LogFormat, LogLevel

if TYPE_CHECKING:
    from queue_core.model.settings import JobsSettings


EXIT_FAILED, EXIT_USAGE, EXIT_UNREACHABLE, EXIT_REFUSED, EXIT_RECYCLE, EXIT_LIFESPAN = 1, 2, 3, 5, 10, 11
"""Exit codes: something failed; a wrong target or setting; the store cannot be used now; it is of another version;
another process shall go on; a lifespan could not be entered."""


@dataclass(frozen=True, slots=True)
class ServiceOptions:
    """How `worker run` runs its workers; times in seconds, None = from the settings."""

    processes: int = 1
    concurrency: int = 100
    # empty: the queues of the tasks
    queues: tuple[str, ...] = ()
    lease: float | None = None
    heartbeat: float | None = None
    grace: float = 30.0
    # jobs after which a process is replaced; None: never
    max_jobs: int | None = None
    # bytes of resident memory after which a process is replaced; None: never
    max_memory: int | None = None
    log_format: LogFormat = "text"
    log_level: LogLevel = "info"
    # process id of the service, without which its workers drain; None: the process that started the worker
    service: int | None = None
    # descriptor of the file in which a worker notes who it is (see `supervisor`); None: it notes nothing
    note: int | None = None

    def to_json(self) -> str:
        """Return the options as one argument of a command line."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the options that `to_json` wrote."""
        values = json.loads(text)
        return cls(**values | {"queues": tuple(values["queues"])})


def to_stop() -> list[signal.Signals]:
    """Return the signals that drain; `nohup` has SIGHUP ignored."""
    ignored = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    return [signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, *([] if ignored else [signal.SIGHUP])]


# What a worker notes for the service that started it: who it is, where its store is, and that it goes on draining.
#
# In a nameless file that the service has opened, so that the service need not import the application, whose code only
# runs in its workers.


class Note(NamedTuple):
    """What a worker has noted about itself."""

    worker: str
    # the settings of its queue object as plain values, passwords included
    settings: dict[str, Any]


def open_note() -> int:
    """Return the descriptor of an empty nameless file."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("worker")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def write_note(descriptor: int, worker: str, settings: JobsSettings) -> None:
    """Note who this worker is."""
    os.set_inheritable(descriptor, False)  # the processes that handlers start have no business there
    text = json.dumps({"worker": worker, "settings": _plain(settings.model_dump())})
    with os.fdopen(descriptor, "w", encoding="utf-8", closefd=False) as file:
        file.write(text)


def write_sign(descriptor: int) -> None:
    """Show the service that this worker's event loop goes on while it drains: its note grows by a blank."""
    os.write(descriptor, b" ")


def signs(descriptor: int) -> int:
    """Return a number that grows with each sign."""
    return os.fstat(descriptor).st_size


def _plain(value: Any) -> Any:
    if hasattr(value, "get_secret_value"):
        return value.get_secret_value()
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, list | tuple) else value


def read_note(descriptor: int) -> Note | None:
    """Return what a worker has noted, or None where it has not come to that."""
    try:
        return Note(**json.loads(os.pread(descriptor, os.fstat(descriptor).st_size, 0)))
    except (OSError, ValueError, TypeError):
        return None
