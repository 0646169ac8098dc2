"""What the processes of one file tell each other in it: that jobs arrived or ended, and events for who listens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from queue_core.stores.sqlite.link import Transaction
from queue_core.stores.sqlite.sql import texts

LISTEN_SECONDS = 15.0
"""How long a listener is remembered after it last said that it is there."""
MESSAGES = 200
"""Messages read at a time."""
KEPT = 1_000
"""Messages kept at most; whoever is so far behind is told of a gap."""


@dataclass(frozen=True, slots=True)
class Seen:
    """How far a process has looked."""

    # changes with every commit of another connection; None: never looked
    version: tuple[int, int] | None = None
    # queue -> its count of arrivals
    arrived: dict[str, int] = field(default_factory=dict)
    # number of the last message
    message: int = 0


@dataclass(frozen=True, slots=True)
class News:
    """What is new since a look before."""

    seen: Seen
    # queues that may have something to claim
    arrived: Sequence[str] = ()
    messages: Sequence[str] = ()
    # some messages were gone before they could be read
    missed: bool = False
    # those of the watched jobs that have ended
    ended: Sequence[str] = ()


def look(transaction: Transaction, seen: Seen, me: str, watched: Sequence[str], everywhere: bool) -> News:
    """Return what other connections did since the last look; `everywhere` names all queues with ready jobs."""
    version = transaction.version()
    if version == seen.version and not everywhere:
        return News(seen)
    arrived: dict[str, int] = dict(transaction.rows("news/arrived"))
    if everywhere:
        changed = [name for (name,) in transaction.rows("news/ready")]
    else:
        changed = [name for name, n in arrived.items() if n != seen.arrived.get(name)]
    ((last, first),) = transaction.rows("news/numbers")
    if seen.version is None:
        return News(Seen(version, arrived, last), changed)
    rows = transaction.rows("news/messages", (seen.message, MESSAGES)) if last > seen.message else []
    ended = [job_id for (job_id,) in transaction.rows("news/ended", (texts(watched),))] if watched else []
    return News(
        # With more to read, the version stays as it was, so that the next look reads on.
        Seen(version if len(rows) < MESSAGES else (0, 0), arrived, rows[-1][0] if rows else seen.message),
        changed,
        [body for _, sender, body in rows if sender != me],
        bool(rows) and first > seen.message + 1,
        ended,
    )


def heard(transaction: Transaction, me: str) -> bool:
    """Return whether other processes listen."""
    return bool(transaction.rows("news/listeners", (me, transaction.now))[0][0])


def listen(transaction: Transaction, me: str) -> None:
    """Let the others know that this process listens."""
    transaction.run("news/listen", (me, transaction.now + LISTEN_SECONDS))


def send(transaction: Transaction, me: str, messages: Sequence[str]) -> None:
    """Leave messages for whoever listens."""
    transaction.run_many("news/send", [(me, body, transaction.now) for body in messages])
    transaction.run("news/forget", (KEPT,))
