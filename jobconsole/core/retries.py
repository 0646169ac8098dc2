"""What became of earlier retries of an error signature, told before it is retried again."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from jobconsole.core.humanize import exact, moment_of
from jobconsole.core.progress import outcome_words
from jobconsole.core.rows import NAME
from queue_core.operations import Operation, Outcomes
from queue_core.text import safe

if TYPE_CHECKING:
    from queue_core.operating import Operations

LOOKED_AT = 20
"""Operations on a signature among which the last retries are looked for."""


async def retried_before(operations: Operations, signature: str, now: datetime) -> str:
    """Return who retried a signature last, and what became of it; "" when nobody did.

    Raises:
        StoreUnavailable: the store did not answer in time.
    """
    return next(iter(await retries_of(operations, signature, now, 1)), "")


async def retries_of(operations: Operations, signature: str, now: datetime, most: int) -> list[str]:
    """Return who retried a signature and what became of it, the newest first, at most so many.

    Raises:
        StoreUnavailable: the store did not answer in time.
    """
    found = await operations.find(LOOKED_AT, signature=signature)
    retries = [one for one in found if one.asked.verb == "retry" and one.processed][:most]
    return [told(one, await operations.outcomes(one.number), now) for one in retries]


def told(operation: Operation, outcomes: Outcomes, now: datetime) -> str:
    """Return one retry and what became of its jobs."""
    what = "canary " if operation.in_canary else "retried "
    some = f" (the last {exact(outcomes.looked)})" if outcomes.looked < operation.processed else ""
    state = "" if operation.state == "done" else f", {operation.state}"
    user = safe(operation.asked.author.user, NAME)
    came = f"{what}{exact(operation.processed)} -> {outcome_words(outcomes) or 'nothing known'}{some}"
    return f"{moment_of(operation.created_at, now)} by {user}: {came}{state}"
