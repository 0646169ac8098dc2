"""A job's lives: each operator's retry begins a new one, with all of its retries."""

from __future__ import annotations

from collections.abc import Sequence

from queue_core.job import Attempt


def lives(attempts: Sequence[Attempt]) -> list[list[Attempt]]:
    """Return the failed attempts, oldest first, by life.

    Attempts are numbered within a life, so a number that does not rise begins the next one.
    """
    found: list[list[Attempt]] = []
    for attempt in attempts:
        if not found or attempt.number <= found[-1][-1].number:
            found.append([])
        found[-1].append(attempt)
    return found


def retried_before(attempts: Sequence[Attempt]) -> list[Attempt]:
    """Return the attempt that each life but the last ended with: after each, an operator had the job retried."""
    return [life[-1] for life in lives(attempts)[:-1]]
