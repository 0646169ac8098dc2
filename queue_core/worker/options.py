"""The options of a worker service, handed from its parent process to its children, and the form of its logs."""

from __future__ import annotations

import json
import logging
import signal
import sys
from dataclasses import asdict, dataclass
from typing import Literal, Self

from queue_core.addresses import mask
from queue_core.text import safe

LONGEST = 64 << 10
"""Characters of one log entry."""
EXIT_FAILED, EXIT_USAGE, EXIT_UNREACHABLE, EXIT_RECYCLE = 1, 2, 3, 10
"""Exit codes: something failed; a wrong target or setting; the store cannot be used; another process shall go on."""


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
    log_format: Literal["text", "json"] = "text"
    # process id of the service, without which its workers drain; None: whoever started the worker
    service: int | None = None
    # descriptor of the file in which a worker notes who it is (see queue_core.worker.reporting); None: nobody asks
    note: int | None = None

    def to_json(self) -> str:
        """Return the options as one argument of a command line."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the options that `to_json` wrote."""
        values = json.loads(text)
        return cls(**values | {"queues": tuple(values["queues"])})


class _JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        said = {
            "at": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "pid": record.process,
            "message": safe(mask(record.getMessage()), LONGEST, newlines=True),
        }
        if record.exc_info:
            said["traceback"] = safe(mask(self.formatException(record.exc_info)), LONGEST, newlines=True)
        return json.dumps(said, ensure_ascii=False)


class _TextFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return safe(mask(super().format(record)), LONGEST, newlines=True)


def setup_logging(log_format: str) -> None:
    """Send this program's logs to stderr; passwords in URLs are masked."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        _JsonFormatter()
        if log_format == "json"
        else _TextFormatter("%(asctime)s %(process)d %(levelname)s %(message)s")
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
    # Its warnings of cancelled queries say nothing that this program's own line about the server does not.
    logging.getLogger("psycopg").setLevel(logging.ERROR)


def to_stop() -> list[signal.Signals]:
    """Return the signals that drain; `nohup` has SIGHUP ignored."""
    ignored = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    return [signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, *([] if ignored else [signal.SIGHUP])]
