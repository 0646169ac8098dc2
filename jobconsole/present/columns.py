"""The columns of every table: titles, fixed widths, and the contents of their cells."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

from jobconsole.core.events import EventLine
from jobconsole.core.latency import Quantile, TypeLine
from jobconsole.core.rows import JobLine, QueueLine, attempts_of, ended_at
from jobconsole.core.running import FREE, RunningJob
from jobconsole.format import humanize
from jobconsole.format.cuts import cut_apart
from jobconsole.format.glyphs import Glyphs, spark
from jobconsole.format.spans import STATE_TONES, RenderContext, Spans
from jobconsole.present.layout import Column
from jobconsole.present.signature import owner_spans, since_mark, since_spans, state_spans, title_spans, type_spans
from queue_core.model.filters import host_of
from queue_core.model.report import SignatureInfo, WorkerInfo
from queue_core.model.states import Status
from queue_core.model.triage.signatures import SignatureState

NO_STATES: Mapping[str, SignatureState] = {}


TREND = 6
"""Slices of a trend."""
BAR = 12
"""Cells of a progress bar."""
DEPTH = 12
"""Cells of the bar of a queue's depth: room for 100,000 jobs."""
DECADE = 2.4
"""Cells for each factor of ten."""
HOUR = 8
"""Cells of the depth over the last hour."""
OUTCOMES = {
    "completed": (Status.COMPLETED, "completed"),
    "retrying": (Status.RETRYING, "retrying"),
    "dead": (Status.DEAD, "dead"),
    "cancelled": (Status.CANCELLED, "cancelled"),
    "released": (Status.QUEUED, "given back"),
    "gone": (Status.QUEUED, "gone"),
}


EVENT_STATES = {
    "created": Status.QUEUED,
    "claimed": Status.RUNNING,
    "progress": Status.RUNNING,
    "failed": Status.RETRYING,
    "retried": Status.QUEUED,
    **{name: status for name, (status, _) in OUTCOMES.items()},
}


def state(status: Status, context: RenderContext) -> Spans:
    """Return glyph and word of a state in its tone."""
    return ((f"{context.glyphs.states[status]} {status}", STATE_TONES[status]),)


def bar(percent: int, width: int, glyphs: Glyphs) -> Spans:
    """Return a progress bar: full and empty part differ in character and tone."""
    halves = round(percent / 100 * width * 2)
    full, half = divmod(min(halves, width * 2), 2)
    empty = width - full - half
    return ((glyphs.bar_full * full + glyphs.bar_half * half, "accent"), (glyphs.bar_empty * empty, "faint"))


def number(value: int, width: int = 6, tone: str = "text") -> Spans:
    """Return a count; zero is faint, so that the others are prominent."""
    return ((humanize.count(value, width), tone if value else "faint"),)


def _age(moment_of_row: datetime | None, context: RenderContext, tone: str = "muted") -> Spans:
    return ((humanize.age(humanize.seconds_between(moment_of_row, context.now)), tone),)


def _grown(info: SignatureInfo, context: RenderContext) -> Spans:
    return ((f"+{humanize.short(info.grown)}", "warn"),) if info.grown else (("0", "faint"),)


def trend_of(info: SignatureInfo, glyphs: Glyphs) -> Spans:
    """Return the deaths of a group over the window as bars, without the highest, which would touch the line above."""
    return ((spark(info.trend, TREND, glyphs.levels[:-1]), "accent"),)


def state_column(states: Mapping[str, SignatureState]) -> Column[SignatureInfo]:
    """Return the column of states: REGRESSED, muted 59m, res. r125."""
    return Column("STATE", 9, lambda info, context: state_spans(states.get(info.signature), context, short=True))


def signature_columns(
    window: str,
    usual: str = "",
    same: Mapping[str, int] | None = None,
    trend: bool = False,
    states: Mapping[str, SignatureState] = NO_STATES,
    narrow: bool = False,
    wide: bool = False,
    whole: bool = False,
) -> tuple[Column[SignatureInfo], ...]:
    """Return the columns of error signatures; `window`: the time over which growth is counted, such as 15m.

    `usual`: the type that nearly all are of; only others are shown, before the title. `same`: characters that a title
    shares with another. `trend`: deaths are drawn. `states`: owners and releases have columns. `narrow`: types are cut.
    `wide`: states have a column, else they are before the title; the columns are closer together then, for the titles'
    sake. `whole`: owners are not cut to two letters.
    """

    def cut(info: SignatureInfo, spans: Spans, width: int, ellipsis: str) -> Spans:
        before = sum(len(text) for text, _ in spans) - len(info.title)
        return cut_apart(spans, width, before + (same or {}).get(info.title, 0), ellipsis)

    def title(info: SignatureInfo, context: RenderContext) -> Spans:
        return (*(() if stated else state_spans(states.get(info.signature), context)), *title_spans(info, usual))

    bars: Column[SignatureInfo] = Column("TREND", TREND, lambda info, at: trend_of(info, at.glyphs), need=4)
    known: list[Column[SignatureInfo]] = []
    stated = wide and any(one.word != "known" for one in states.values())
    if any(one.owner for one in states.values()):
        name, cells = ("OWNER", 8) if whole else ("BY", 2)
        known.append(Column(name, cells, lambda info, _: owner_spans(states.get(info.signature), whole), need=2))
    if any(since_mark(state) != "-" for state in states.values()):
        known.append(Column("SINCE", 6, lambda info, context: since_spans(states.get(info.signature)), need=1))
    if not usual:
        known.append(Column("TYPE", 11 if narrow or stated else 13, lambda info, context: type_spans(info), need=3))
    columns = (
        *([state_column(states)] if stated else []),
        Column("COUNT", 6, lambda info, context: number(info.count, tone="strong"), right=True),
        Column(window, 6, _grown, right=True),
        *([bars] if trend else []),
        Column("LAST", 4, lambda info, context: _age(info.last_seen, context), right=True, need=2),
        *known,
        Column("ERROR SIGNATURE", 28 if narrow else 20 if stated else 30, title, flex=True, cut=cut),
    )
    return tuple(replace(column, gap=1) for column in columns) if stated else columns


def _tries(job: JobLine, context: RenderContext) -> Spans:
    started, most = attempts_of(job)
    return ((f"{started}/{most}", "muted" if started > 1 else "faint"),)


def _why(job: JobLine, context: RenderContext) -> Spans:
    if job.status is Status.RUNNING:
        if not job.progress:
            return ((job.message or "running", "text" if job.message else "muted"),)
        return (*bar(job.progress, 8, context.glyphs), (f" {job.progress:>3}% ", "muted"), (job.message, "text"))
    return _error(job, context)


def _error(job: JobLine, context: RenderContext) -> Spans:
    prefix: Spans = ((f"{job.kind} ", "warn"),) if job.kind in {"timeout", "crashed", "poison", "lost"} else ()
    name, colon, rest = job.error.partition(": ")
    return (*prefix, (name, "text"), (colon + rest, "muted"))


def _queue(job: JobLine, context: RenderContext) -> Spans:
    return ((job.queue, "muted"),)


def _id(job: JobLine, context: RenderContext) -> Spans:
    # Ids begin with the time: those of one batch differ only at their end.
    return ((f"{job.id[:8]}{context.glyphs.ellipsis}{job.id[-4:]}", "faint"),)


DEAD_JOBS: tuple[Column[JobLine], ...] = (
    Column("DIED", 4, lambda job, context: _age(ended_at(job), context), right=True),
    Column("TYPE", 16, lambda job, context: ((job.type, "text"),), need=1),
    Column("TRY", 5, _tries, right=True, need=4),
    Column("QUEUE", 10, _queue, need=3),
    Column("ERROR", 20, _error, flex=True),
    Column("ID", 13, _id, need=5),
)


ROOMY = 180
"""Columns of the screen from which the release and the host of dead jobs are shown, in place of their queue."""


def _release(job: JobLine, context: RenderContext) -> Spans:
    return ((job.release, "text"),) if job.release else (("?", "faint"),)


def _host(job: JobLine, context: RenderContext) -> Spans:
    return ((host_of(job.worker), "muted"),) if job.worker else (("?", "faint"),)


_RAN_ON = (Column("RELEASE", 7, _release, need=2), Column("HOST", 8, _host, need=3))
_WIDE = tuple(one for column in DEAD_JOBS for one in (_RAN_ON if column.title == "QUEUE" else (column,)))


FIELD = 12
"""Cells of a field of payloads."""


def dead_columns(screen: int, fields: Sequence[str] = ()) -> tuple[Column[JobLine], ...]:
    """Return the columns of a signature's jobs on a screen of so many columns, with fields of payloads."""
    if screen < ROOMY:
        return DEAD_JOBS
    if not fields:
        return _WIDE
    last = len(fields) - 1
    shown = tuple(
        Column(name, FIELD, partial(_field, place), flex=place == last, need=2) for place, name in enumerate(fields)
    )
    # The error is that of the signature, and goes first; where there is room for it, it has what the others leave.
    columns = (replace(one, need=_NEEDS.get(one.title, one.need)) for one in _WIDE)
    return tuple(one for column in columns for one in ((*shown, column) if column.title == "ERROR" else (column,)))


_NEEDS = {"RELEASE": 3, "HOST": 4, "ID": 5, "TYPE": 6, "TRY": 7, "ERROR": 8}


def _field(place: int, job: JobLine, context: RenderContext) -> Spans:
    if job.fields is None or place >= len(job.fields):
        return (("?", "faint"),)
    value = job.fields[place]
    return ((value, "text"),) if value else (("absent", "faint"),)


JOBS: tuple[Column[JobLine], ...] = (
    Column("STATUS", 11, lambda job, context: state(job.status, context)),
    Column("AGE", 4, lambda job, context: _age(job.updated_at, context), right=True),
    Column("TYPE", 16, lambda job, context: ((job.type, "text"),), need=1),
    Column("QUEUE", 10, _queue, need=2),
    Column("PRI", 4, lambda job, context: ((str(job.priority), "muted"),), right=True, need=4),
    Column("TRY", 5, _tries, right=True, need=3),
    Column("ERROR OR PROGRESS", 18, _why, flex=True),
    Column("ID", 13, _id, need=5),
)


def _progress(job: RunningJob, context: RenderContext) -> Spans:
    if job.outcome == FREE:
        return ()
    if job.outcome:
        status, word = OUTCOMES[job.outcome]
        return ((f"{context.glyphs.states[status]} {word}", STATE_TONES[status]),)
    if not job.progress:
        return ()
    return (*bar(job.progress, BAR, context.glyphs), (f" {job.progress:>3}%", "text"))


def _ran(job: RunningJob, context: RenderContext) -> Spans:
    started = datetime.fromtimestamp(job.started, UTC)
    seconds = humanize.seconds_between(started, context.now) or 0.0
    return (("", "text"),) if job.outcome else ((humanize.elapsed(seconds), "muted"),)


def _tone(job: RunningJob, tone: str) -> str:
    return "faint" if job.outcome else tone


RUNNING_JOBS: tuple[Column[RunningJob], ...] = (
    Column("TYPE", 16, lambda job, context: ((job.type, _tone(job, "strong")),)),
    Column("PROGRESS", BAR + 5, _progress),
    Column("TIME", 5, _ran, right=True, need=1),
    Column("QUEUE", 10, lambda job, context: ((job.queue, _tone(job, "muted")),), need=2),
    Column("MESSAGE", 16, lambda job, context: ((job.message, _tone(job, "text")),), flex=True),
    Column("WORKER", 16, lambda job, context: ((job.worker, _tone(job, "faint")),), need=3),
)


def _queue_name(queue: QueueLine, context: RenderContext) -> Spans:
    if queue.state != "open":
        return ((f"{context.glyphs.pause} {queue.label}", "warn"), (f" {queue.state}", "warn"))
    return ((queue.label, "strong"),)


def _oldest(queue: QueueLine, context: RenderContext) -> Spans:
    seconds = humanize.seconds_between(queue.oldest, context.now)
    late = seconds is not None and seconds >= LATE
    return ((humanize.age(seconds) + (context.glyphs.alert if late else ""), "warn" if late else "muted"),)


LATE = 300.0
"""Seconds that the oldest ready job may wait before its age is shown as an alert."""


def _depth(queue: QueueLine, context: RenderContext) -> Spans:
    """A bar as long as the depth's logarithm, each band with a shade of its own."""
    length = min(DEPTH, math.ceil(DECADE * math.log10(queue.queued + 1)))
    high = round(length * queue.high / max(1, queue.queued))
    normal = round(length * (queue.high + queue.normal) / max(1, queue.queued)) - high
    full, half, light = context.glyphs.shades
    return ((full * high, "accent"), (half * normal, "accent"), (light * (length - high - normal), "accent"))


def _rate(queue: QueueLine, context: RenderContext) -> Spans:
    return ((humanize.rate(queue.rate), "good" if queue.rate else "faint"),)


def _hour(queue: QueueLine, context: RenderContext) -> Spans:
    return ((spark(queue.history, HOUR, context.glyphs.levels[:-1]), "chart"),)


_NAME: Column[QueueLine] = Column("QUEUE", 9, _queue_name, flex=True)
_BANDS: tuple[Column[QueueLine], ...] = (
    Column("HIGH", 5, lambda queue, context: number(queue.high, 5), right=True),
    Column("NORM", 5, lambda queue, context: number(queue.normal, 5), right=True),
    Column("LOW", 5, lambda queue, context: number(queue.low, 5), right=True),
)
QUEUES_SMALL: tuple[Column[QueueLine], ...] = (_NAME, *_BANDS)
QUEUES: tuple[Column[QueueLine], ...] = (
    Column("QUEUE", 14, _queue_name, flex=True),
    *_BANDS,
    Column("DEPTH", DEPTH, _depth, need=6),
    Column("SCHED", 5, lambda queue, context: number(queue.scheduled, 5), right=True, need=5),
    Column("RETRY", 5, lambda queue, context: number(queue.retrying, 5, "warn"), right=True, need=4),
    Column("RUN", 5, lambda queue, context: number(queue.running, 5, "accent"), right=True, need=2),
    Column("DEAD", 6, lambda queue, context: number(queue.dead, 6, "bad"), right=True),
    Column("OLDEST", 6, _oldest, right=True, need=3),
    Column("DONE", 7, _rate, right=True, need=8),
    Column("1H", HOUR, _hour, need=7),
)


def _happened(line: EventLine, context: RenderContext) -> Spans:
    status = EVENT_STATES.get(line.event)
    glyph = context.glyphs.states[status] if status else " "
    return ((f"{glyph} {line.event}", STATE_TONES[status] if status else "muted"),)


def _event_time(line: EventLine, context: RenderContext) -> Spans:
    return ((datetime.fromtimestamp(line.at, UTC).strftime("%H:%M:%S.%f")[:-3], "muted"),)


def _event_id(line: EventLine, context: RenderContext) -> Spans:
    short = f"{line.id[:8]}{context.glyphs.ellipsis}{line.id[-4:]}" if len(line.id) > 13 else line.id
    return ((short, "faint"),)


EVENTS: tuple[Column[EventLine], ...] = (
    Column("TIME", 12, _event_time, need=1),
    Column("EVENT", 11, _happened),
    Column("TYPE", 16, lambda line, context: ((line.type, "text"),)),
    Column("QUEUE", 10, lambda line, context: ((line.queue, "muted"),), need=2),
    Column("DETAILS", 12, lambda line, context: ((line.details, "text"),), flex=True),
    Column("ID", 13, _event_id, need=3),
)


def _took(time: Quantile | None, context: RenderContext) -> Spans:
    return (("-" if time is None else f"{time.bound}{humanize.duration(time.seconds)}", "text"),)


def _ratio(line: TypeLine, context: RenderContext) -> Spans:
    tone = "faint" if not line.failed else "bad" if line.ratio >= 0.2 else "warn"
    return ((f"{line.ratio * 100:.1f}%", tone),)


TYPES: tuple[Column[TypeLine], ...] = (
    Column("TYPE", 14, lambda line, context: ((line.type, "strong"),), flex=True),
    Column("ENDED", 6, lambda line, context: number(line.ended), right=True, need=3),
    Column("FAIL", 6, _ratio, right=True),
    Column("P50", 6, lambda line, context: _took(line.p50, context), right=True, need=1),
    Column("P95", 6, lambda line, context: _took(line.p95, context), right=True),
    Column("P99", 6, lambda line, context: _took(line.p99, context), right=True, need=2),
)


def _worker_state(worker: WorkerInfo, context: RenderContext) -> Spans:
    word, glyphs = worker.state, context.glyphs
    if worker.stuck and word in {"busy", "idle"}:
        return ((f"{worker.stuck} stuck", "warn"),)
    glyph, tone = {
        "lost": (glyphs.states[Status.DEAD], "bad"),
        "quiet": (glyphs.pause, "warn"),
        "busy": (glyphs.dot, "accent"),
        "idle": (glyphs.dot, "muted"),
    }[word]
    return ((f"{glyph} {word}", tone),)


WORKERS: tuple[Column[WorkerInfo], ...] = (
    Column("STATE", 7, _worker_state),
    Column("HOST", 12, lambda worker, context: ((f"{worker.host}:{worker.pid}", "strong"),), flex=True),
    Column("BUSY", 9, lambda worker, context: ((f"{worker.busy}/{worker.concurrency}", "text"),), right=True),
    Column("BEAT", 4, lambda worker, context: ((humanize.age(worker.heartbeat_age), "muted"),), right=True),
    Column("UP", 4, lambda worker, context: _age(worker.started_at, context), right=True, need=2),
    Column("RELEASE", 8, lambda worker, context: ((worker.release or "?", "text"),), need=2),
    Column("QUEUES", 16, lambda worker, context: ((", ".join(worker.queues), "muted"),), need=3),
    Column("VERSION", 8, lambda worker, context: ((worker.version, "faint"),), need=4),
)
