"""The options of a worker service, handed from its parent process to its children, and what these note for it."""

from __future__ import annotations

import contextlib
import json
import math
import os
import resource
import socket
import struct
import sys
import tempfile
import time
from collections.abc import MutableMapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

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
    # descriptor of the file in which a worker keeps its vitals; None: it keeps none
    vitals: int | None = None

    def to_json(self) -> str:
        """Return the options as one argument of a command line."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the options that `to_json` wrote."""
        values = json.loads(text)
        return cls(**values | {"queues": tuple(values["queues"])})


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


def resident_memory() -> int:
    """Return the bytes of memory that this process holds; where the system has no such figure, the most ever."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except (OSError, ValueError, IndexError):
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most << 10
    return pages * resource.getpagesize()


class Vitals(NamedTuple):
    """How a worker process is; written over and over into a nameless file as well."""

    # seconds of time.monotonic, which is one clock for all processes of a machine
    at: float
    # whether it has started and was not stopped
    working: bool
    slots: int
    busy: int
    # handlers that were given up and still run
    stuck: int
    # bytes of resident memory
    memory: int
    # the longest time in seconds that its event loop was late within the last quarter of a minute
    lag: float


_VITALS = struct.Struct("<d?IIIQd")


def write_vitals(descriptor: int, vitals: Vitals) -> None:
    """Replace the vitals of this worker."""
    os.pwrite(descriptor, _VITALS.pack(*vitals), 0)


def read_vitals(descriptor: int) -> Vitals | None:
    """Return the vitals of a worker, or None where it has not come to write any."""
    try:
        return Vitals(*_VITALS.unpack(os.pread(descriptor, _VITALS.size, 0)))
    except (OSError, struct.error):
        return None


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


# What the service knows of its processes, and passes on.

SIGN_TICK = 0.5
"""Seconds between two looks for a sign of a worker that ends, or that is awaited."""
SILENT_SECONDS = 60.0
"""Seconds without vitals after which a process counts as silent: its event loop is blocked, or it never started."""


class ProcessReport(NamedTuple):
    """One of the processes as it is now."""

    # None: it has ended and is to be replaced
    pid: int | None
    state: Literal["starting", "working", "stopping", "down"]
    # None: it has not written any
    vitals: Vitals | None
    # seconds since it last wrote its vitals, or since its start
    silence: float

    @property
    def lag(self) -> float:
        """The seconds by which its event loop is late, or was lately."""
        return 0.0 if self.vitals is None else max(self.vitals.lag, self.silence - SIGN_TICK)


class ServiceReport(NamedTuple):
    """The whole service as it is now."""

    processes: tuple[ProcessReport, ...]
    stopping: bool

    @property
    def ready(self) -> bool:
        """Whether all processes work."""
        return not self.stopping and all(one.state == "working" for one in self.processes)

    @property
    def alive(self) -> bool:
        """Whether a process of it gives signs, or may soon: one blocked process of several is replaced by itself."""
        return self.stopping or any(one.silence < SILENT_SECONDS for one in self.processes)


class ServiceManager:
    """Notifies systemd of a service of `Type=notify`: READY, STOPPING and WATCHDOG; without it, of nothing.

    The variables are taken out of the environment: they are of this process, not of its children.
    """

    def __init__(self, environ: MutableMapping[str, str]) -> None:
        self._address = environ.pop("NOTIFY_SOCKET", "")
        microseconds, pid = environ.pop("WATCHDOG_USEC", ""), environ.pop("WATCHDOG_PID", "")
        mine = self._address and microseconds.isdecimal() and pid in ("", str(os.getpid()))
        # seconds between two signs of life, half of what the manager waits for one
        self._every = max(SIGN_TICK, int(microseconds) / 2e6) if mine else math.inf
        self._ready = self._stopping = False
        self._next = 0.0

    @property
    def patience(self) -> float:
        """The seconds after which `notify` has something to look at again."""
        if not self._address:
            return math.inf
        return self._every if self._ready else min(SIGN_TICK, self._every)

    def notify(self, report: ServiceReport) -> None:
        """Send what has changed since, and signs of life while there are some."""
        if not self._address:
            return
        if report.ready and not self._ready:
            self._ready = True
            self._send("READY=1", f"STATUS={len(report.processes)} worker processes work")
        if report.stopping and not self._stopping:
            self._stopping = True
            self._send("STOPPING=1", "STATUS=draining")
        now = time.monotonic()
        if now >= self._next and report.alive:
            self._next = now + self._every / 2
            self._send("WATCHDOG=1")

    def _send(self, *lines: str) -> None:
        # An address with @ is abstract; written so, it begins with a zero byte.
        address = f"\0{self._address[1:]}" if self._address.startswith("@") else self._address
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
            channel.settimeout(1.0)
            channel.sendto("\n".join(lines).encode(), address)
