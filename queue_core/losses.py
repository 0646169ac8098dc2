"""What every store records about a job whose worker was lost while it ran it."""

from __future__ import annotations

from queue_core.job import Failure
from queue_core.signature import sign

POISON_CRASHES = 3
"""A job whose workers were lost this often is buried as poison instead of taking another worker with it."""

EXCEPTION = "WorkerLost"
CRASHED = "a worker was lost while it ran this job"
POISON = f"{POISON_CRASHES} workers were lost while they ran this job"


def failure_of_loss(worker: str, crashes: int) -> Failure:
    """Return why the attempt ended, given the worker's name and the job's crash count with this one in it.

    The worker's name stands in the message only: all losses are one group, whoever was lost.
    """
    poison = crashes >= POISON_CRASHES
    what = POISON if poison else CRASHED
    signature, title = sign(EXCEPTION, what)
    return Failure("poison" if poison else "crashed", EXCEPTION, f"{what} (last: {worker})", "", signature, title)


def summary(failure: Failure) -> str:
    """Return the one line about a failure that lists show: the exception's short name, its message's first line."""
    name = failure.exception.rpartition(".")[2]
    first = failure.message.strip().splitlines()
    return f"{name}: {first[0][:500]}" if first else name
