"""A job's past: its timeline with the error of each attempt, and how two attempts differ."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from jobconsole.core.history import Difference, FactChange, Happening, difference, pairs, timeline
from jobconsole.core.rows import LONGEST_LINE, LONGEST_NAME
from jobconsole.core.tracebacks import Section, StackFrame, parse, top_frame
from jobconsole.format import humanize
from jobconsole.format.glyphs import Glyphs
from jobconsole.format.humanize import plural
from jobconsole.format.spans import Line, RenderContext, Span, fit, width_of, wrap
from queue_core.model.job import Attempt, Job
from queue_core.model.operation import Operation
from queue_core.model.text import safe

STAMP_CELLS = 18
"""Cells of a time, with the blank behind it."""
_TONES = {"enqueued": "text", "due": "accent", "failed": "warn", "operator": "accent", "now": "strong"}


def timeline_lines(
    job: Job, attempts: Sequence[Attempt], operations: Sequence[Operation], context: RenderContext, width: int
) -> list[Line]:
    """Return the job's events, newest first, each attempt with its error and where it ran."""
    lines: list[Line] = []
    for happening in reversed(timeline(job, attempts, operations)):
        lines += _happening(happening, context, width)
    return lines


def _happening(happening: Happening, context: RenderContext, width: int) -> list[Line]:
    at = humanize.moment_of(happening.at, context.now)
    stamp = f"{at:<9}" if len(at) < 9 else f"{at:<{STAMP_CELLS}}"
    head: list[Span] = [(stamp, "muted"), (happening.text, _TONES[happening.kind])]
    attempt = happening.attempt
    if attempt is None:
        first, *rest = wrap(happening.text, max(8, width - len(stamp)))
        tone, indent = _TONES[happening.kind], " " * len(stamp)
        return [((stamp, "muted"), (first, tone)), *(((indent, "text"), (part, tone)) for part in rest)]
    ran = humanize.duration(humanize.seconds_between(attempt.started_at, attempt.finished_at))
    where = safe("  ".join(part for part in (attempt.worker, attempt.release) if part), 2 * LONGEST_NAME)
    head += [(f"  after {ran}" if ran else "", "muted"), (f"  {where}", "faint")]
    text = safe(f"{attempt.exception}: {attempt.message}", LONGEST_LINE)
    indent = " " * 9
    return [tuple(head), *(((indent, "text"), (part, "text")) for part in wrap(text, max(8, width - 9)))]


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


def _fact(fact: FactChange, width: int) -> list[Line]:
    label = f"{fact.name:<10}"
    if fact.same:
        return [((label, "muted"), (part, "faint")) for part in wrap(fact.before or "-", max(8, width - 10), 1)]
    lines: list[Line] = []
    for sign, text, tone in (("-", fact.before, "bad"), ("+", fact.after, "good")):
        for number, part in enumerate(wrap(text or "none", max(8, width - 12))):
            first = f"{label if sign == '-' else '':<10}{sign} " if number == 0 else " " * 12
            lines.append(((first, "muted" if sign == "-" else tone), (part, tone)))
    return lines


SHOWN_EXCEPTIONS = 6
"""Exceptions of a chain that are shown."""


def traceback_lines(text: str, width: int, glyphs: Glyphs, everything: bool) -> list[Line]:
    """Return the lines; `everything` shows all frames, outermost first, as Python does."""
    if not text.strip():
        return [(("no traceback was kept", "muted"),)]
    sections = parse(text)[-SHOWN_EXCEPTIONS:]
    lines: list[Line] = []
    # The exception that ended the attempt first, then what led to it.
    for number, section in enumerate(reversed(sections)):
        if number:
            lines += [(), (("caused by", "muted"), (f"  {section_link(sections, number)}", "faint"))]
        lines += _section(section, width, glyphs, everything)
    return lines


def peek_lines(text: str, error: str, width: int, height: int, glyphs: Glyphs) -> list[Line]:
    """Return the heart of a traceback in few lines: what was raised, and where in the application."""
    sections = parse(text) if text.strip() else ()
    raised = sections[-1].error if sections else ()
    words = raised[sections[-1].headline] if raised else error
    frame = top_frame(sections)
    below = min(2, max(0, height - 1)) if frame else 0
    parts, most = wrap(words, width), max(1, height - below)
    lines: list[Line] = [((part, "bad"),) for part in parts[:most]]
    if len(parts) > most:
        lines[-1] = fit(((f"{parts[most - 1]} {parts[most]}", "bad"),), width, ellipsis=glyphs.ellipsis)
    return lines + _frame(frame, width, glyphs)[:below] if frame else lines


def section_link(sections: tuple[Section, ...], number: int) -> str:
    """Return how the exception before came about: handled meanwhile, or named as the cause."""
    link = sections[len(sections) - number].link
    return "(its direct cause)" if "direct cause" in link else "(while it was handled)" if link else ""


def _section(section: Section, width: int, glyphs: Glyphs, everything: bool) -> list[Line]:
    lines: list[Line] = []
    for index, line in enumerate(section.error):
        tone = "bad" if index == section.headline else "text"
        lines += [((part, tone),) for part in wrap(line, width)]
    if not section.frames:
        return lines
    lines.append(())
    if everything:
        return lines + [line for frame in section.frames for line in _frame(frame, width, glyphs)]
    # Where no frame is the application's, the innermost one still shows where it failed.
    own = [frame for frame in section.frames if frame.application] or [section.frames[-1]]
    for frame in reversed(own):
        lines += _frame(frame, width, glyphs)
    hidden = len(section.frames) - len(own)
    if hidden:
        folded = f"{plural(hidden, 'library frame')} folded, t shows {'it' if hidden == 1 else 'them'}"
        lines.append(((f"{glyphs.fold} {folded}", "faint"),))
    return lines


def _frame(frame: StackFrame, width: int, glyphs: Glyphs) -> list[Line]:
    tone = "accent" if frame.application else "muted"
    head: list[Span] = [
        (frame.place, tone),
        ("  ", "text"),
        (frame.function, "strong" if frame.application else "muted"),
    ]
    lines: list[Line] = [fit(head, width, ellipsis=glyphs.ellipsis)]
    return lines + list(_source(frame, width, glyphs))


def _source(frame: StackFrame, width: int, glyphs: Glyphs) -> Iterable[Line]:
    for line in frame.source:
        marks = bool(line.strip()) and not line.strip(" ^~")
        tone = "warn" if marks else "text" if frame.application else "faint"
        spans = (("    ", "text"), (line, tone))
        yield spans if width_of(spans) <= width else fit(spans, width, ellipsis=glyphs.ellipsis)
