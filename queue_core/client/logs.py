"""Logs: a line for each failed attempt, the ids of the job on the lines of its handler, and their form on stderr.

An attempt that completes logs nothing: all that it costs is a context variable, set when its handler starts.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sys
import time
from collections.abc import Callable
from contextvars import Context, ContextVar
from typing import Any, Literal

from queue_core.model.addresses import mask
from queue_core.model.job import Claim, Failure, Outcome, Reclaimed, Settled, attempt_of, summary
from queue_core.model.signature import class_name, formatted, message_of
from queue_core.model.text import safe

MAX_ENTRY_LENGTH = 64 << 10
"""Characters of one log entry."""
MAX_ERROR_LENGTH = 1_000
"""Characters of the error in the line about a failed attempt."""
LogLevel = Literal["debug", "info", "warning", "error"]
LogFormat = Literal["text", "json"]

logger = logging.getLogger("queue_core.jobs")
"""Failed attempts and deaths, and nothing else."""

_claim: ContextVar[Claim | None] = ContextVar("queue_core_claim", default=None)
_worker: ContextVar[str] = ContextVar("queue_core_worker", default="")

enter_attempt = _claim.set
"""Note in the current context, which is the attempt's own, which job runs in it."""


def enter_worker(context: Context, worker: str) -> None:
    """Note in a context which worker its code belongs to."""
    context.run(_worker.set, worker)


def claim_fields(claim: Claim) -> dict[str, Any]:
    """Return what log records about this attempt carry, but for the worker."""
    return job_ids(claim) | {"attempt": attempt_of(claim)}


def job_log_fields() -> dict[str, Any]:
    """Return what the current code belongs to: `job_id`, `job_type`, `queue`, `attempt` and `worker`, for log entries.

    Within a handler, also in its thread or child process and in what it awaits, all of them; in other code of a worker
    the worker alone; elsewhere nothing.
    """
    claim, worker = _claim.get(), _worker.get()
    fields = {} if claim is None else claim_fields(claim)
    return fields | {"worker": worker} if worker else fields


class JobLogFilter(logging.Filter):
    """Adds `job_log_fields` as attributes to each record of its handler that has no such attributes of its own."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Add them, and let the record pass."""
        for name, value in job_log_fields().items():
            record.__dict__.setdefault(name, value)
        return True


def log_failure(outcome: Outcome, answer: Settled, attempt: int | None) -> None:
    """Log the stored end of a failed attempt, whose number may be unknown: a death as an error, others as warnings."""
    failure = outcome.failure
    if failure is None:
        return
    if answer.cancelled:
        level, then = logging.WARNING, "it was cancelled meanwhile"
    elif outcome.kind == "dead":
        level, then = logging.ERROR, "dead"
    elif outcome.kind == "retrying":
        level, then = logging.WARNING, f"retried in {outcome.delay:g} s"
    else:
        level, then = logging.WARNING, "ready again"
    if logger.isEnabledFor(level):
        _log(level, failure, then, job_ids(outcome) if attempt is None else job_ids(outcome) | {"attempt": attempt})


def log_death(job: Reclaimed, failure: Failure) -> None:
    """Log that a job was buried whose workers were lost."""
    if logger.isEnabledFor(logging.ERROR):
        _log(logging.ERROR, failure, "dead", job_ids(job) | {"worker": job.worker})


def job_ids(job: Claim | Outcome | Reclaimed) -> dict[str, Any]:
    """Return the ids of a job that log records about it carry."""
    return {"job_id": job.id, "job_type": safe(job.type), "queue": safe(job.queue)}


def _log(level: int, failure: Failure, then: str, ids: dict[str, Any]) -> None:
    error = safe(mask(summary(failure)), MAX_ERROR_LENGTH)
    extra = {"worker": _worker.get(), **ids, "error": error, "signature": failure.signature, "kind": failure.kind}
    traceback = ""
    if level == logging.ERROR and failure.traceback:
        traceback = extra["traceback"] = safe(mask(failure.traceback), MAX_ENTRY_LENGTH, newlines=True).rstrip("\n")
    nth = f"attempt {ids['attempt']}" if "attempt" in ids else "an attempt"
    sentence = "job %s: %s of %s on queue %s failed, %s: %s"
    args = (ids["job_id"], nth, ids["job_type"], ids["queue"], then, error)
    record = logger.makeRecord(logger.name, level, __file__, 0, sentence, args, None, extra=extra)
    # The exception itself may have been raised in another process: formatters show this text in its place.
    record.exc_text = traceback or None
    with contextlib.suppress(Exception):  # a program's own log handler that fails must cost no job
        logger.handle(record)


WAIT_SECONDS = 10.0
"""Between two lines about the same wait for a store: workers try again several times a second."""


class OutageLog:
    """Logs that something waits for the store: at once, then at most every `WAIT_SECONDS`, and when it goes on.

    Each line has the number of those that were left out before it. A store that comes and goes adds no more lines.
    """

    def __init__(self, own: logging.Logger, what: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._logger = own
        # what waits, with the verb, as in "claim waits"
        self._what = what
        self._clock = clock
        # seconds of the clock: since when it waits, None while it does not; when the last line was written
        self._since: float | None = None
        self._logged_at = float("-inf")
        # whether there is a line about this wait
        self._logged = False
        self._left_out = 0

    def failed(self, error: Exception, exc_info: bool = False) -> None:
        """Note that the store could not be used; with `exc_info`, a line has the traceback."""
        now = self._clock()
        self._since = now if self._since is None else self._since
        if now - self._logged_at < WAIT_SECONDS:
            self._left_out += 1
            return
        more = f" ({self._left_out:,} such lines were left out)" if self._left_out else ""
        self._logger.warning("%s for the store: %s%s", self._what, error, more, exc_info=exc_info)
        self._logged_at, self._logged, self._left_out = now, True, 0

    def worked(self) -> None:
        """Note that the store was used."""
        if self._since is None:
            return
        if self._logged:
            self._logger.warning("%s for the store no longer, after %.1f s", self._what, self._clock() - self._since)
        self._since, self._logged = None, False


_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
"""Attributes that every record has; all others are fields of the entry."""


class _Formatter(logging.Formatter):
    """Has a text for every exception, and for an entry that cannot be formatted, one about that."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the entry as it is written."""
        try:
            return self._entry(record)
        except (Exception, SystemExit) as error:  # noqa: BLE001  the code of what the entry was given
            place = f"{record.pathname}:{record.lineno}"
            what = f"the entry of {place} cannot be formatted: {class_name(error)}: {message_of(error)}"
            kept = {name: value for name, value in vars(record).items() if name in _STANDARD}
            changed = {"msg": what, "args": (), "exc_info": None, "exc_text": None, **job_log_fields()}
            return self._entry(logging.makeLogRecord(kept | changed))

    def _entry(self, record: logging.LogRecord) -> str:
        raise NotImplementedError

    def formatException(self, ei: Any) -> str:
        """Return the traceback, whatever the exception's class does."""
        error = ei[1]
        return "".join(formatted(error, ei[2])).rstrip("\n") if error is not None else super().formatException(ei)


class _JsonFormatter(_Formatter):
    def _entry(self, record: logging.LogRecord) -> str:
        entry: dict[str, object] = {
            "at": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "pid": record.process,
            "message": safe(mask(record.getMessage()), MAX_ENTRY_LENGTH, newlines=True),
        }
        for name, value in vars(record).items():
            if name not in _STANDARD and name not in entry:
                entry[safe(name)] = _plain(value)
        if record.exc_info and not record.exc_text:
            record.exc_text = self.formatException(record.exc_info)
        if record.exc_text:
            entry["traceback"] = safe(mask(record.exc_text), MAX_ENTRY_LENGTH, newlines=True)
        return json.dumps(entry, ensure_ascii=False)


def _plain(value: object) -> object:
    if value is None or isinstance(value, bool | int | float):
        return value
    return safe(mask(str(value)), MAX_ENTRY_LENGTH, newlines=True)


class _TextFormatter(_Formatter):
    def __init__(self) -> None:
        super().__init__("%(asctime)s %(process)d %(levelname)s %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:
        """Return the line; one that a handler wrote names its job."""
        line = super().formatMessage(record)
        fields = vars(record)
        job = fields.get("job_id")
        if job is None or str(job) in record.message:
            return line
        return f"{line} [{fields.get('job_type')} {job} attempt {fields.get('attempt')}]"

    def _entry(self, record: logging.LogRecord) -> str:
        return safe(mask(logging.Formatter.format(self, record)), MAX_ENTRY_LENGTH, newlines=True)


class StderrLog(logging.StreamHandler[Any]):
    """Writes entries to stderr; one that cannot be written, as on a full disk, is dropped and counted."""

    def __init__(self, log_format: LogFormat, level: LogLevel) -> None:
        super().__init__(sys.stderr)
        self.log_format = log_format
        self.log_level = level
        # entries that could not be written since the last one that could
        self._dropped = 0
        self.setFormatter(_JsonFormatter() if log_format == "json" else _TextFormatter())
        self.addFilter(JobLogFilter())

    def emit(self, record: logging.LogRecord) -> None:
        """Write an entry, behind one about those that were dropped before it."""
        dropped, self._dropped = self._dropped, 0
        super().emit(record)
        if dropped and self._dropped:
            self._dropped += dropped
        elif dropped:
            note = f"{dropped:,} log {'entry' if dropped == 1 else 'entries'} could not be written"
            super().emit(logging.makeLogRecord(
                {"name": __name__, "levelno": logging.WARNING, "levelname": "WARNING", "msg": note}
            ))  # fmt: skip

    def handleError(self, record: logging.LogRecord) -> None:
        """Count the entry; the standard library would write about it to the same stderr."""
        self._dropped += 1


def occupy_standard_streams() -> None:
    """Open what is closed of stdin, stdout and stderr, so that no file or socket takes their place, nor in a child."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)


def setup_logging(log_format: LogFormat = "text", level: LogLevel = "info") -> None:
    """Send this program's logs to stderr; passwords in URLs are masked."""
    root = logging.getLogger()
    root.handlers[:] = [StderrLog(log_format, level)]
    root.setLevel(level.upper())
    # Its warnings of cancelled queries add nothing to this program's own line about the server.
    logging.getLogger("psycopg").setLevel(logging.ERROR)


def logging_form() -> tuple[LogFormat, LogLevel] | None:
    """Return what `setup_logging` was called with, for child processes; None where the program logs its own way."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler, StderrLog):
            return handler.log_format, handler.log_level
    return None
