"""Exports of jobs, and files that are written whole or not at all."""

from __future__ import annotations

import asyncio
import csv
import errno
import json
import os
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, Protocol, TextIO

from jobconsole.actions.plan import Target
from queue_core.errors import JobNotFound
from queue_core.model.filters import Filter
from queue_core.model.job import Job
from queue_core.model.states import Status
from queue_core.model.text import safe
from queue_core.ports.inspector import Inspector


def create(path: Path) -> TextIO:
    """Create a new file for UTF-8 text that only its owner can read.

    Raises:
        FileExistsError: something has this name, be it a link that leads nowhere.
        OSError: it cannot be made.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    return os.fdopen(os.open(path, flags, 0o600), "w", encoding="utf-8", newline="")


@contextmanager
def create_whole(path: Path) -> Iterator[TextIO]:
    """Open a new file for UTF-8 text that only its owner can read; it gets its name when the block ends without error.

    Until then it has no name, or a name of its own in the same folder that ends with `.part`, where the system or the
    file system has no files without a name: there a process that is killed leaves it behind.

    Raises:
        FileExistsError: something has this name, at the beginning or at the end, be it a link that leads nowhere.
        OSError: it cannot be made.
    """
    if os.path.lexists(path):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
    nameless = _open_nameless(path.parent)
    if nameless is not None:
        with os.fdopen(nameless, "w", encoding="utf-8", newline="") as stream:
            yield stream
            stream.flush()
            # With a descriptor of a folder, which an absolute path ignores, Python follows the link to the file.
            os.link(_path_of(nameless), path, src_dir_fd=nameless)
        return
    descriptor, part = tempfile.mkstemp(".part", f"{path.name[:_BEGINNING]}.", path.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as stream:
            yield stream
        _give_name(part, path)
    finally:
        Path(part).unlink(missing_ok=True)


_BEGINNING = 40
"""Characters of a file's name with which that of its part begins: names have 255 bytes at most."""


def _path_of(descriptor: int) -> str:
    return f"/proc/self/fd/{descriptor}"


def _open_nameless(folder: Path) -> int | None:
    """Open a file that is in no folder yet; None: there are no such files here, or no way to name one later."""
    try:
        descriptor = os.open(folder, os.O_WRONLY | os.O_TMPFILE, 0o600)
    except (AttributeError, OSError):
        return None
    if os.path.lexists(_path_of(descriptor)):
        return descriptor
    os.close(descriptor)
    return None


def _give_name(part: str, path: Path) -> None:
    """Give a file its name, unless something has it.

    Raises:
        FileExistsError: something has this name.
        OSError: it cannot be given.
    """
    try:
        os.link(part, path)
    except FileExistsError:
        raise
    except OSError:
        # A file system without hard links: the name is taken first, for a rename alone would replace what has it.
        create(path).close()
        try:
            Path(part).replace(path)
        except BaseException:
            path.unlink()
            raise


def write_over(path: Path, text: str) -> None:
    """Put a text in place of what this program wrote there before; whole or not at all.

    Raises:
        OSError: it cannot be written.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.unlink(missing_ok=True)
    try:
        with create(fresh) as stream:
            stream.write(text)
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)


def state_folder() -> Path:
    """Return where this user's programs keep what outlives them.

    Raises:
        FileNotFoundError: this user has no home folder.
    """
    home = os.environ.get("XDG_STATE_HOME", "")
    # The specification: a relative path there is to be ignored.
    if home.startswith("/"):
        return Path(home) / "jobconsole"
    try:
        return Path.home() / ".local" / "state" / "jobconsole"
    except RuntimeError:
        raise FileNotFoundError("this user has no home folder") from None


# Jobs written out as CSV or JSON Lines, page by page: memory does not grow with their number.
#
# What a job carries is attacker text. JSON escapes everything that is not plain ASCII. A cell of CSV whose first
# character a spreadsheet would take for a formula gets an apostrophe before it, control characters but line ends
# and tabs are shown as pictures, and every cell is quoted: some spreadsheets also take a semicolon for the end of one.

Format = Literal["csv", "jsonl"]
FORMATS: tuple[Format, ...] = ("csv", "jsonl")
PAGE_JOBS = 200
"""Jobs read at a time, and held at most."""
READ_TOGETHER = 8
"""Jobs whose whole payload or traceback is read at the same time."""
LONGEST_CELL = 32_000
"""Characters of a cell; a spreadsheet refuses more than 32,767."""
COLUMNS = (
    "id", "type", "queue", "status", "priority", "tags", "retry_count", "max_retries", "losses", "crashes",
    "created_at", "run_at", "started_at", "completed_at", "updated_at", "trashed_at", "worker", "release",
    "failure_kind", "signature", "error", "payload", "result", "traceback",
)  # fmt: skip
_FORMULA = frozenset("=+-@\t\r\n＝＋－＠")
LEFT_OUT = frozenset({"payload_text", "token", "lease_expires_at", "progress", "progress_message", "cancel_requested"})
"""Fields of a job that no export has; a CSV has no keys and no headers either."""


class TextSink(Protocol):
    """A destination of text."""

    def write(self, text: str, /) -> object:
        """Write a text."""


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """A request for an export: which jobs, and in which format."""

    target: Target
    format: Format
    # each traceback is a read of its own
    tracebacks: bool = False
    # jobs at most; None: all
    limit: int | None = None


async def export(
    inspector: Inspector, options: ExportOptions, stream: TextSink, report: Callable[[int], None] = lambda number: None
) -> int:
    """Write the jobs of a target and return how many there were; `report` is called with the number after each page.

    Raises:
        StoreUnavailable: the store did not answer in time; what was written before is kept.
        OSError: the stream cannot be written.
    """
    write = _csv_writer(stream) if options.format == "csv" else _json_writer(stream)
    number = 0
    async for page in _pages(inspector, options.target):
        left = len(page) if options.limit is None else options.limit - number
        for job in await whole(inspector, page[:left], options.tracebacks):
            # What was read one by one, as it was chosen by its id or cut, has its traceback in any case.
            write(job if options.tracebacks else replace(job, traceback=None))
            number += 1
        report(number)
        if number == options.limit:
            break
    return number


async def export_file(
    inspector: Inspector, options: ExportOptions, path: Path, report: Callable[[int], None] = lambda number: None
) -> int:
    """Write the jobs of a target into a new file for its owner alone, wholly or not at all; return how many.

    Raises:
        FileExistsError: something has this name; it was left alone.
        StoreUnavailable, OSError: there is no file.
    """
    with create_whole(path) as stream:
        number = await export(inspector, options, stream, report)
        stream.flush()
        # On the disk before it has its name; in a thread, for a console draws meanwhile.
        await asyncio.to_thread(os.fsync, stream.fileno())
    return number


async def _pages(inspector: Inspector, target: Target) -> AsyncIterator[Sequence[Job]]:
    for start in range(0, len(target.ids), PAGE_JOBS):
        yield [job for job_id in target.ids[start : start + PAGE_JOBS] for job in await _found(inspector, job_id)]
    # A job that matches two filters is written once; ids alone take little room.
    seen: set[str] = set()
    for where in target.wheres:
        async for page in _matching(inspector, where):
            fresh = [job for job in page if job.id not in seen]
            if len(target.wheres) > 1:
                seen.update(job.id for job in fresh)
            yield fresh


async def _matching(inspector: Inspector, where: Filter) -> AsyncIterator[Sequence[Job]]:
    cursor: str | None = None
    while True:
        page = await inspector.jobs(where, PAGE_JOBS, cursor)
        yield page.jobs
        cursor = page.cursor
        if cursor is None:
            return


async def whole(inspector: Inspector, jobs: Sequence[Job], tracebacks: bool = False) -> list[Job]:
    """Return jobs of a page with what that left out; a job that has gone meanwhile stays as the page had it.

    Raises:
        StoreUnavailable: the store did not answer in time.
    """
    turn = asyncio.Semaphore(READ_TOGETHER)

    async def one(job: Job) -> Job:
        cut = job.payload is None or (job.status is Status.COMPLETED and job.result is None)
        if not (cut or (tracebacks and job.traceback is None)):
            return job
        async with turn:
            return next(iter(await _found(inspector, job.id)), job)

    return list(await asyncio.gather(*(one(job) for job in jobs)))


async def _found(inspector: Inspector, job_id: str) -> list[Job]:
    try:
        return [await inspector.get(job_id)]
    except JobNotFound:
        return []


def _json_writer(stream: TextSink) -> Callable[[Job], object]:
    def write(job: Job) -> None:
        body = {field.name: getattr(job, field.name) for field in fields(job) if field.name not in LEFT_OUT}
        if job.payload is None:
            # The stored text is no JSON.
            body["payload_text"] = job.payload_text
        stream.write(json.dumps(body, default=_plain) + "\n")

    return write


def _csv_writer(stream: TextSink) -> Callable[[Job], object]:
    writer = csv.writer(stream, quoting=csv.QUOTE_ALL)
    writer.writerow(COLUMNS)
    return lambda job: writer.writerow([cell(_value(job, name)) for name in COLUMNS])


def _value(job: Job, name: str) -> object:
    value = getattr(job, name)
    if name == "payload":
        return job.payload_text if value is None else json.dumps(value)
    if name == "result":
        return "" if value is None else json.dumps(value)
    return " ".join(job.tags) if name == "tags" else value


def cell(value: object) -> str:
    """Return a cell's text: harmless in a terminal, and no formula in a spreadsheet."""
    if value is None or isinstance(value, int):
        return "" if value is None else str(value)
    text = value.isoformat() if isinstance(value, datetime) else str(value)
    formula = text[:1] in _FORMULA or text.lstrip()[:1] in _FORMULA
    shown = safe(text, LONGEST_CELL, newlines=True)
    return f"'{shown}" if formula else shown


def _plain(value: object) -> Any:
    return value.isoformat() if isinstance(value, datetime) else str(value)
