"""The requirements of production, checked against facts: each check returns its result and what to do about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from jobconsole.format.humanize import age, exact, plural, seconds_between
from queue_core.model.operation import Operation
from queue_core.model.report import Overview
from queue_core.model.text import safe

Level = Literal["ok", "warn", "fail"]
Facts = Mapping[str, Any]

SKEW_SECONDS = 2.0
"""No clock but the store's decides anything; beyond this, ages on screens begin to mislead."""
OLD_SECONDS, ANCIENT_SECONDS = 300.0, 3600.0
"""A transaction open for so long keeps PostgreSQL from clearing dead rows; a ready job waiting so long is stuck."""
SWOLLEN_BYTES = 256 << 20
"""Size of SQLite's log, or of the free part of its file, from which on something keeps it from shrinking."""
SCARCE_BYTES = 256 << 20
"""Free bytes of a disk below which it may be full within minutes."""
STILL_SECONDS = 60.0
"""Seconds without progress after which a running operation counts as carried out by no process."""
CROWDED = 0.8
"""Part of the connections or the memory in use."""
_NAMED = 5


@dataclass(frozen=True, slots=True)
class Check:
    """What was examined, how it is, and what to do about it."""

    name: str
    level: Level
    # the result in a few words; a longer one has one sentence a line
    finding: str
    # what to do; empty when nothing has to be done
    advice: str = ""


def check_sqlite(facts: Facts) -> list[Check]:
    """Return the findings about an SQLite file and its schema."""
    return [check(facts) for check in _SQLITE]


def check_work(overview: Overview) -> list[Check]:
    """Return the findings about workers, types and queues."""
    paused = [queue.name for queue in overview.queues if queue.paused]
    closed = [queue.name for queue in overview.queues if queue.closed]
    found = [_workers(overview), _types(overview), _waiting(overview)]
    found.append(_held("paused queues", paused, "jobconsole queue resume NAME lets workers claim again"))
    return [*found, _held("closed queues", closed, "jobconsole queue resume NAME lets producers enqueue again")]


def check_operations(operations: Sequence[Operation], overview: Overview) -> Check:
    """Return the text about operations that have not ended."""
    running = [one for one in operations if one.state == "running"]
    still = [one for one in running if (seconds_between(one.updated_at, overview.now) or 0.0) >= STILL_SECONDS]
    if still and all(worker.lost for worker in overview.workers):
        text = f"no worker carries {some([f'#{one.number} {one.request.verb}' for one in still])} out"
        return Check("operations", "warn", text, "start a worker, or let 'jobconsole op run' do it")
    stopped = [f"#{one.number} {one.request.verb}" for one in operations if one.state == "stopped"]
    if stopped:
        advice = "'jobconsole op show' says why; 'op resume' resumes one, 'op cancel' ends it"
        return Check("operations", "warn", f"stopped by a threshold: {some(stopped)}", advice)
    return Check("operations", "ok", f"{exact(len(running))} running")


def check_pairing(reason: str, doubtful: bool) -> Check:
    """Return the text about whether Redis is the one that works with the database.

    `reason` is why it is not, or empty; with `doubtful` and no reason it is not known yet.
    """
    if not reason and not doubtful:
        return Check("redis pairing", "ok", "this Redis works with this database")
    if not reason:
        text = "this Redis was emptied or replaced a moment ago, or another one of the same address is in use"
        return Check(
            "redis pairing", "warn", text, "look again in a minute: workers find out which, and repair the first"
        )
    advice = (
        "give every program of the application the same jobs.redis.url and prefix, "
        "and each application, and each copy of a database, a database and a prefix of its own"
    )
    return Check("redis pairing", "warn", reason, advice)


# -- every store


SECOND_STORE = "an earlier version has tables in schema '{}', too"
SECOND_STORE_ADVICE = "stop the programs of that version, and drop its tables once they hold no jobs"


def check_schema(facts: Facts) -> Check:
    """Return the text about the version of a store's schema."""
    found, known, earlier = facts["schema"], facts["schema_known"], facts.get("earlier")
    if found == known and earlier:
        return Check("schema", "warn", f"version {found}; {SECOND_STORE.format(earlier)}", SECOND_STORE_ADVICE)
    if found == known:
        return Check("schema", "ok", f"version {found}")
    if found > known:
        return Check("schema", "fail", f"version {found}, newer than {known} known here", "upgrade this program")
    if found == 0 and earlier:
        wrong = f"an earlier version has left its tables in schema '{earlier}'"
        return Check("schema", "fail", wrong, "run 'jobconsole migrate'")
    text = "the database has no schema" if found == 0 else f"version {found}, older than {known}"
    return Check("schema", "fail", text, "run 'jobconsole migrate'")


def skew(name: str, seconds: float, error: float = 0.0) -> Check:
    """Return the text about a clock that is so many seconds ahead of this machine's."""
    text = f"{abs(seconds):.2f} s {'ahead of' if seconds > 0 else 'behind'} this machine"
    if abs(seconds) - error <= SKEW_SECONDS:
        return Check(name, "ok", text)
    return Check(name, "warn", text, "run NTP on both: times on screens are wrong by as much")


# -- SQLite


def _sqlite_file(facts: Facts) -> Check:
    return Check("file", "ok", f"{facts['path']}, {exact(facts['bytes'])} bytes, SQLite {facts['version']}")


def _sqlite_log(facts: Facts) -> Check:
    text = f"{facts['journal_mode']}, {exact(facts['wal_bytes'])} bytes not yet in the file"
    if facts["wal_bytes"] < SWOLLEN_BYTES:
        return Check("write-ahead log", "ok", text)
    advice = "end what reads the file for so long (a sqlite3 shell, a backup): the log cannot be emptied meanwhile"
    return Check("write-ahead log", "warn", text, advice)


def _sqlite_free(facts: Facts) -> Check:
    free = facts["free_pages"] * facts["page_bytes"]
    text = f"{exact(free)} bytes inside the file are free"
    if free < SWOLLEN_BYTES or facts["free_pages"] * 2 < facts["pages"]:
        return Check("free space", "ok", text)
    return Check("free space", "warn", text, "they are used again; VACUUM with all workers stopped gives them back")


def _sqlite_disk(facts: Facts) -> Check:
    text = f"{exact(facts['disk_free_bytes'])} bytes"
    if facts["disk_free_bytes"] >= SCARCE_BYTES:
        return Check("disk space", "ok", text)
    return Check("disk space", "fail", text, "make room: on a full disk no job can be enqueued or ended")


_SQLITE: Sequence[Callable[[Facts], Check]] = (_sqlite_file, check_schema, _sqlite_log, _sqlite_free, _sqlite_disk)


# -- workers and queues


def _workers(overview: Overview) -> Check:
    alive = [worker for worker in overview.workers if not worker.lost]
    lost = len(overview.workers) - len(alive)
    text = f"{len(alive)} alive, {lost} lost"
    if not alive:
        return Check("workers", "warn", text, "start some: jobconsole worker run package.module:jobs")
    if lost:
        return Check("workers", "warn", text, "see 'jobconsole worker list'; their jobs come back when the leases end")
    return Check("workers", "ok", text)


def _types(overview: Overview) -> Check:
    orphans = [f"{name} ({plural(number, 'job')})" for name, number in sorted(overview.orphaned_types.items())]
    if not orphans:
        return Check("types", "ok", "every waiting type has a worker")
    advice = "start a worker that has these tasks and serves their queues, or correct the type where it is enqueued"
    return Check("types", "fail", f"no worker takes {some(orphans)} from their queues", advice)


def _waiting(overview: Overview) -> Check:
    late: list[tuple[float, str]] = []
    for queue in overview.queues:
        seconds = seconds_between(queue.oldest, overview.now)
        if seconds is not None and seconds >= OLD_SECONDS and not queue.paused:
            late.append((seconds, queue.name))
    if not late:
        return Check("waiting time", "ok", f"no ready job waits longer than {age(OLD_SECONDS)}")
    text = some([f"{name} for {age(seconds)}" for seconds, name in sorted(late, reverse=True)])
    return Check("waiting time", "warn", text, "start more workers, or see what the running jobs wait for")


def _held(name: str, queues: Sequence[str], advice: str) -> Check:
    return Check(name, "warn", some(queues), advice) if queues else Check(name, "ok", "none")


def some(names: Sequence[str]) -> str:
    """Return a few of the names, made harmless."""
    shown = ", ".join(safe(name, 80) for name in names[:_NAMED])
    return f"{shown} and {len(names) - _NAMED} more" if len(names) > _NAMED else shown


def worst(checks: Sequence[Check]) -> Level:
    """Return the worst level of all findings."""
    levels = {check.level for check in checks}
    return "fail" if "fail" in levels else "warn" if "warn" in levels else "ok"
