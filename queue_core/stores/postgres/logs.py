"""The logs of jobs on PostgreSQL, and what workers announce of types."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from queue_core.errors import JobNotFound
from queue_core.model.job import MAX_LOG_LINES, LogEntry, LogLine
from queue_core.model.report import JobStack, LogPage, TypeInfo
from queue_core.ports.operations import STACKS_IN_ALL, STACKS_OF_A_JOB
from queue_core.stores.postgres.dialect import moment, plain_array, text_array
from queue_core.stores.postgres.session.pool import ConnectionPool
from queue_core.stores.postgres.session.runner import SerialRunner
from queue_core.stores.sql.records import id_or_none


async def append(runner: SerialRunner, lines: Sequence[LogLine]) -> list[bool]:
    """Append lines to the logs of jobs; return for each whether its token still holds."""
    if not lines:
        return []
    params = {
        "id": plain_array(line.id for line in lines),
        "token": plain_array(line.token for line in lines),
        "line": plain_array(line.line for line in lines),
        "age": plain_array(line.age for line in lines),
        "text": text_array(line.text for line in lines),
        "keep": MAX_LOG_LINES,
    }
    held = {(job_id, token) for job_id, token in await runner.run("logs/append", params)}
    return [(line.id, line.token) in held for line in lines]


async def register_types(runner: SerialRunner, types: Mapping[str, Mapping[str, Any]]) -> None:
    """Write the JSON Schema of the payloads that each of these types takes, where it has changed."""
    rows = await runner.run("logs/registered", {"types": text_array(types)}) if types else []
    known = {name: json.loads(schema) for name, schema in rows}
    changed = {name: schema for name, schema in types.items() if known.get(name) != schema}
    if changed:
        texts = [json.dumps(schema) for schema in changed.values()]
        await runner.run("logs/write", {"type": text_array(changed), "schema": text_array(texts)})


async def read_log(pool: ConnectionPool, job_id: str, limit: int = MAX_LOG_LINES, after: int | None = None) -> LogPage:
    """Return lines of a job's log, oldest first.

    Raises:
        JobNotFound: no job has this id.
    """
    found = id_or_none(job_id)
    rows = await pool.rows("logs/logs_dropped", {"id": found}) if found else []
    if not rows or not rows[0][0]:
        raise JobNotFound(job_id)
    query = "logs/logs_last" if after is None else "logs/logs_after"
    lines = await pool.rows(query, {"id": found, "limit": max(limit, 0), "after": after})
    entries = (LogEntry(number, token, moment(at), text) for number, token, at, text in lines)
    return LogPage(tuple(entries), rows[0][1])


async def read_types(pool: ConnectionPool) -> dict[str, TypeInfo]:
    """Return the types that workers have announced."""
    rows = await pool.rows("logs/types")
    return {name: TypeInfo(name, json.loads(schema), moment(at)) for name, schema, at in rows}


async def ask_stack(runner: SerialRunner, job_id: str) -> JobStack | None:
    """Ask the worker of a running job where that is; None: it does not run."""
    found = id_or_none(job_id)
    if found is None:
        return None
    await runner.run("logs/forget_stacks", {"id": found, "of_job": STACKS_OF_A_JOB, "in_all": STACKS_IN_ALL})
    rows = await runner.run("logs/ask_stack", {"id": found})
    return JobStack._make((*rows[0][:3], moment(rows[0][3]), None, "")) if rows else None


async def read_stacks(runner: SerialRunner, job_id: str) -> list[JobStack]:
    """Return the stacks of a job that were taken, the newest first."""
    found = id_or_none(job_id)
    rows = await runner.run("logs/stacks", {"id": found, "limit": STACKS_OF_A_JOB}) if found else []
    return [JobStack._make((*row[:3], moment(row[3]), moment(row[4]), row[5])) for row in rows]


# Removes the lines of removed jobs: a walk over all logs in the order of their key, a bounded step at a time.
#
# A day of the history is dropped whole and the dead expire by thousands; to remove their lines in the same statement
# would hold locks for as many lines as there happen to be. The lines of a removed job are not visible.

LINES_PER_STATEMENT = 5_000
"""Lines looked at in a statement: some 15 ms."""
STATEMENTS_PER_ROUND = 40
"""Statements in one go, so that the leader's other duties do not wait."""
FIRST_PLACE = ("00000000-0000-0000-0000-000000000000", 0)


class LogRemoval:
    """One walk at a time."""

    def __init__(self, runner: SerialRunner) -> None:
        self._runner = runner
        # the last key looked at; None: no walk is under way
        self._place: tuple[str, int] | None = None
        self._rounds = 0
        # jobs went behind the walk's back
        self._again = False

    async def run(self, gone: bool) -> None:
        """Continue the walk, and begin one when jobs are `gone`."""
        self._rounds += 1
        if self._place is None:
            # A leader before this one may have left a walk half done. In the first round there is enough to do.
            if not gone and self._rounds != 2:
                return
            self._place = FIRST_PLACE
        else:
            self._again |= gone
        for _ in range(STATEMENTS_PER_ROUND):
            job, number = self._place
            rows = await self._runner.run(
                "logs/forget_logs", {"job": job, "number": number, "limit": LINES_PER_STATEMENT}
            )
            if not rows or rows[0][2] < LINES_PER_STATEMENT:
                self._place, self._again = (FIRST_PLACE if self._again else None), False
                return
            self._place = rows[0][:2]
