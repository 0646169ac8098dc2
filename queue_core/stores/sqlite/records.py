"""Convert rows of the operations path to the public records."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from sqlite3 import Row
from typing import Any
from uuid import UUID

from queue_core.errors import FilterError
from queue_core.model.job import Attempt, Job
from queue_core.model.states import Status


def tags_of(text: str | None) -> tuple[str, ...]:
    """Return the tags in a row."""
    return () if text is None else tuple(json.loads(text))


def job_of(row: Row) -> Job:
    """Return the job in a row of read/job or read/page."""
    return Job(
        id=row["id"],
        type=row["type"],
        queue=row["queue"],
        payload=_payload(row["payload"]),
        payload_text=row["payload"],
        status=Status.DEAD if row["place"] == "trashed" else Status(row["place"]),
        priority=row["priority"],
        created_at=moment(row["created_at"]),
        updated_at=moment(row["updated_at"]),
        run_at=moment(row["run_at"]),
        started_at=moment_or_none(row["started_at"]),
        completed_at=moment_or_none(row["finished_at"]),
        result=_decoded(row["result"]),
        error=row["error"],
        retry_count=row["retry_count"],
        max_retries=row["max_retries"],
        crashes=row["crashes"],
        progress=row["progress"],
        progress_message=row["message"],
        tags=tags_of(row["tags"]),
        token=row["token"],
        worker=row["worker"],
        lease_expires_at=moment_or_none(row["expires_at"]),
        failure_kind=row["kind"],
        signature=row["signature"],
        traceback=row["traceback"],
        trashed_at=moment_or_none(row["trashed_at"]),
        cancel_requested=bool(row["cancel"]),
        ordering_key=row["ordering_key"],
        unique_key=row["unique_key"],
        losses=row["losses"],
    )


def attempt_of(row: Sequence[Any]) -> Attempt:
    """Return the attempt in a row of read/attempts."""
    job_id, token, number, kind, exception, message, traceback, signature, worker, started_at, finished_at = row
    return Attempt(
        job_id=job_id,
        token=token,
        number=number,
        kind=kind,
        exception=exception,
        message=message,
        traceback=traceback,
        signature=signature,
        worker=worker,
        started_at=moment_or_none(started_at),
        finished_at=moment(finished_at),
    )


def _payload(text: str) -> dict[str, Any] | None:
    found = _decoded(text)
    return found if isinstance(found, dict) else None


def _decoded(text: str | None) -> Any:
    """Return the value of a JSON text; None if it is invalid, cut, or nested too deep."""
    if text is None:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def moment(seconds: float) -> datetime:
    """Return the moment that many seconds after the epoch."""
    return datetime.fromtimestamp(seconds, UTC)


def moment_or_none(seconds: float | None) -> datetime | None:
    """Return the moment that many seconds after the epoch, or None."""
    return None if seconds is None else moment(seconds)


def cursor_of(row: Row) -> str:
    """Return the place behind a row."""
    return f"{row['updated_at']!r} {row['number']}"


def after(cursor: str) -> dict[str, Any]:
    """Return the parameters of the page behind a cursor.

    Raises:
        FilterError: no page gave this cursor.
    """
    at, _, number = cursor.partition(" ")
    # A number of more digits is none that SQLite can have given out.
    if number.isdecimal() and len(number) < 19:
        with suppress(ValueError):
            return {"at": float(at), "number": int(number)}
    raise FilterError("this is no cursor that a page gave", cursor, 0)


def known_ids(ids: Sequence[str]) -> list[str]:
    """Return the ids that can be ids here, in the form they are stored in, each once."""
    return list(dict.fromkeys(found for one in ids if (found := id_or_none(one))))


def id_or_none(text: str) -> str | None:
    """Return an id in the form it is stored in; None when no job can have it."""
    try:
        return str(UUID(text))
    except ValueError:
        return None
