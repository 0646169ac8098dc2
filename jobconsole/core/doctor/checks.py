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

POSTGRES_LEAST = 150_000
"""server_version_num of PostgreSQL 15."""
SKEW_SECONDS = 2.0
"""No clock but the store's decides anything; beyond this, ages on screens begin to mislead."""
OLD_SECONDS, ANCIENT_SECONDS = 300.0, 3600.0
"""A transaction open for so long keeps PostgreSQL from clearing dead rows; a ready job waiting so long is stuck."""
LOCKED_SECONDS = 5.0
"""Locks held for so long hold up enqueues and operators; this product's own transactions are shorter."""
HELD_TRANSACTIONS = 100_000
"""So many transactions after the snapshot of a slot or a standby, dead rows are many."""
BLOATED_ROWS = 100_000
"""Dead rows of a table, beyond which autovacuum does not keep up, when they are also most of it."""
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


def check_postgres(facts: Facts, read_only: bool = False) -> list[Check]:
    """Return the findings about PostgreSQL and its schema; with `read_only`, nothing about what operators change."""
    there = facts["schema"] == facts["schema_known"]
    left_out = ({_operators} if read_only else set()) if there else {_indexes, _tables, _operators}
    return [check(facts) for check in _POSTGRES if check not in left_out]


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
        text = f"no worker carries {_some([f'#{one.number} {one.request.verb}' for one in still])} out"
        return Check("operations", "warn", text, "start a worker, or let 'jobconsole op run' do it")
    stopped = [f"#{one.number} {one.request.verb}" for one in operations if one.state == "stopped"]
    if stopped:
        advice = "'jobconsole op show' says why; 'op resume' resumes one, 'op cancel' ends it"
        return Check("operations", "warn", f"stopped by a threshold: {_some(stopped)}", advice)
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


# -- PostgreSQL


def _postgres_version(facts: Facts) -> Check:
    text = f"PostgreSQL {facts['version']}"
    if facts["version_number"] >= POSTGRES_LEAST:
        return Check("postgres version", "ok", text)
    return Check("postgres version", "fail", text, "upgrade the server to PostgreSQL 15 or later")


def _encoding(facts: Facts) -> Check:
    encoding = facts["encoding"]
    if encoding == "UTF8":
        return Check("database encoding", "ok", encoding)
    text = f"{encoding}: jobs, results and errors with other characters cannot be stored"
    advice = "move to a database made with CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0 (pg_dump, pg_restore)"
    return Check("database encoding", "fail", text, advice)


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


def _writable(facts: Facts) -> Check:
    if not facts["read_only"]:
        return Check("postgres role", "ok", "accepts writes")
    return Check("postgres role", "fail", "read-only, or a standby", "connect to the primary server")


def _durability(facts: Facts) -> Check:
    off = [name for name in ("fsync", "full_page_writes") if not facts[name]]
    if off:
        advice = "turn them on: a crash of the machine can lose jobs or the whole database"
        return Check("durability", "fail", f"{' and '.join(off)} off", advice)
    commit = facts["synchronous_commit"]
    if commit == "off":
        advice = "set it to 'on': a crash can lose jobs whose enqueue had returned"
        return Check("durability", "fail", "synchronous_commit is off", advice)
    return Check("durability", "ok", f"fsync on, synchronous_commit {commit}")


def skew(name: str, seconds: float, error: float = 0.0) -> Check:
    """Return the text about a clock that is so many seconds ahead of this machine's."""
    text = f"{abs(seconds):.2f} s {'ahead of' if seconds > 0 else 'behind'} this machine"
    if abs(seconds) - error <= SKEW_SECONDS:
        return Check(name, "ok", text)
    return Check(name, "warn", text, "run NTP on both: times on screens are wrong by as much")


def _postgres_clock(facts: Facts) -> Check:
    return skew("postgres clock", facts["clock_skew_s"], facts["clock_skew_error_s"])


def _oldest_transaction(facts: Facts) -> Check:
    seconds = facts["oldest_transaction_s"]
    if seconds is None or seconds < OLD_SECONDS:
        return Check("oldest transaction", "ok", age(seconds) or "none open")
    pid = facts["oldest_transaction_pid"]
    advice = f"end it (select pg_terminate_backend({pid})): dead rows pile up behind it and claims become slow"
    return Check("oldest transaction", "fail" if seconds >= ANCIENT_SECONDS else "warn", age(seconds), advice)


def _locks(facts: Facts) -> Check:
    old = [one for one in facts["blockers"] if max(one["open_s"] or 0.0, one["waiting_s"] or 0.0) >= LOCKED_SECONDS]
    if not old:
        return Check("locks", "ok", f"none held for longer than {age(LOCKED_SECONDS)}")
    text = [_blocker(one) for one in old]
    if old[0]["found"] > len(facts["blockers"]):
        text.append(f"and {exact(old[0]['found'] - len(facts['blockers']))} more")
    pid = old[0]["pid"]
    end = f"end it (select pg_terminate_backend({pid}))" if pid else "commit or roll back those in pg_prepared_xacts"
    advice = f"let that program commit soon after it enqueues, or {end}: it keeps its locks until then"
    return Check("locks", "warn", "\n".join(text), advice)


def _blocker(one: Mapping[str, Any]) -> str:
    """Return who has locks, since when, on what, and who waits for them."""
    # Of other users' sessions PostgreSQL shows no state and no address to those without pg_read_all_stats.
    client = f" from {one['client'] or 'this machine'}" if one["state"] else ""
    who = f"{_program(one['application'], one['pid'])}{client}" if one["pid"] else "a prepared transaction"
    since = f"open for {age(one['open_s'])}" if one["open_s"] is not None else "open"
    idle = ", idle" if one["state"].startswith("idle") else ""
    on = f", locks in {_some(one['tables'])}" if one["tables"] else ""
    if not one["waiters"]:
        return f"{who}: {since}{idle}{on}; nothing waits for it now"
    waiter = _program(one["waiter_application"], one["waiter"])
    asked = f" at {_some(one['asked'])}" if one["asked"] else ""
    waiting = f"{plural(one['waiters'], 'connection')} held up for {age(one['waiting_s'])}: {waiter}{asked}"
    return f"{who}: {since}{idle}{on}; {waiting}{' and others' if one['waiters'] > 1 else ''}"


def _program(name: str, pid: int) -> str:
    return f"{safe(name, 80) or 'a program without a name'} (pid {pid})"


def _prepared(facts: Facts) -> Check:
    number = facts["prepared_transactions"]
    if not number:
        return Check("prepared transactions", "ok", "none")
    advice = "commit or roll back those in pg_prepared_xacts: they hold locks and dead rows"
    return Check("prepared transactions", "warn", str(number), advice)


def _held_snapshots(facts: Facts) -> Check:
    """Return the text about what keeps ended rows beside open transactions; these name the age in transactions."""
    held = [one for one in facts["held_snapshots"] if one["transactions"] >= HELD_TRANSACTIONS]
    if not held:
        return Check("held snapshots", "ok", "none by slots or standbys")
    text = _some([f"{one['kind']} {one['name']} ({exact(one['transactions'])} transactions)" for one in held])
    advice = {
        "replication slot": f"drop it (select pg_drop_replication_slot('{held[0]['name']}')) or bring its standby back",
        "standby": "end the long queries there, or turn its hot_standby_feedback off",
    }
    return Check("held snapshots", "warn", text, f"{advice[held[0]['kind']]}: dead rows pile up behind it")


def _indexes(facts: Facts) -> Check:
    invalid = facts["invalid_indexes"]
    if not invalid:
        return Check("indexes", "ok", "all valid")
    return Check("indexes", "fail", f"invalid: {_some(invalid)}", "run REINDEX INDEX on each")


def _partitions(facts: Facts) -> Check:
    days = facts["partitions_ahead_days"]
    if days is None:
        return Check("history partitions", "fail", "none", "run 'jobconsole migrate'")
    text = "none for today: no job can end" if days < 0 else f"{plural(days, 'day')} ahead"
    if days >= 1:
        return Check("history partitions", "ok", text)
    level: Level = "warn" if days == 0 else "fail"
    return Check("history partitions", level, text, "run 'jobconsole migrate'; a worker makes them while one runs")


def _tables(facts: Facts) -> Check:
    bloated = [
        f"{name} ({exact(table['dead'])} dead rows)"
        for name, table in sorted(facts["tables"].items())
        if table["dead"] > max(BLOATED_ROWS, table["live"])
    ]
    if not bloated:
        return Check("tables", "ok", "vacuumed")
    advice = "look for old transactions and replication slots, then VACUUM these tables"
    return Check("tables", "warn", _some(bloated), advice)


def _connections(facts: Facts) -> Check:
    used, most = facts["connections"], facts["max_connections"]
    text = f"{used} of {most}"
    if used <= CROWDED * most:
        return Check("connections", "ok", text)
    return Check("connections", "warn", text, "raise max_connections, or lower jobs.postgres.pool")


def _pooler(facts: Facts) -> Check:
    if not facts["pooler"]:
        return Check("pooler", "ok", "none")
    return Check("pooler", "ok", "something between here and PostgreSQL keeps sessions of its own")


def _notifications(facts: Facts) -> Check:
    seconds = facts["notifications_s"]
    if seconds is not None:
        return Check("notifications", "ok", f"arrive within {max(1, round(seconds * 1000))} ms")
    text = f"do not arrive: {safe(facts['notifications_reason'] or 'none was heard in time', 200)}"
    advice = f"{facts['notifications_advice']}; until then jobs are found by looking, up to 1 s late"
    return Check("notifications", "warn", text, advice)


def _operators(facts: Facts) -> Check:
    if not facts["refused"]:
        return Check("operators", "ok", "every verb can be carried out")
    rights = "give this user the rights in docs/operating.md (Roles), or see the server's log; verbs like retry fail"
    advice = "see history partitions" if (facts["partitions_ahead_days"] or 0) < 0 else rights
    return Check("operators", "fail", f"a verb was refused: {facts['refused']}", advice)


_POSTGRES: Sequence[Callable[[Facts], Check]] = (
    _postgres_version,
    _encoding,
    check_schema,
    _writable,
    _durability,
    _postgres_clock,
    _oldest_transaction,
    _locks,
    _prepared,
    _held_snapshots,
    _indexes,
    _partitions,
    _tables,
    _connections,
    _pooler,
    _notifications,
    _operators,
)


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
    return Check("types", "fail", f"no worker takes {_some(orphans)} from their queues", advice)


def _waiting(overview: Overview) -> Check:
    late: list[tuple[float, str]] = []
    for queue in overview.queues:
        seconds = seconds_between(queue.oldest, overview.now)
        if seconds is not None and seconds >= OLD_SECONDS and not queue.paused:
            late.append((seconds, queue.name))
    if not late:
        return Check("waiting time", "ok", f"no ready job waits longer than {age(OLD_SECONDS)}")
    text = _some([f"{name} for {age(seconds)}" for seconds, name in sorted(late, reverse=True)])
    return Check("waiting time", "warn", text, "start more workers, or see what the running jobs wait for")


def _held(name: str, queues: Sequence[str], advice: str) -> Check:
    return Check(name, "warn", _some(queues), advice) if queues else Check(name, "ok", "none")


def _some(names: Sequence[str]) -> str:
    """Return a few of the names, made harmless."""
    shown = ", ".join(safe(name, 80) for name in names[:_NAMED])
    return f"{shown} and {len(names) - _NAMED} more" if len(names) > _NAMED else shown


def worst(checks: Sequence[Check]) -> Level:
    """Return the worst level of all findings."""
    levels = {check.level for check in checks}
    return "fail" if "fail" in levels else "warn" if "warn" in levels else "ok"
