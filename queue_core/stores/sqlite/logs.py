"""The logs of jobs on SQLite, and what workers announce of types."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from queue_core.errors import JobNotFound
from queue_core.model.job import LINES, NOWHERE, LogEntry, LogLine, Place, placed
from queue_core.model.report import LogPage, TypeInfo
from queue_core.stores.sql.records import id_or_none
from queue_core.stores.sqlite.dialect import moment, texts
from queue_core.stores.sqlite.session import SqliteFile, Transaction


class _RunningJob(NamedTuple):
    """A running job."""

    number: int
    token: int
    last: Place


def append(transaction: Transaction, lines: Sequence[LogLine]) -> list[bool]:
    """Append lines to the logs of jobs; return for each whether its token still holds."""
    running: dict[str, _RunningJob] = {}
    for job_id, number, token, *last in transaction.rows("logs/held", (texts({line.id for line in lines}),)):
        running[job_id] = _RunningJob(number, token, NOWHERE if last[0] is None else Place(*last))
    answers: list[bool] = []
    mine: dict[str, list[LogLine]] = {}
    for line in lines:
        job = running.get(line.id)
        answers.append(job is not None and job.token == line.token)
        if answers[-1]:
            mine.setdefault(line.id, []).append(line)
    for job_id, written in mine.items():
        _append(transaction, running[job_id], written)
    return answers


def _append(transaction: Transaction, job: _RunningJob, lines: list[LogLine]) -> None:
    # Of more lines than a job keeps, the first ones would go at once.
    rows = [
        (job.number, place.number, place.token, place.line, transaction.now - line.age, line.text)
        for place, line in placed(job.last, lines)
    ][-LINES:]
    if rows:
        transaction.run_many("logs/append", rows)
        transaction.run("logs/forget", (job.number, rows[-1][1] - LINES))


def register_types(transaction: Transaction, types: Mapping[str, Mapping[str, Any]]) -> None:
    """Write the JSON Schema of the payloads that each of these types takes, where it has changed."""
    known = {name: json.loads(schema) for name, schema, _ in transaction.rows("logs/types")}
    changed = {name: json.dumps(schema) for name, schema in types.items() if known.get(name) != schema}
    transaction.run_many("logs/write", [(name, schema, transaction.now) for name, schema in changed.items()])


async def read_log(file: SqliteFile, job_id: str, limit: int = LINES, after: int | None = None) -> LogPage:
    """Return lines of a job's log, oldest first.

    Raises:
        JobNotFound: no job has this id.
    """

    def read(transaction: Transaction) -> LogPage:
        jobs = transaction.rows("logs/logs_dropped", (id_or_none(job_id),))
        if not jobs:
            raise JobNotFound(job_id)
        ((job, dropped),) = jobs
        if after is None:
            rows = transaction.rows("logs/logs_last", (job, max(limit, 0)))
        else:
            rows = transaction.rows("logs/logs_after", (job, after, max(limit, 0)))
        entries = (LogEntry(number, token, moment(at), text) for number, token, at, text in rows)
        return LogPage(tuple(entries), dropped)

    return await file.inspect(read)


async def read_types(file: SqliteFile) -> dict[str, TypeInfo]:
    """Return what workers have announced of types."""
    rows = await file.inspect(lambda transaction: transaction.rows("logs/types"))
    return {name: TypeInfo(name, json.loads(schema), moment(at)) for name, schema, at in rows}
