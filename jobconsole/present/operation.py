"""An operation, drawn: in one line for the first screen, and with all its options and results."""

from __future__ import annotations

from jobconsole.core.progress import OperationLine, canary_words
from jobconsole.core.rows import JobLine
from jobconsole.format import humanize
from jobconsole.format.glyphs import Glyphs
from jobconsole.format.spans import LABEL, Line, RenderContext, Span, Spans, fit, width_of, wrap
from jobconsole.format.words import IMMEDIATE, outcome_phrase, outcome_phrases, state_phrase, undoes, written_phrase
from jobconsole.present.columns import BAR, bar, number, state
from jobconsole.present.facts import but, of_operation, only
from jobconsole.present.layout import Column, fact_lines
from queue_core.client.operating.signatures import VERBS as SIGNATURE_VERBS
from queue_core.model.operation import Operation, OperationState, Outcomes
from queue_core.model.states import Status

STATE_TONES: dict[OperationState, str] = {
    "preparing": "muted",
    "running": "accent",
    "paused": "warn",
    "stopped": "bad",
    "done": "good",
    "cancelled": "muted",
    "failed": "bad",
}
SHORT = 6
"""Leading characters of a signature that are shown in a line."""
MOMENT = 0.001
"""Seconds from which on it is shown how long an operation took."""
SMALL_BAR = 7
"""Cells of a progress bar in a list."""


def glyph_of(word: OperationState, glyphs: Glyphs) -> str:
    """Return the character beside the word of a state."""
    return {
        "preparing": glyphs.ellipsis,
        "running": glyphs.states[Status.RUNNING],
        "paused": glyphs.pause,
        "stopped": glyphs.alert,
        "done": glyphs.ok,
        "cancelled": glyphs.states[Status.CANCELLED],
        "failed": glyphs.states[Status.DEAD],
    }[word]


def state_spans(operation: Operation, context: RenderContext) -> Spans:
    """Return glyph and words of an operation's state in its tone: ramp 2 of 3, waits r125, done."""
    word, phrase = operation.state, state_phrase(operation, context.now)
    glyph = context.glyphs.waits if phrase.startswith(("waits ", "at ")) else glyph_of(word, context.glyphs)
    return ((f"{glyph} {phrase}", STATE_TONES[word]),)


def _state_cell(line: OperationLine, context: RenderContext) -> Spans:
    if line.undone_by:
        return ((f"{context.glyphs.undone} undone by #{line.undone_by}", "warn"),)
    if line.rate and line.operation.state == "running" and not line.operation.in_canary:
        eta = f", {humanize.elapsed(line.seconds_left)}" if line.seconds_left is not None else ""
        return ((f"{glyph_of('running', context.glyphs)} {humanize.rate(line.rate)}{eta}", STATE_TONES["running"]),)
    return state_spans(line.operation, context)


def _shorter(line: OperationLine, spans: Spans, width: int, ellipsis: str) -> Spans:
    """Return the longest phrase of an outcome that fits: a number that is cut would be another one."""
    text, tone = spans[0]
    phrases = outcome_phrases(line.operation) if text == outcome_phrase(line.operation) else (text,)
    found = next((one for one in phrases if width_of(((one, tone),)) <= width), phrases[-1])
    return fit(((found, tone),), width, ellipsis=ellipsis)


def _outcome(line: OperationLine, context: RenderContext) -> Spans:
    one, outcomes = line.operation, line.operation.outcomes
    tone = "text" if outcomes is None or not outcomes.ended else "bad" if outcomes.dead else "good"
    return ((outcome_phrase(one) or _set(line), tone),)


def _set(line: OperationLine) -> str:
    """Return what was set of a signature, or undone: the words before its title."""
    if line.verb not in SIGNATURE_VERBS:
        return ""
    words = line.label.partition(": ")[0]
    return f"undone: {words}" if undoes(line.operation) else words


def _target(line: OperationLine, context: RenderContext) -> Spans:
    """Return a signature by its first digits, and what it is about."""
    signatures = line.operation.request.signatures
    name: Spans = ((f"{signatures[0][:SHORT]}  ", "text"),) if len(signatures) == 1 else ()
    label = line.label.partition(": ")[2] if line.verb in SIGNATURE_VERBS else line.label
    kind, _, thing = label.partition(" ")
    # Name first: where the column is narrow, "queue …" would not name the queue.
    named: Spans = (
        ((thing, "text"), (f"  {kind}", "muted")) if thing and (kind, line.verb) in IMMEDIATE else ((label, "text"),)
    )
    return (*name, *named, (_reason(line), "muted"))


def speed(line: OperationLine) -> Spans:
    """Return its rate in jobs a second."""
    return ((humanize.rate(line.rate), "good" if line.rate else "faint"),) if line.rate is not None else ()


def left(line: OperationLine) -> Spans:
    """Return how long it will take."""
    seconds = line.seconds_left
    return ((humanize.elapsed(seconds), "text"),) if seconds is not None else ()


def _when(line: OperationLine, context: RenderContext) -> Spans:
    return ((humanize.age(humanize.seconds_between(line.operation.created_at, context.now)), "muted"),)


def _progress_cell(line: OperationLine, context: RenderContext) -> Spans:
    return bar(line.percent, SMALL_BAR, context.glyphs) if line.operation.total else ()


def _counted(value: int, line: OperationLine, tone: str, width: int = 6) -> Spans:
    return number(value, width, tone) if line.operation.total else ()


OPERATIONS: tuple[Column[OperationLine], ...] = (
    Column("#", 4, lambda line, context: ((str(line.number), "strong"),), right=True),
    Column("WHEN", 4, _when, right=True, need=2, gap=1),
    Column("WHO", 6, lambda line, context: ((line.user, "text"),), need=4, gap=1),
    Column("VERB", 7, lambda line, context: ((line.verb, "strong"),), gap=1),
    Column("STATE", 15, _state_cell, gap=1),
    Column("PROGRESS", SMALL_BAR + 1, _progress_cell, need=5),
    Column("OUTCOME", 24, _outcome, need=3, cut=_shorter, gap=1, least=18),
    Column("SKIP", 5, lambda line, context: _counted(line.operation.skipped, line, "warn", 5), right=True, need=7),
    Column("ERR", 5, lambda line, context: _counted(line.operation.errored, line, "bad", 5), right=True, need=8),
    Column("TARGET", 7, _target, flex=True),
)


def _undone(line: OperationLine) -> Spans:
    return ((f"undone by #{line.undone_by}  ", "warn"),) if line.undone_by else ()


def _reason(line: OperationLine) -> str:
    return f"  {line.why}" if line.why else ""


MEMBERS: tuple[Column[JobLine], ...] = (
    Column("STATUS", 11, lambda job, context: state(job.status, context)),
    Column("AGE", 4, lambda job, context: ((humanize.age(_age(job, context)), "muted"),), right=True, need=1),
    Column("TYPE", 14, lambda job, context: ((job.type, "text"),), need=1),
    Column("ERROR", 12, lambda job, context: ((job.error, "muted"),), flex=True),
    Column("ID", 13, lambda job, context: ((f"{job.id[:8]}{context.glyphs.ellipsis}{job.id[-4:]}", "faint"),), need=3),
)


def _age(job: JobLine, context: RenderContext) -> float | None:
    return humanize.seconds_between(job.updated_at, context.now)


WHAT = {
    "preparing": "its jobs are being written; it begins when all are there",
    "paused": "P resumes, X ends it here",
    "stopped": "P resumes without the threshold, X ends it here",
}
NO_EXECUTOR = "no worker is alive: it continues once a worker or a console that may change things runs"
ROOMY = 50
"""Cells from which there is room for a signature's number and its title."""
LEAST_HEAD = 18
"""Cells of a line for number, verb and signature, for which details of its progress go."""
PLAIN, BRIEF = 1, 2
"""Left out of the details of its progress: the canary that is over; the bar and the time that is left, too."""
CAME = ("changed", "skipped", "errored", "canary", "outcomes", "note")
"""The labels of the results, above the options."""


def strip_line(line: OperationLine, context: RenderContext, width: int) -> Line:
    """Return number, verb, canary, progress, rate and what is left in one line."""
    one = line.operation
    by = (f"{context.glyphs.separator} {line.user} ", "muted")
    brief = _tail(line, context, BRIEF)
    tails = ((*_tail(line, context), by), (*_tail(line, context, PLAIN), by), (*brief, ("  ", "text"), by), brief)
    tail = next((one for one in tails if width - width_of(one) >= LEAST_HEAD), tails[-1])
    signature = one.request.signatures[0][:SHORT] if len(one.request.signatures) == 1 else ""
    room = width - width_of(tail)
    what = f"{signature}  {line.label}" if signature and room > ROOMY else signature or line.label
    head: Spans = ((f"#{line.number} ", "strong"), (f"{line.verb} ", "text"), (what, "muted"))
    if room <= SHORT:
        return fit((*head, *tail), width)
    return (*fit(head, room - 1, ellipsis=context.glyphs.ellipsis), (" ", "text"), *tail)


def _tail(line: OperationLine, context: RenderContext, left_out: int = 0) -> Spans:
    """Return how far it is, with this left out where there is little room."""
    one = line.operation
    counts = f" {humanize.exact(one.done)}/{humanize.exact(one.total)}  "
    spans: list[Span] = []
    if one.ended:
        return (*_outcome(line, context), ("  ", "text"))
    if one.state == "preparing":
        return (*state_spans(one, context), (f"  {written_phrase(one)}  ", "text"))
    if one.waits_for or state_phrase(one, context.now).startswith("at "):
        return (*state_spans(one, context), (" " + counts, "text"))
    if canary_words(line) and not (left_out and not one.in_canary):
        spans.append((f"{canary_words(line)}  ", "warn" if one.in_canary else "good"))
    if one.in_canary and one.state == "running":
        return tuple(spans)
    if line.waits:
        # It does not move: the numbers alone are enough.
        return (*spans, *state_spans(one, context), (" " + counts, "text"))
    if left_out == BRIEF:
        return (*spans, (f"{line.percent}%", "accent"), (counts, "text"), *speed(line))
    eta: Spans = (("  ETA ", "muted"), *left(line)) if left(line) else ()
    rest = (*speed(line), *eta)
    # A rate and a time end without the blank that counts have.
    gap: Spans = ((" ", "text"),) if rest else ()
    return (*spans, *bar(line.percent, BAR, context.glyphs), (counts, "text"), *rest, *gap)


def operation_lines(
    line: OperationLine, outcomes: Outcomes | None, alone: bool, context: RenderContext, width: int
) -> list[Line]:
    """Return all options, the progress and the results; `alone`: no worker carries it out."""
    one = line.operation
    took = ""
    if one.finished_at is not None:
        seconds = humanize.seconds_between(one.started_at or one.created_at, one.finished_at)
        # What is written at once, such as a note, begins and ends in the same moment.
        took = f"  after {humanize.duration(seconds)}" if seconds is not None and seconds >= MOMENT else ""
    name = (f"#{line.number} {line.verb}", "strong")
    lines: list[Line] = [(*state_spans(one, context), ("  ", "text"), *_undone(line), name, (took, "muted"))]
    lines += [((part, "text"),) for part in wrap(line.label, width)]
    text = NO_EXECUTOR if alone and one.state == "running" else WHAT.get(one.state, "")
    lines += [((part, "warn" if line.waits or alone else "muted"),) for part in wrap(text, width) if part]
    facts = of_operation(one, outcomes, line.canary)
    request = but(facts, "operation", "verb", "what", "state", "jobs", "done", *CAME)
    progress = _progress_lines(line, context, width)
    came = only(facts, *CAME)
    return [*lines, (), *progress, *fact_lines(came, context, width), *fact_lines(request, context, width)]


def _progress_lines(line: OperationLine, context: RenderContext, width: int) -> list[Line]:
    if not line.operation.total:
        return []
    eta: Spans = (("  ETA ", "muted"), *left(line)) if left(line) else ()
    one = line.operation
    if one.state == "preparing":
        return [((f"{'jobs':<{LABEL}}", "muted"), (written_phrase(one), "text"))]
    counts = f" {humanize.exact(one.done)} of {humanize.plural(one.total, 'job')}  "
    label, pace = (f"{'progress':<{LABEL}}", "muted"), (*speed(line), *eta)
    head: Line = (label, *bar(line.percent, BAR, context.glyphs), (counts, "text"))
    brief: Line = (label, (f"{line.percent}%", "accent"), (counts, "text"))
    whole = next((one for one in ((*head, *pace), (*brief, *pace)) if width_of(one) <= width), None)
    return [whole] if whole else [brief, ((" " * LABEL, "text"), *pace)]
