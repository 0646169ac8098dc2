"""What this console had retried, and what became of it, told with the signature before it is retried again."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import datetime

from jobconsole.core.humanize import exact, moment_of
from jobconsole.core.operations import Report
from queue_core.errors import JobNotFound
from queue_core.inspection import Inspector
from queue_core.states import Status

LOOKED_AT = 20
"""Jobs of a retry that are looked at to tell its outcome: each is one read."""
_REMEMBERED = 200
_WORDS = {Status.COMPLETED: "completed", Status.DEAD: "dead again"}


@dataclass(frozen=True, slots=True)
class Retried:
    """One retry of a signature."""

    at: datetime
    number: int
    # some of its jobs, spread over all of them
    sample: tuple[str, ...]


class RetryBook:
    """The last retry of each signature."""

    def __init__(self) -> None:
        self._last: dict[str, Retried] = {}

    def note(self, report: Report, at: datetime) -> None:
        """Remember a retry that has ended."""
        if report.plan.verb != "retry" or not report.changed:
            return
        step = max(1, len(report.changed) // LOOKED_AT)
        retried = Retried(at, len(report.changed), report.changed[::step][:LOOKED_AT])
        for signature in report.plan.signatures:
            self._last.pop(signature, None)
            self._last[signature] = retried
        while len(self._last) > _REMEMBERED:
            del self._last[next(iter(self._last))]

    async def outcome(self, inspector: Inspector, signature: str, now: datetime) -> str:
        """Return what became of the last retry of a signature; "" when there was none.

        Raises:
            StoreUnavailable: the store did not answer in time.
        """
        retried = self._last.get(signature)
        if retried is None:
            return ""
        states: Counter[str] = Counter()
        for job_id in retried.sample:
            try:
                job = await inspector.get(job_id)
            except JobNotFound:
                states["gone"] += 1
            else:
                states[_WORDS.get(job.status, "on their way")] += 1
        found = ", ".join(f"{exact(count)} {word}" for word, count in states.most_common())
        some = f" of {len(retried.sample)} looked at" if len(retried.sample) < retried.number else ""
        return f"{moment_of(retried.at, now)}: {exact(retried.number)}, {found}{some}"
