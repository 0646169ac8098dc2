"""An operation, drawn: in one line for the first screen, and with everything that was asked and came of it."""

from __future__ import annotations

from jobconsole.core.progress import OperationLine, canary_words, outcome_words
from jobconsole.core.rows import JobLine
from jobconsole.format import humanize
from jobconsole.format.glyphs import Glyphs
from jobconsole.format.spans import Line, Moment, Span, Spans, fit, wrap
from jobconsole.present.columns import BAR, Column, bar, number, state
from jobconsole.present.job import LABEL
from queue_core.model.operation import OperationState, Outcomes, Pace, Way
from queue_core.model.states import Status
from queue_core.model.text import safe

STATE_TONES: dict[OperationState, str] = {
    "preparing": "muted",
    "running": "accent",
    "paused": "warn",
    "stopped": "bad",
    "done": "good",
    "cancelled": "muted",
    "failed": "bad",
}
SMALL_BAR = 7
"""Cells of a progress bar in a list."""


def glyph_of(word: OperationState, glyphs: Glyphs) -> str:
    """Return the character that stands beside the word of a state."""
    return {
        "preparing": glyphs.ellipsis,
        "running": glyphs.states[Status.RUNNING],
        "paused": glyphs.pause,
        "stopped": glyphs.alert,
        "done": glyphs.ok,
        "cancelled": glyphs.states[Status.CANCELLED],
        "failed": glyphs.states[Status.DEAD],
    }[word]


def state_spans(word: OperationState, moment: Moment) -> Spans:
    """Return glyph and word of an operation's state in its tone."""
    return ((f"{glyph_of(word, moment.glyphs)} {word}", STATE_TONES[word]),)


def speed(line: OperationLine) -> Spans:
    """Return how fast it goes on."""
    return ((humanize.rate(line.rate), "good" if line.rate else "faint"),) if line.rate is not None else ()


def left(line: OperationLine) -> Spans:
    """Return how long it will take."""
    seconds = line.seconds_left
    return ((humanize.elapsed(seconds), "text"),) if seconds is not None else ()


def _when(line: OperationLine, moment: Moment) -> Spans:
    return ((humanize.age(humanize.seconds_between(line.operation.created_at, moment.now)), "muted"),)


def _progress_cell(line: OperationLine, moment: Moment) -> Spans:
    return bar(line.percent, SMALL_BAR, moment.glyphs) if line.operation.total else ()


def _counted(value: int, line: OperationLine, tone: str, width: int = 6) -> Spans:
    return number(value, width, tone) if line.operation.total else ()


OPERATIONS: tuple[Column[OperationLine], ...] = (
    Column("#", 4, lambda line, moment: ((str(line.number), "strong"),), right=True),
    Column("WHEN", 4, _when, right=True),
    Column("WHO", 7, lambda line, moment: ((line.user, "text"),), need=1),
    Column("VERB", 7, lambda line, moment: ((line.verb, "strong"),)),
    Column("STATE", 11, lambda line, moment: state_spans(line.operation.state, moment)),
    Column("HOW FAR", SMALL_BAR, _progress_cell, need=3),
    Column("DONE", 6, lambda line, moment: _counted(line.operation.processed, line, "text"), right=True),
    Column("SKIP", 5, lambda line, moment: _counted(line.operation.skipped, line, "warn", 5), right=True, need=5),
    Column("ERR", 5, lambda line, moment: _counted(line.operation.errored, line, "bad", 5), right=True, need=6),
    Column("RATE", 7, lambda line, moment: speed(line), right=True, need=4),
    Column("ETA", 5, lambda line, moment: left(line), right=True, need=7),
    Column("ON", 12, lambda line, moment: ((line.label, "text"), (_reason(line), "muted")), flex=True),
)


def _reason(line: OperationLine) -> str:
    return f"  {line.why}" if line.why else ""


MEMBERS: tuple[Column[JobLine], ...] = (
    Column("STATUS", 11, lambda job, moment: state(job.status, moment)),
    Column("AGE", 4, lambda job, moment: ((humanize.age(_age(job, moment)), "muted"),), right=True),
    Column("TYPE", 14, lambda job, moment: ((job.type, "text"),)),
    Column("ERROR", 12, lambda job, moment: ((job.error, "muted"),), flex=True),
    Column("ID", 13, lambda job, moment: ((f"{job.id[:8]}{moment.glyphs.ellipsis}{job.id[-4:]}", "faint"),), need=1),
)


def _age(job: JobLine, moment: Moment) -> float | None:
    return humanize.seconds_between(job.updated_at, moment.now)


WHAT = {
    "preparing": "its jobs are being written; it begins when all are there",
    "paused": "P lets it go on, X ends it where it stands",
    "stopped": "P lets it go on, without its threshold; X ends it where it stands",
}
NOBODY = "no worker is alive: it goes on while a worker or a console that may change runs"
ROOMY = 50
"""Cells from which there is room for a signature's number and its title."""
NAMED = 4
"""Signatures that are named."""
SHORT = 6
"""Characters of a signature that stand for it in a line."""


def strip_line(line: OperationLine, moment: Moment, width: int) -> Line:
    """Return number, verb, canary, progress, rate and what is left in one line."""
    one = line.operation
    tail = _tail(line, moment)
    signature = one.asked.signatures[0][:SHORT] if len(one.asked.signatures) == 1 else ""
    room = width - sum(len(text) for text, _ in tail)
    what = f"{signature}  {line.label}" if signature and room > ROOMY else signature or line.label
    head: Spans = ((f"#{line.number} ", "strong"), (f"{line.verb} ", "text"), (f"{what}  ", "muted"))
    if room <= SHORT:
        return fit((*head, *tail), width)
    return (*fit(head, room - 1, ellipsis=moment.glyphs.ellipsis), (" ", "text"), *tail)


def _tail(line: OperationLine, moment: Moment) -> Spans:
    one = line.operation
    counts = f" {humanize.exact(one.done)}/{humanize.exact(one.total)}  "
    spans: list[Span] = []
    if canary_words(line):
        spans.append((f"{canary_words(line)}  ", "warn" if one.in_canary else "good"))
    if one.in_canary and one.state == "running":
        return tuple(spans)
    if line.waits or one.state == "preparing":
        # It does not move: the numbers alone are enough.
        return (*spans, *state_spans(one.state, moment), (" " + counts, "text"))
    eta: Spans = (("  ETA ", "muted"), *left(line)) if left(line) else ()
    return (*spans, *bar(line.percent, BAR, moment.glyphs), (counts, "text"), *speed(line), *eta)


def operation_lines(
    line: OperationLine, outcomes: Outcomes | None, alone: bool, moment: Moment, width: int
) -> list[Line]:
    """Return everything that was asked, how far it is and what came of it; `alone`: no worker carries it out."""
    one = line.operation
    head: Line = (*state_spans(one.state, moment), ("  ", "text"), (f"#{line.number} {line.verb}", "strong"))
    lines: list[Line] = [head, *(((part, "text"),) for part in wrap(line.label, width))]
    said = NOBODY if alone and one.state == "running" else WHAT.get(one.state, "")
    lines += [((part, "warn" if line.waits or alone else "muted"),) for part in wrap(said, width) if part]
    lines += [(), *_progress_lines(line, moment, width), *_came(line, outcomes, width)]
    lines += _labelled("note", line.note, width, "warn") if line.note else []
    lines += _labelled("asked", f"{humanize.moment_of(one.created_at, moment.now)} by {_who(line)}", width)
    for label, text, tone in (
        ("why", line.why, "accent"),
        ("pace", pace_words(one.asked.pace), "text"),
        ("way", way_words(one.asked.way), "text"),
        ("signature", _signatures(one.asked.signatures), "muted"),
    ):
        lines += _labelled(label, text, width, tone) if text else []
    return [*lines, *_times(line, moment, width)]


def _signatures(signatures: tuple[str, ...]) -> str:
    more = f" and {len(signatures) - NAMED} more" if len(signatures) > NAMED else ""
    return ", ".join(signatures[:NAMED]) + more


def _who(line: OperationLine) -> str:
    return f"{line.user} on {line.host}" if line.host else line.user


def _progress_lines(line: OperationLine, moment: Moment, width: int) -> list[Line]:
    one = line.operation
    if not one.total:
        return []
    counts = f" {humanize.exact(one.done)} of {humanize.plural(one.total, 'job')}  "
    eta: Spans = (("  ETA ", "muted"), *left(line)) if left(line) else ()
    first: Line = (_label("progress"), *bar(line.percent, BAR, moment.glyphs), (counts, "text"), *speed(line), *eta)
    parts = f"{one.processed:,} changed, {one.skipped:,} skipped, {one.errored:,} errored"
    return [first, *_labelled("", parts, width, "bad" if one.errored else "muted")]


def _came(line: OperationLine, outcomes: Outcomes | None, width: int) -> list[Line]:
    canary = canary_words(line).removeprefix("canary ")
    lines = _labelled("canary", canary, width, "warn" if line.operation.in_canary else "good") if canary else []
    if outcomes is None or not outcomes.looked or line.canary is not None:
        return lines
    some = f" (the last {outcomes.looked:,})" if outcomes.looked < line.operation.processed else ""
    return [*lines, *_labelled("outcome", outcome_words(outcomes) + some, width, "bad" if outcomes.dead else "text")]


def _times(line: OperationLine, moment: Moment, width: int) -> list[Line]:
    one = line.operation
    if one.finished_at is None:
        return []
    took = humanize.duration(humanize.seconds_between(one.started_at or one.created_at, one.finished_at))
    return _labelled("ended", f"{humanize.moment_of(one.finished_at, moment.now)} after {took}", width, "muted")


def pace_words(pace: Pace) -> str:
    """Return how carefully it goes on; "" for at once."""
    canary = f"canary of {pace.canary:,}" if pace.canary else ""
    rate = f"{humanize.rate(pace.rate)}" if pace.rate else "at once" if canary else ""
    stop = f"stops when more than {pace.stop_percent:g}% died again" if pace.stop_percent is not None else ""
    return ", then ".join(part for part in (canary, ", ".join(part for part in (rate, stop) if part)) if part)


def way_words(way: Way) -> str:
    """Return how its jobs go on; "" as they were."""
    words = (
        f"after {humanize.duration(way.delay)}" if way.delay else "",
        f"spread over {humanize.duration(way.spread)}" if way.spread else "",
        f"to queue {safe(way.queue, 120)}" if way.queue is not None else "",
        f"with priority {way.priority}" if way.priority is not None else "",
    )
    return ", ".join(word for word in words if word)


def _label(label: str) -> Span:
    return (f"{label:<{LABEL}} ", "muted")


def _labelled(label: str, text: str, width: int, tone: str = "text") -> list[Line]:
    parts = wrap(text, max(8, width - LABEL - 1))
    return [(_label("" if number else label), (part, tone)) for number, part in enumerate(parts)]
