"""The states of a job and the moves between them.

    scheduled ──due──▶ queued ──claim──▶ running ──complete──▶ completed
        ▲                ▲  ▲               │
        └── enqueue ─────┘  │  ◀──release── ┤
            with a delay    │  ◀──reclaim── ┤ (lease expired: losses + 1)
                            │               ├──retry──▶ retrying ──due──▶ queued
                            │               ├──bury───▶ dead
                            └──── retry ────────────────┘
    running ──reschedule──▶ queued (to the back), scheduled (for a time)
    scheduled, queued, retrying, running ──cancel──▶ cancelled

A job enters as `queued`, or as `scheduled` when it runs at a later time; the promoter moves due jobs to `queued`.
A claim makes it `running` for the length of a lease that the heartbeat renews. The worker settles the attempt:
complete, retry (after the backoff, as `retrying`), bury (into the dead-letter queue) or release (back to `queued`
without using an attempt; when its handler asked for it, as a job that arrives now, or as `scheduled`). `completed` and
`cancelled` rows go after their retention; `dead` ones stay until an operator
retries, deletes (to the trash) or purges them.
"""

from __future__ import annotations

from enum import StrEnum


class Status(StrEnum):
    """Where a job is in its life."""

    SCHEDULED = "scheduled"
    QUEUED = "queued"
    RUNNING = "running"
    RETRYING = "retrying"
    COMPLETED = "completed"
    CANCELLED = "cancelled"
    DEAD = "dead"


WAITING = frozenset({Status.SCHEDULED, Status.QUEUED, Status.RETRYING})
UNFINISHED = WAITING | {Status.RUNNING}
FINAL = frozenset({Status.COMPLETED, Status.CANCELLED, Status.DEAD})

MOVES: dict[Status, frozenset[Status]] = {
    Status.SCHEDULED: frozenset({Status.QUEUED, Status.CANCELLED}),
    Status.QUEUED: frozenset({Status.RUNNING, Status.CANCELLED}),
    Status.RETRYING: frozenset({Status.QUEUED, Status.CANCELLED}),
    Status.RUNNING: frozenset(
        {Status.COMPLETED, Status.RETRYING, Status.DEAD, Status.QUEUED, Status.SCHEDULED, Status.CANCELLED}
    ),
    # to scheduled when a bulk retry is spread over some time
    Status.DEAD: frozenset({Status.QUEUED, Status.SCHEDULED}),
    Status.COMPLETED: frozenset({Status.QUEUED, Status.SCHEDULED}),
    Status.CANCELLED: frozenset(),
}
"""Every legal move; a move that is not here is refused by every store."""

ALIASES: dict[str, Status] = {
    "pending": Status.QUEUED,
    "processing": Status.RUNNING,
    "failed": Status.DEAD,
    "dlq": Status.DEAD,
}
"""Other words that filters and the command line understand."""


def parse_status(word: str) -> Status:
    """Return the state that a word of a filter or of the command line means.

    Raises:
        ValueError: no state has this name.
    """
    word = word.strip().lower()
    if word in ALIASES:
        return ALIASES[word]
    try:
        return Status(word)
    except ValueError:
        known = ", ".join([*Status, *ALIASES])
        raise ValueError(f"no status '{word}'; one of: {known}") from None
