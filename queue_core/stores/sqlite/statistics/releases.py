"""Releases: registered by workers as they start, in their order, and read for people."""

from __future__ import annotations

from queue_core.model.report import Release
from queue_core.model.triage.release import MAX_RELEASES, place_among
from queue_core.stores.sqlite.dialect import moment
from queue_core.stores.sqlite.session import Transaction


def register_release(transaction: Transaction, name: str) -> int:
    """Write a release at its place in the order of all unless it is known; return its number."""
    known = transaction.rows("releases/in_order")
    for number, other, *_ in known:
        if other == name:
            return int(number)
    if len(known) >= MAX_RELEASES:
        transaction.run("releases/forget", (len(known) - MAX_RELEASES + 1,))
        known = transaction.rows("releases/in_order")
    behind = place_among(name, [other for _, other, *_ in known])
    if behind < len(known):
        place = known[behind][2]
        transaction.run("releases/move_up", (place,))
    else:
        place = known[-1][2] + 1 if known else 1
    transaction.run("releases/register", (name, place, transaction.now))
    ((number,),) = transaction.rows("releases/number", (name,))
    return int(number)


def read_releases(transaction: Transaction) -> list[Release]:
    """Return the releases in their order, the oldest first."""
    rows = transaction.rows("releases/in_order")
    return [Release(name, place, moment(first_seen), number) for number, name, place, first_seen in rows]
