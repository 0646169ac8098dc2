"""A job's past: its timeline with what each attempt said, and how two attempts differ."""

from __future__ import annotations

from collections.abc import Sequence

from jobconsole.core import humanize
from jobconsole.core.columns import Moment, Span
from jobconsole.core.differences import Difference, Fact, difference, pairs
from jobconsole.core.rows import LINE, NAME
from jobconsole.core.timeline import Happening, timeline
from jobconsole.tui.drawing.spans import Line, wrap
from queue_core.job import Attempt, Job
from queue_core.operations import Operation
from queue_core.text import safe

STAMP = 18
"""Cells of a time, with the blank behind it."""
_TONES = {"enqueued": "text", "due": "accent", "failed": "warn", "operator": "accent", "now": "strong"}


def timeline_lines(
    job: Job, attempts: Sequence[Attempt], operations: Sequence[Operation], moment: Moment, width: int
) -> list[Line]:
    """Return what happened, the newest first, each attempt with what it says and where it ran."""
    lines: list[Line] = []
    for happening in reversed(timeline(job, attempts, operations)):
        lines += _happening(happening, moment, width)
    return lines


def _happening(happening: Happening, moment: Moment, width: int) -> list[Line]:
    at = humanize.moment_of(happening.at, moment.now)
    stamp = f"{at:<9}" if len(at) < 9 else f"{at:<{STAMP}}"
    head: list[Span] = [(stamp, "muted"), (happening.text, _TONES[happening.kind])]
    attempt = happening.attempt
    if attempt is None:
        first, *rest = wrap(happening.text, max(8, width - len(stamp)))
        tone, indent = _TONES[happening.kind], " " * len(stamp)
        return [((stamp, "muted"), (first, tone)), *(((indent, "text"), (part, tone)) for part in rest)]
    ran = humanize.duration(humanize.seconds_between(attempt.started_at, attempt.finished_at))
    head += [(f"  after {ran}" if ran else "", "muted"), (f"  {safe(attempt.worker or '', NAME)}", "faint")]
    said = safe(f"{attempt.exception}: {attempt.message}", LINE)
    indent = " " * 9
    return [tuple(head), *(((indent, "text"), (part, "text")) for part in wrap(said, max(8, width - 9)))]


def diff_lines(attempts: Sequence[Attempt], back: int, width: int) -> list[Line]:
    """Return how two neighbouring attempts differ: what is the same once, what differs below each other."""
    found = difference(attempts, back)
    if found is None:
        return [(("there are no two failed attempts to compare", "muted"),)]
    lines = [_title(found, back, pairs(attempts)), ()]
    for fact in found.facts:
        lines += _fact(fact, width)
    lines.append(())
    if not found.trace:
        return [*lines, (("the tracebacks are the same", "muted"),)]
    lines.append((("traceback", "muted"),))
    tones = {"-": "bad", "+": "good"}
    for line in found.trace:
        tone = tones.get(line[:1], "faint")
        lines += [((part, tone),) for part in wrap(line, width)]
    return lines


def _title(found: Difference, back: int, total: int) -> Line:
    where = f"  pair {total - back} of {total}, n and N show others" if total > 1 else ""
    words = f"attempt {found.before.number} and attempt {found.after.number}"
    return ((words, "strong"), (where, "muted"))


def _fact(fact: Fact, width: int) -> list[Line]:
    label = f"{fact.name:<10}"
    if fact.same:
        return [((label, "muted"), (part, "faint")) for part in wrap(fact.before or "-", max(8, width - 10))[:1]]
    lines: list[Line] = []
    for sign, text, tone in (("-", fact.before, "bad"), ("+", fact.after, "good")):
        for number, part in enumerate(wrap(text or "none", max(8, width - 12))):
            first = f"{label if sign == '-' else '':<10}{sign} " if number == 0 else " " * 12
            lines.append(((first, "muted" if sign == "-" else tone), (part, tone)))
    return lines
