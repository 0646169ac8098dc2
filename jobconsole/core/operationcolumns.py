"""The columns of operations and of the jobs that one has changed."""

from __future__ import annotations

from jobconsole.core import humanize
from jobconsole.core.columns import Column, Moment, Spans, bar, number, state
from jobconsole.core.glyphs import Glyphs
from jobconsole.core.progress import OperationLine
from jobconsole.core.rows import JobLine
from queue_core.operations import OperationState
from queue_core.states import Status

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


def _progress(line: OperationLine, moment: Moment) -> Spans:
    return bar(line.percent, SMALL_BAR, moment.glyphs) if line.operation.total else ()


def _counted(value: int, line: OperationLine, tone: str, width: int = 6) -> Spans:
    return number(value, width, tone) if line.operation.total else ()


OPERATIONS: tuple[Column[OperationLine], ...] = (
    Column("#", 4, lambda line, moment: ((str(line.number), "strong"),), right=True),
    Column("WHEN", 4, _when, right=True),
    Column("WHO", 7, lambda line, moment: ((line.user, "text"),), need=1),
    Column("VERB", 7, lambda line, moment: ((line.verb, "strong"),)),
    Column("STATE", 11, lambda line, moment: state_spans(line.operation.state, moment)),
    Column("HOW FAR", SMALL_BAR, _progress, need=3),
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
