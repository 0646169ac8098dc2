"""The logs of jobs in memory, and what workers announce of types."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from queue_core.inspection import LogPage, TypeInfo
from queue_core.job import LogEntry, LogLine
from queue_core.joblogs import LINES, placed
from queue_core.stores.memory.rows import JobRow, moment
from queue_core.stores.memory.state import MemoryState


def append(state: MemoryState, line: LogLine) -> bool:
    """Append a line to the log of its job if the token of its attempt still holds."""
    row = state.jobs.get(line.id)
    if row is None or row.lease is None or row.lease.token != line.token:
        return False
    for place, _ in placed(row.log_end, [line]):
        at = moment(state.clock.now() - line.age)
        row.log.append(LogEntry(place.number, place.token, at, line.text))
        row.log_end = place
    while row.log and row.log[0].number <= row.log_end.number - LINES:
        row.log.popleft()
    return True


def page(row: JobRow, limit: int, after: int | None) -> LogPage:
    """Return lines of a job's log."""
    if after is None:
        entries = list(row.log)[-limit:] if limit > 0 else []
    else:
        entries = [entry for entry in row.log if entry.number > after][: max(limit, 0)]
    return LogPage(tuple(entries), row.log_end.number - len(row.log))


def announce(state: MemoryState, types: Mapping[str, Mapping[str, Any]]) -> None:
    """Write the schema of each of these types where it has changed."""
    now = moment(state.clock.now())
    for name, schema in types.items():
        known = state.types.get(name)
        if known is None or known.schema != schema:
            state.types[name] = TypeInfo(name, deepcopy(dict(schema)), now)
