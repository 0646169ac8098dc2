"""What every store records about a job whose worker was lost while it ran it."""

from __future__ import annotations

from queue_core.job import Failure
from queue_core.signature import sign

SUSPECT_LOSSES = 2
"""Losses from which on a job runs alone in a process of its own, so that its worker sees whether it is to blame."""

EXCEPTION = "WorkerLost"
LOST_ONCE = "a worker was lost while it ran this job"


def lost_too_often(bound: int) -> str:
    """Return why a job is buried whose workers were lost this often."""
    return f"{bound} workers were lost while they ran this job"


def failure_of_loss(worker: str, losses: int, bound: int) -> Failure:
    """Return why the attempt ended, given the worker's name, the job's losses with this one, and how many bury it.

    The worker's name stands in the message only: all losses are one group, whoever was lost.
    """
    what = lost_too_often(bound) if losses >= bound else LOST_ONCE
    signature, title = sign(EXCEPTION, what)
    return Failure("lost", EXCEPTION, f"{what} (last: {worker})", "", signature, title)


def summary(failure: Failure) -> str:
    """Return the one line about a failure that lists show: the exception's short name, its message's first line."""
    name = failure.exception.rpartition(".")[2]
    first = failure.message.strip().splitlines()
    return f"{name}: {first[0][:500]}" if first else name
