"""Servers that cannot be used: what their last error means, and what to do about it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from jobconsole.core.doctor.checks import Check
from queue_core.model.text import safe

_LONGEST_ERROR = 300
"""Characters of a server's own words."""


class _Outage(NamedTuple):
    """What some errors mean, and what to do; `{url}` in it is the name of the setting with the address."""

    # what such an error contains, in any case
    pattern: str
    # in a few words; empty where the error is clear by itself
    meaning: str
    advice: str


_LOGIN = "it answers, but refuses the login"
_CROWDED = "it answers, but has no connection to spare"
_ANYWHERE: Sequence[_Outage] = (
    _Outage(
        r"\bssl\b|\btls\b|certificate",
        "there is no encrypted connection to it",
        "make {url} and the server agree on encryption and certificates",
    ),
    _Outage(
        r"could not translate host name|name or service not known|failed to resolve host|failure in name resolution"
        r"|nodename nor servname|no address associated",
        "the name of its host is not known here",
        "correct the host in {url}, or look at the name service of this machine",
    ),
    _Outage(
        r"no answer (with)?in|timeout expired|timed out|timeout connecting|connection timeout",
        "",
        "see whether it runs, is overloaded, or is behind a firewall; or correct its address ({url})",
    ),
    _Outage(r"refused a statement", "", "look into the server's log; what was in the way may be over at the next try"),
)
_POSTGRES: Sequence[_Outage] = (
    _Outage(
        r"session is read-only|hot standby mode|read-only transaction",
        "it answers, but accepts no writes: it is a standby, or read-only",
        "give the primary's address in {url}, or those of all servers; or promote this one (select pg_promote())",
    ),
    _Outage(
        r"too many (clients|connections)|remaining connection slots|no more connections allowed",
        _CROWDED,
        "end programs that keep connections (select * from pg_stat_activity), lower jobs.postgres.pool, "
        "or raise max_connections, or the limit of this user or database",
    ),
    _Outage(
        r"authentication failed|no password supplied|role \".*\" does not exist|no such user",
        _LOGIN,
        "correct the user and the password in {url}",
    ),
    _Outage(
        r"no pg_hba\.conf entry|pg_hba\.conf rejects",
        "it answers, but not to this host, user and database",
        "allow them in the server's pg_hba.conf, or correct {url}",
    ),
    _Outage(
        r"database \".*\" does not exist|no such database",
        "it answers, but lacks the database",
        "create it (createdb NAME), or correct its name in {url}",
    ),
    _Outage(
        r"starting up|shutting down|in recovery mode|not (yet )?accepting connections",
        "it answers, but accepts no connections now",
        "wait until it does; its log has the reason",
    ),
    _Outage(r"no space left|could not extend file|disk full", "its disk is full", "make room on the server's disk"),
    _Outage(r"permission denied", "", "grant this user what docs/operating.md names for its purpose"),
    _Outage(r"does not fit this version", "", "run 'jobconsole migrate', or upgrade this program"),
    *_ANYWHERE,
    _Outage(
        r"\bfatal:", "it answers, but refuses the connection", "look into the server's log, and compare it with {url}"
    ),
)
_REDIS: Sequence[_Outage] = (
    _Outage(
        r"without any password configured|no password is set",
        "it answers, but its user has no password",
        "leave the password out of {url}, or set it on the server",
    ),
    _Outage(
        r"invalid username-password|invalid password|wrongpass", _LOGIN, "correct the user and the password in {url}"
    ),
    _Outage(
        r"sentinels .*demand a password",
        "",
        "give that of the Sentinels in {url} (redis+sentinel://HOST/NAME?sentinel_password=PASSWORD)",
    ),
    _Outage(
        r"demands a password",
        "it answers, but requires a login",
        "give the password, and the user if it has one, in {url} (redis://USER:PASSWORD@HOST)",
    ),
    _Outage(
        r"max number of clients",
        _CROWDED,
        "end programs that keep connections (CLIENT LIST), or raise maxclients",
    ),
    # What a server answers that is full or expects TLS may be lost with the connection.
    _Outage(
        r"connection (lost|closed|reset)|closed the connection",
        "it answers, but closes the connection",
        "look into the server's log: raise maxclients where it has no connection to spare, and name one that expects "
        "TLS by rediss://",
    ),
    _Outage(r"\bloading\b", "it answers, but still loads its data", "wait until it has; INFO persistence has how far"),
    _Outage(
        r"read.?only replica|\breadonly\b",
        "it answers, but accepts no writes: it is a replica",
        "give the primary's address in {url}, or those of its Sentinels (redis+sentinel://)",
    ),
    _Outage(
        r"link with master is down|masterdown",
        "it is a replica whose primary is away",
        "look at the primary, and give its address in {url}",
    ),
    _Outage(
        r"protected mode",
        "it answers only to its own machine",
        "give its user a password on the server, and in {url}",
    ),
    _Outage(r"used memory|\boom\b", "its memory is full", "raise maxmemory, or find what else fills this server"),
    _Outage(r"misconf|rdb snapshot", "it accepts no writes: it cannot save", "look at the server's log and its disk"),
    _Outage(r"busy running", "a script holds it up", "wait, or end the other program's script (SCRIPT KILL)"),
    _Outage(r"cluster ?(is )?down", "", "assign every slot to a server (redis-cli --cluster fix)"),
    _Outage(r"db index", "it has no database of this number", "correct the number at the end of {url}"),
    _Outage(r"no permissions|noperm", "this user lacks a right", "give it to the user on the server (ACL SETUSER)"),
    *_ANYWHERE,
)
_SQLITE: Sequence[_Outage] = (
    _Outage(r"the disk that holds .* is full$", "its disk is full", "make room on this disk"),
    _Outage(
        r"is locked by another process$",
        "another process keeps its lock",
        "let that process commit, or end it (fuser FILE names it)",
    ),
)
_OUTAGES: Mapping[str, Sequence[_Outage]] = {"postgres": _POSTGRES, "redis": _REDIS, "sqlite": _SQLITE}


def meaning(name: str, reason: str) -> str:
    """Return in a few words what an error of a store or a Redis means; "" where its own words are clear, or unknown."""
    outage = _outage(name, reason)
    return outage.meaning if outage is not None else ""


def unreachable(name: str, reason: str) -> Check:
    """Return the finding about a store or a Redis that cannot be used, given its error."""
    outage, finding = _outage(name, reason), safe(reason, _LONGEST_ERROR)
    if name == "sqlite":
        advice = "correct its path (jobs.sqlite.path), or see to the file and its disk"
        return Check(name, "fail", finding, outage.advice if outage is not None else advice)
    url = f"jobs.{name}.url"
    if outage is None:
        return Check(name, "fail", finding, f"start it, or correct its address ({url})")
    if outage.meaning:
        # Whatever answered was reached, and the finding is about why it is of no use.
        own = reason.removeprefix(f"{name} cannot be reached: ").removeprefix(f"{name} refused a statement: ")
        finding = f"{outage.meaning}: {safe(own, _LONGEST_ERROR)}"
    return Check(name, "fail", finding, outage.advice.format(url=url))


def _outage(name: str, reason: str) -> _Outage | None:
    found = (one for one in _OUTAGES.get(name, ()) if re.search(one.pattern, reason, re.IGNORECASE))
    return next(found, None)
