"""How the queue's own records are drawn: jobs, pages, counts, health, handles, operations.

queue_core's records have no drawing code. `register` teaches an IPython shell, by the names of their modules, so that
nothing is loaded before one of them is shown; `as_html` and `as_text` are for other notebooks.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

from jobconsole.core.rows import JobLine, job_line, queue_line
from jobconsole.format.glyphs import UNICODE
from jobconsole.format.spans import STATE_TONES
from jobconsole.notebook.draw import (
    Block,
    Drawing,
    FactsBlock,
    LinesBlock,
    TableBlock,
    TextBlock,
    as_of,
    html_of,
    note,
    readable_blocks,
    text_of,
)
from jobconsole.present.columns import JOBS, QUEUES
from jobconsole.present.facts import Fact, but, of_health, of_job, of_operation, of_stats
from jobconsole.present.layout import Column
from queue_core.client.health import Health, Stats
from queue_core.client.results import JobHandle
from queue_core.errors import InvalidArgument
from queue_core.model.job import Job
from queue_core.model.operation import Operation
from queue_core.model.report import Page
from queue_core.model.text import safe

# The console shortens ids to fit; here they are copied into the next call.
JOB_COLUMNS: tuple[Column[JobLine], ...] = (
    *(column for column in JOBS if column.title != "ID"),
    Column("ID", 36, lambda job, context: ((job.id, "muted"),)),
)


def job_blocks(job: Job) -> Iterator[Block]:
    """Yield everything about a job but its attempts and its log."""
    words = f"{UNICODE.states[job.status]} {job.status}{'  in the trash' if job.trashed_at else ''}"
    yield LinesBlock([((words, STATE_TONES[job.status]), ("  ", "text"), (safe(job.type, 120), "strong"))])
    yield FactsBlock(but(of_job(job), "type", "status"))
    yield TextBlock("payload", _json(job.payload) if job.payload is not None else job.payload_text)
    if job.result is not None:
        yield TextBlock("result", _json(job.result), unfolded=True)
    if job.traceback:
        yield TextBlock("traceback", job.traceback)


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)


def jobs_table(jobs: Iterable[Job], title: str = "", empty: str = "no jobs") -> TableBlock:
    """Return jobs as a table."""
    return TableBlock(title, JOB_COLUMNS, [job_line(job) for job in jobs], empty)


def page_blocks(page: Page) -> Iterator[Block]:
    """Yield a page of jobs, and whether there are more."""
    yield jobs_table(page.jobs)
    if page.cursor is not None:
        yield note("there are more: hand the page's cursor back for the next ones")


def stats_blocks(stats: Stats) -> Iterator[Block]:
    """Yield how many jobs there are, in all and by queue."""
    yield FactsBlock(of_stats(stats))
    yield TableBlock("", QUEUE_COLUMNS, [queue_line(queue) for queue in sorted(stats.queues, key=lambda one: one.name)])


# Without what only a console that has watched for a while knows.
QUEUE_COLUMNS = tuple(column for column in QUEUES if column.title not in {"DONE", "1H"})


def operation_blocks(operation: Operation) -> Iterator[Block]:
    """Yield who changed what, why, and what came of it."""
    yield FactsBlock(of_operation(operation, None))


def health_blocks(health: Health) -> Iterator[Block]:
    """Yield how the queue is."""
    yield FactsBlock(of_health(health))


def handle_blocks(handle: JobHandle[Any]) -> Iterator[Block]:
    """Yield what is known of an enqueued job without a read."""
    yield FactsBlock(
        (
            Fact("job", handle.id),
            Fact("type", handle.type, "strong"),
            Fact("queue", handle.queue),
            Fact("created", "" if handle.created else "no: an equal job was there, and this is its handle", "warn"),
        )
    )


_DRAWN: dict[tuple[str, str], Callable[[Any], Iterable[Block]]] = {
    ("queue_core.model.job", "Job"): job_blocks,
    ("queue_core.model.report", "Page"): page_blocks,
    ("queue_core.client.health", "Stats"): stats_blocks,
    ("queue_core.client.health", "Health"): health_blocks,
    ("queue_core.client.results", "JobHandle"): handle_blocks,
    ("queue_core.blocking.parts", "BlockingHandle"): handle_blocks,
    ("queue_core.model.operation", "Operation"): operation_blocks,
}
"""What draws each record, by module and name of its class."""


def _blocks_of(record: object) -> list[Block]:
    if isinstance(record, Drawing):
        return readable_blocks(record)
    for kind in type(record).__mro__:
        draw = _DRAWN.get((kind.__module__, kind.__name__))
        if draw is not None:
            dated = draw in {stats_blocks, page_blocks}
            return [*draw(record), *([as_of(datetime.now(UTC))] if dated else [])]
    raise InvalidArgument(f"a {type(record).__name__} is none of the records that are drawn")


def as_html(record: object) -> str:
    """Return a job, a page, counts, health, a handle or an operation as HTML, for notebooks without IPython.

    Raises:
        InvalidArgument: it is none of these.
    """
    return html_of(_blocks_of(record), datetime.now(UTC))


def as_text(record: object) -> str:
    """Return the same as lines of text.

    Raises:
        InvalidArgument: it is none of these.
    """
    return text_of(_blocks_of(record), datetime.now(UTC))


def register(shell: Any) -> None:
    """Register the drawings with a shell of IPython; a second time changes nothing."""
    formatters = shell.display_formatter.formatters
    for module, name in _DRAWN:
        formatters["text/html"].for_type_by_name(module, name, as_html)
        formatters["text/plain"].for_type_by_name(module, name, _print)


def _print(record: object, printer: Any, cycle: bool) -> None:
    printer.text(as_text(record))
