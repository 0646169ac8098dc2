"""The checks of `doctor` on the facts about PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jobconsole.core.doctor.checks import (
    ANCIENT_SECONDS,
    CROWDED,
    OLD_SECONDS,
    Check,
    Facts,
    Level,
    check_schema,
    skew,
    some,
)
from jobconsole.format.humanize import age, exact, plural
from queue_core.model.text import safe

MIN_POSTGRES = 150_000
"""server_version_num of PostgreSQL 15."""
LOCKED_SECONDS = 5.0
"""Locks held for so long hold up enqueues and operators; this product's own transactions are shorter."""
STATEMENT = 60
"""Characters that are shown of a statement."""
HELD_TRANSACTIONS = 100_000
"""So many transactions after the snapshot of a slot or a standby, dead rows are many."""
BLOATED_ROWS = 100_000
"""Dead rows of a table, beyond which autovacuum does not keep up, when they are also most of it."""


def check_postgres(facts: Facts, read_only: bool = False) -> list[Check]:
    """Return the findings about PostgreSQL and its schema; with `read_only`, nothing about what operators change."""
    there = facts["schema"] == facts["schema_known"]
    left_out = ({_operators} if read_only else set()) if there else {_indexes, _tables, _operators}
    return [check(facts) for check in _POSTGRES if check not in left_out]


def _postgres_version(facts: Facts) -> Check:
    text = f"PostgreSQL {facts['version']}"
    if facts["version_number"] >= MIN_POSTGRES:
        return Check("postgres version", "ok", text)
    return Check("postgres version", "fail", text, "upgrade the server to PostgreSQL 15 or later")


def _encoding(facts: Facts) -> Check:
    encoding = facts["encoding"]
    if encoding == "UTF8":
        return Check("database encoding", "ok", encoding)
    text = f"{encoding}: jobs, results and errors with other characters cannot be stored"
    advice = "move to a database made with CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0 (pg_dump, pg_restore)"
    return Check("database encoding", "fail", text, advice)


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
    found = facts["blockers"]
    old = [one for one in found if max(one["open_s"] or 0.0, one["waiting_s"] or 0.0) >= LOCKED_SECONDS]
    if not old:
        return Check("locks", "ok", f"none held for longer than {age(LOCKED_SECONDS)}")
    return _name(old, found[0]["found"] - len(found))


def _name(blockers: Sequence[Facts], unlisted: int) -> Check:
    """Return the text about transactions that hold up the queue, the worst first, and about so many others."""
    text = [_blocker(one) for one in blockers]
    if unlisted:
        text.append(f"and {exact(unlisted)} more")
    pid = blockers[0]["pid"]
    end = f"end it (select pg_terminate_backend({pid}))" if pid else "commit or roll back those in pg_prepared_xacts"
    advice = f"let that program commit soon after it enqueues, or {end}: it keeps its locks until then"
    return Check("locks", "warn", "\n".join(text), advice)


def held_up(reason: str, blockers: Sequence[Facts]) -> list[Check]:
    """Return the findings where tables cannot be read, with an error, while others have locked them; else none."""
    barring = [one for one in blockers if one["bars"]]
    if not barring:
        return []
    text = f"it answers, but others have locked tables of the queue, so not all could be checked: {safe(reason, 200)}"
    return [Check("postgres", "fail", text, "see locks, and run this again when they are gone"), _name(barring, 0)]


def _blocker(one: Facts) -> str:
    """Return who has locks, since when, on what, and who waits for them."""
    on = f", locks in {some(one['tables'])}" if one["tables"] else ""
    first = f"{_holder(one)}: {_doing(one)}{on}"
    if not one["waiters"]:
        return f"{first}; nothing waits for it now"
    waiter = _program(one["waiter_application"], one["waiter"])
    asked = f" at {some(one['asked'])}" if one["asked"] else ""
    waiting = f"{plural(one['waiters'], 'connection')} held up for {age(one['waiting_s'])}: {waiter}{asked}"
    return f"{first}; {waiting}{' and others' if one['waiters'] > 1 else ''}"


def _holder(one: Facts) -> str:
    if not one["pid"]:
        return "a prepared transaction"
    user = f" of user {safe(one['username'], 63)}" if one["username"] else ""
    # Of other users' sessions PostgreSQL shows no state and no address to those without pg_read_all_stats.
    client = f" from {one['client'] or 'this machine'}" if one["state"] else ""
    return f"{_program(one['application'], one['pid'])}{user}{client}"


def _doing(one: Facts) -> str:
    """Return since when a transaction is open, and what it does or did last."""
    since = f"open for {age(one['open_s'])}" if one["open_s"] is not None else "open"
    idle = one["state"].startswith("idle")
    statement = safe(" ".join(one["statement"].split()), STATEMENT)
    if not statement:
        return f"{since}, idle" if idle else since
    return f"{since}, {'idle after' if idle else 'in'} '{statement}'"


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
    text = some([f"{one['kind']} {one['name']} ({exact(one['transactions'])} transactions)" for one in held])
    advice = {
        "replication slot": f"drop it (select pg_drop_replication_slot('{held[0]['name']}')) or bring its standby back",
        "standby": "end the long queries there, or turn its hot_standby_feedback off",
    }
    return Check("held snapshots", "warn", text, f"{advice[held[0]['kind']]}: dead rows pile up behind it")


def _indexes(facts: Facts) -> Check:
    invalid = facts["invalid_indexes"]
    if not invalid:
        return Check("indexes", "ok", "all valid")
    return Check("indexes", "fail", f"invalid: {some(invalid)}", "run REINDEX INDEX on each")


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
    return Check("tables", "warn", some(bloated), advice)


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
    late = "until then jobs are found by looking, up to 1 s late"
    advice = f"{facts['notifications_advice'] or 'mend that'}; {late}"
    return Check("notifications", "warn", text, advice)


def _operators(facts: Facts) -> Check:
    if facts["untried"]:
        text = f"not checked: {safe(facts['untried'], 200)}"
        return Check("operators", "warn", text, "run this again when they have let go; locks may name them")
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
