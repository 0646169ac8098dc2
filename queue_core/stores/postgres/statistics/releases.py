"""Releases: registered by workers as they start, in their order, and read for people."""

from __future__ import annotations

from typing import Any

from queue_core.model.report import Release
from queue_core.model.triage.release import MAX_RELEASES, place_among
from queue_core.stores.postgres.dialect import moment
from queue_core.stores.postgres.session.plans import Plan
from queue_core.stores.postgres.session.pool import ConnectionPool
from queue_core.stores.postgres.session.runner import SerialRunner


async def register_release(runner: SerialRunner, name: str) -> int:
    """Write a release at its place in the order of all unless it is known; return its number."""
    known = await runner.run("releases/number", {"name": name})
    return int(known[0][0]) if known else await runner.run_plan(lambda: _register(name))


def _register(name: str) -> Plan[int]:
    """Register a release, one process at a time: its place depends on all others."""
    yield "releases/lock", {}
    known = yield "releases/in_order", {}
    for number, other, *_ in known:
        if other == name:  # another process was first
            return int(number)
    if len(known) >= MAX_RELEASES:
        yield "releases/forget", {"surplus": len(known) - MAX_RELEASES + 1}
        known = yield "releases/in_order", {}
    rows = yield "releases/register", {"name": name, "place": _place(name, known)}
    return int(rows[0][0])


def _place(name: str, known: Any) -> int:
    """Return the place of a new release: that of the one before which it belongs, or the next after the last."""
    behind = place_among(name, [other for _, other, *_ in known])
    if behind < len(known):
        return int(known[behind][2])
    return int(known[-1][2]) + 1 if known else 1


async def read_releases(pool: ConnectionPool) -> list[Release]:
    """Return the releases in their order, the oldest first."""
    rows = await pool.rows("releases/in_order")
    return [Release(name, place, moment(first_seen), number) for number, name, place, first_seen in rows]
