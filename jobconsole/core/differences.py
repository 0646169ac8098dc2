"""How two attempts of a job differ: what is the same is said once, what differs stands side by side."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from jobconsole.core.humanize import duration, seconds_between
from queue_core.job import Attempt
from queue_core.text import safe

COMPARED_LINES = 400
"""Lines of a traceback that are compared, from its end: the comparison takes the square of it."""
_CONTEXT = 2


@dataclass(frozen=True, slots=True)
class Fact:
    """One property in both attempts."""

    name: str
    before: str
    after: str

    @property
    def same(self) -> bool:
        """Whether it is the same in both."""
        return self.before == self.after


@dataclass(frozen=True, slots=True)
class Difference:
    """Two attempts of a job, the earlier one first."""

    before: Attempt
    after: Attempt
    facts: tuple[Fact, ...]
    # lines of the tracebacks, each begins with a blank, - or +; none when they are the same
    trace: tuple[str, ...]


def pairs(attempts: Sequence[Attempt]) -> int:
    """Return how many neighbouring pairs there are."""
    return max(0, len(attempts) - 1)


def difference(attempts: Sequence[Attempt], back: int = 0) -> Difference | None:
    """Return how the last attempt differs from the one before, or a pair so many places `back`; None without one."""
    last = len(attempts) - 1 - back
    if last < 1:
        return None
    before, after = attempts[last - 1], attempts[last]
    facts = tuple(
        Fact(name, safe(one, 400), safe(other, 400))
        for name, one, other in (
            ("number", str(before.number), str(after.number)),
            ("kind", before.kind, after.kind),
            ("exception", before.exception, after.exception),
            ("message", before.message, after.message),
            ("signature", before.signature, after.signature),
            ("worker", before.worker or "", after.worker or ""),
            ("ended", _when(before.finished_at), _when(after.finished_at)),
            ("ran", _ran(before), _ran(after)),
        )
    )
    return Difference(before, after, facts, _trace(before.traceback, after.traceback))


def _when(at: datetime) -> str:
    return at.strftime("%Y-%m-%d %H:%M:%S")


def _ran(attempt: Attempt) -> str:
    return duration(seconds_between(attempt.started_at, attempt.finished_at))


def _trace(before: str, after: str) -> tuple[str, ...]:
    if before == after:
        return ()
    one, other = (safe(text, 200_000, newlines=True).splitlines()[-COMPARED_LINES:] for text in (before, after))
    lines = difflib.unified_diff(one, other, n=_CONTEXT, lineterm="")
    return tuple(line for line in list(lines)[2:] if not line.startswith("@@"))
