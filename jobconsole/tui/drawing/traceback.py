"""A traceback as one reads it: the error, the application's own frames with the innermost first, libraries folded."""

from __future__ import annotations

from collections.abc import Iterable

from jobconsole.core.columns import Span
from jobconsole.core.glyphs import Glyphs
from jobconsole.core.humanize import plural
from jobconsole.core.tracebacks import Frame, Section, parse, top_frame
from jobconsole.tui.drawing.spans import Line, fit, width_of, wrap

CHAIN = 6
"""Exceptions of a chain that are shown."""


def traceback_lines(text: str, width: int, glyphs: Glyphs, everything: bool) -> list[Line]:
    """Return the lines; `everything` shows all frames, outermost first, as Python does."""
    if not text.strip():
        return [(("no traceback was kept", "muted"),)]
    sections = parse(text)[-CHAIN:]
    lines: list[Line] = []
    # The exception that ended the attempt first, then what led to it.
    for number, section in enumerate(reversed(sections)):
        if number:
            lines += [(), (("led to by", "muted"), (f"  {section_link(sections, number)}", "faint"))]
        lines += _section(section, width, glyphs, everything)
    return lines


def peek_lines(text: str, error: str, width: int, height: int, glyphs: Glyphs) -> list[Line]:
    """Return the heart of a traceback in few lines: what was raised, and where in the application."""
    sections = parse(text) if text.strip() else ()
    raised = sections[-1].error if sections else ()
    words = raised[0] if raised else error
    frame = top_frame(sections)
    below = 2 if frame else 0
    lines: list[Line] = [((part, "bad"),) for part in wrap(words, width)[: max(1, height - below)]]
    return lines + _frame(frame, width, glyphs)[:below] if frame else lines


def section_link(sections: tuple[Section, ...], number: int) -> str:
    """Return how the exception before came about: handled meanwhile, or named as the cause."""
    link = sections[len(sections) - number].link
    return "(its direct cause)" if "direct cause" in link else "(while it was handled)" if link else ""


def _section(section: Section, width: int, glyphs: Glyphs, everything: bool) -> list[Line]:
    lines: list[Line] = []
    for index, line in enumerate(section.error):
        tone = "bad" if index == 0 else "text"
        lines += [((part, tone),) for part in wrap(line, width)]
    if not section.frames:
        return lines
    lines.append(())
    if everything:
        return lines + [line for frame in section.frames for line in _frame(frame, width, glyphs)]
    # Where nothing is the application's, the innermost frame still says what it was about.
    own = [frame for frame in section.frames if frame.application] or [section.frames[-1]]
    for frame in reversed(own):
        lines += _frame(frame, width, glyphs)
    hidden = len(section.frames) - len(own)
    if hidden:
        lines.append(((f"{glyphs.fold} {plural(hidden, 'frame')} of libraries folded, t shows them", "faint"),))
    return lines


def _frame(frame: Frame, width: int, glyphs: Glyphs) -> list[Line]:
    tone = "accent" if frame.application else "muted"
    head: list[Span] = [
        (frame.place, tone),
        ("  ", "text"),
        (frame.function, "strong" if frame.application else "muted"),
    ]
    lines: list[Line] = [fit(head, width, ellipsis=glyphs.ellipsis)]
    return lines + list(_source(frame, width, glyphs))


def _source(frame: Frame, width: int, glyphs: Glyphs) -> Iterable[Line]:
    for line in frame.source:
        marks = bool(line.strip()) and not line.strip(" ^~")
        tone = "warn" if marks else "text" if frame.application else "faint"
        spans = (("    ", "text"), (line, tone))
        yield spans if width_of(spans) <= width else fit(spans, width, ellipsis=glyphs.ellipsis)
