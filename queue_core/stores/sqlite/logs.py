"""The logs of jobs on SQLite, and what workers announce of types."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from queue_core.errors import JobNotFound
from queue_core.model.job import LOG_START, MAX_LOG_LINES, LogEntry, LogLine, LogPosition, placed
from queue_core.model.report import JobStack, LogPage, TypeInfo
from queue_core.model.text import storable
from queue_core.ports.operations import STACKS_IN_ALL, STACKS_OF_A_JOB
from queue_core.ports.store import StackRequest
from queue_core.stores.sql.records import id_or_none
from queue_core.stores.sqlite.dialect import moment, texts
from queue_core.stores.sqlite.session import SqliteFile, Transaction


class _RunningJob(NamedTuple):
    """A running job."""

    number: int
    token: int
    last: LogPosition


def append(transaction: Transaction, lines: Sequence[LogLine]) -> list[bool]:
    """Append lines to the logs of jobs; return for each whether its token still holds."""
    running: dict[str, _RunningJob] = {}
    for job_id, number, token, *last in transaction.rows("logs/held", (texts({line.id for line in lines}),)):
        running[job_id] = _RunningJob(number, token, LOG_START if last[0] is None else LogPosition(*last))
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
    ][-MAX_LOG_LINES:]
    if rows:
        transaction.run_many("logs/append", rows)
        transaction.run("logs/forget", (job.number, rows[-1][1] - MAX_LOG_LINES))


def register_types(transaction: Transaction, types: Mapping[str, Mapping[str, Any]]) -> None:
    """Write the JSON Schema of the payloads that each of these types takes, where it has changed."""
    known = {name: json.loads(schema) for name, schema, _ in transaction.rows("logs/types")}
    changed = {name: json.dumps(schema) for name, schema in types.items() if known.get(name) != schema}
    transaction.run_many("logs/write", [(name, schema, transaction.now) for name, schema in changed.items()])


async def read_log(file: SqliteFile, job_id: str, limit: int = MAX_LOG_LINES, after: int | None = None) -> LogPage:
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


def ask_stack(transaction: Transaction, job_id: str) -> JobStack | None:
    """Ask the worker of a running job where that is; None: it does not run."""
    wanted = {"id": id_or_none(job_id), "now": transaction.now, "of_job": STACKS_OF_A_JOB, "in_all": STACKS_IN_ALL}
    transaction.run("logs/forget_stacks", wanted)
    rows = transaction.rows("logs/ask_stack", {"id": wanted["id"], "now": transaction.now})
    return JobStack._make((*rows[0][:3], moment(rows[0][3]), None, "")) if rows else None


def read_stacks(transaction: Transaction, job_id: str) -> list[JobStack]:
    """Return the stacks of a job that were taken, the newest first."""
    rows = transaction.rows("logs/stacks", (id_or_none(job_id), STACKS_OF_A_JOB))
    return [JobStack._make((*row[:3], moment(row[3]), moment(row[4]), row[5])) for row in rows]


def stack_requests(transaction: Transaction, worker: str) -> list[StackRequest]:
    """Return requests that a worker has not answered."""
    return [StackRequest._make(row) for row in transaction.rows("logs/stack_requests", (worker,))]


def give_stack(transaction: Transaction, request: StackRequest, text: str) -> None:
    """Keep the answer to a request."""
    transaction.run("logs/give_stack", (transaction.now, storable(text), request.number))
