"""The lines around the editor: what the new job will be, what is wrong with it, how it differs from the old one."""

from __future__ import annotations

from collections.abc import Sequence

from jobconsole.core.editing import UNCHANGED, Draft, Known, Problem
from jobconsole.core.glyphs import Glyphs
from jobconsole.core.humanize import plural
from jobconsole.tui.drawing.spans import Line, wrap
from queue_core.job import Job
from queue_core.text import safe

NAME = 60
"""Characters of a name."""
TAGS = 80
LINES = 3
"""On the screen, of one line that differs."""
# What is so before the first key is no mistake.
_MARKS = {UNCHANGED: ("muted", " ")}
_TONES = {"+": "good", "-": "bad", " ": "muted"}


def head_lines(job: Job, draft: Draft, sample: str) -> list[Line]:
    """Return which job is edited and what the new one takes over; `sample`: the group that it is a sample of."""
    kept = [
        f"queue {safe(draft.queue, NAME)}",
        f"priority {draft.priority}",
        plural(draft.max_retries, "retry", "retries"),
    ]
    if draft.tags:
        kept.append(f"tags {safe(' '.join(draft.tags), TAGS)}")
    if job.ordering_key is not None:
        kept.append(f"ordering key {safe(job.ordering_key, NAME)}")
    lines: list[Line] = [
        (("Edit and retry ", "accent"), (safe(job.type, NAME), "strong"), (f" {job.id}", "muted")),
        ((f"a new job beside the {job.status} one: {', '.join(kept)}", "text"),),
    ]
    if sample:
        lines.append((("this job alone, out of ", "warn"), (sample, "text")))
    return lines


def problem_lines(problems: Sequence[Problem], known: Known, glyphs: Glyphs, width: int, height: int) -> list[Line]:
    """Return what is wrong, in at most so many lines; that nothing is, where nothing is."""
    if not problems:
        fits = "it fits what workers announced of this type" if known.schema is not None else "it is a JSON object"
        return [((f"{glyphs.ok} ", "good"), (fits, "muted"))]
    lines: list[Line] = []
    for problem in problems:
        tone, mark = _MARKS.get(problem.text) or (
            ("bad", glyphs.alert) if problem.severity == "error" else ("warn", "!")
        )
        for number, part in enumerate(wrap(problem.sentence, width - 2)[:2]):
            lines.append(((f"{' ' if number else mark} ", tone), (part, tone)))
    if len(lines) > height:
        return [*lines[: height - 1], (("  ... and more", "muted"),)]
    return lines


def difference_lines(lines: Sequence[str], width: int) -> list[Line]:
    """Return the difference; of long lines the beginning."""
    if not lines:
        return [(("nothing is changed yet", "muted"),)]
    shown: list[Line] = []
    for line in lines:
        sign, text = line[0], line[2:].lstrip(" ")
        indent = " " * (len(line) - 2 - len(text))
        for number, part in enumerate(wrap(text, max(8, width - 2 - len(indent)))[:LINES]):
            shown.append(((f"{' ' if number else sign} {indent}{part}", _TONES[sign]),))
    return shown
