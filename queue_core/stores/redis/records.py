"""Convert values stored in Redis to the public records."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from queue_core.errors import OperationNotFound
from queue_core.model.job import Attempt, Failure, Job, headers_of
from queue_core.model.operation import Author, ChangeOptions, Operation, OperationRequest, Outcomes, Rollout
from queue_core.model.states import Status
from queue_core.ports.store import HeartbeatRequest

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

LIGHT = (
    "status", "type", "priority", "created_at", "updated_at", "run_at", "started_at", "completed_at", "error",
    "retry_count", "max_retries", "crashes", "losses", "progress", "progress_message", "tags", "token", "worker",
    "lease_expires_at", "failure_kind", "signature", "trashed_at", "cancel_requested",
    "ordering_key", "unique_key", "headers", "release",
)  # fmt: skip
"""The fields of a job that are small; every job has the first."""


def moment(microseconds: int) -> datetime:
    """Return the moment that many microseconds after the epoch."""
    return _EPOCH + timedelta(microseconds=microseconds)


def microseconds_of(when: datetime) -> int:
    """Return a moment as it is stored."""
    return (when - _EPOCH) // timedelta(microseconds=1)


def moment_or_none(text: str | None) -> datetime | None:
    """Return a stored moment, or None where there is none."""
    return None if text is None else moment(whole(text))


NO_RELEASES: Mapping[str, str] = {}


def job_of(
    queue: str,
    job_id: str,
    found: Mapping[str, str | None],
    traceback: str | None = None,
    releases: Mapping[str, str] = NO_RELEASES,
) -> Job:
    """Return the job in a hash; what the mapping lacks is empty. `releases`: names by number."""
    payload = found.get("payload")
    return Job(
        id=job_id,
        type=found["type"] or "",
        queue=queue,
        payload=_object(payload),
        payload_text=payload or "",
        status=Status(found["status"] or ""),
        priority=_number(found, "priority"),
        created_at=moment(_number(found, "created_at")),
        updated_at=moment(_number(found, "updated_at")),
        run_at=moment(_number(found, "run_at")),
        started_at=moment_or_none(found.get("started_at")),
        completed_at=moment_or_none(found.get("completed_at")),
        result=decoded(found.get("result")),
        error=found.get("error"),
        retry_count=_number(found, "retry_count"),
        max_retries=_number(found, "max_retries"),
        crashes=_number(found, "crashes"),
        progress=_number(found, "progress"),
        progress_message=found.get("progress_message") or "",
        tags=tags_of(found.get("tags")),
        token=_number(found, "token"),
        worker=found.get("worker"),
        lease_expires_at=moment_or_none(found.get("lease_expires_at")),
        failure_kind=found.get("failure_kind"),  # type: ignore[arg-type]
        signature=found.get("signature"),
        traceback=traceback,
        trashed_at=moment_or_none(found.get("trashed_at")),
        cancel_requested=found.get("cancel_requested") is not None,
        ordering_key=found.get("ordering_key"),
        unique_key=found.get("unique_key"),
        losses=_number(found, "losses"),
        headers=headers_of(found.get("headers")),
        release=releases.get(found.get("release") or "") if found.get("worker") else None,
    )


def _number(found: Mapping[str, str | None], name: str) -> int:
    return whole(found.get(name))


def whole(text: str | None) -> int:
    """Return a stored number; 0 for what is none."""
    try:
        return int(text or 0)
    except ValueError:
        return 0


def _object(text: str | None) -> dict[str, Any] | None:
    found = decoded(text)
    return found if isinstance(found, dict) else None


def decoded(text: str | None) -> Any:
    """Return the value of a JSON text; None if it is invalid, cut, or nested too deep."""
    try:
        return None if text is None else json.loads(text)
    except (ValueError, RecursionError):
        return None


def tags_of(text: str | None) -> tuple[str, ...]:
    """Return stored tags."""
    found = decoded(text) if text else None
    return tuple(map(str, found)) if isinstance(found, list) else ()


def failure_text(failure: Failure | None) -> str:
    """Return a failure as it is stored with an attempt; the title is stored once a signature. It is one line."""
    return "" if failure is None else json.dumps(failure._asdict() | {"title": ""}, ensure_ascii=True)


def attempts_of(job_id: str, texts: Iterable[str], releases: Mapping[str, str] = NO_RELEASES) -> list[Attempt]:
    """Return stored attempts; what is none is left out."""
    found: list[Attempt] = []
    for text in texts:
        with contextlib.suppress(ValueError, TypeError):
            found.append(_attempt(job_id, text, releases))
    return found


def _attempt(job_id: str, text: str, releases: Mapping[str, str]) -> Attempt:
    head, _, rest = text.partition("\n")
    worker, _, release = rest.partition("\n")
    number, token, started_at, finished_at, failure = head.split(" ", 4)
    why = Failure(**json.loads(failure))
    return Attempt(
        job_id=job_id,
        token=int(token),
        number=int(number),
        kind=why.kind,
        exception=why.exception,
        message=why.message,
        traceback=why.traceback,
        signature=why.signature,
        worker=worker or None,
        started_at=moment(int(started_at)) if int(started_at) else None,
        finished_at=moment(int(finished_at)),
        release=releases.get(release),
    )


_NOT_KEPT = frozenset({"place", "process", "with_neighbours", "doubts", "held_in"})


def entry_text(request: HeartbeatRequest) -> str:
    """Return a worker's own entry as it is stored."""
    fields = request._replace(leases=())._asdict()
    # A field that an earlier version does not know would invalidate the whole entry for it.
    left_out = _NOT_KEPT | {name for name in ("stuck", "release") if not fields[name]}
    return json.dumps({name: fields[name] for name in fields if name not in left_out})


class WorkerEntry(NamedTuple):
    """What is known about a worker."""

    # microseconds since the epoch
    started_at: int
    heartbeat_at: int
    request: HeartbeatRequest

    def is_lost(self, now: int) -> bool:
        """Return whether three heartbeats in a row were missed."""
        return now - self.heartbeat_at > 3e6 * self.request.interval


def entries_of(texts: Mapping[str, str]) -> dict[str, WorkerEntry]:
    """Return the entries of workers; what is none is left out."""
    found: dict[str, WorkerEntry] = {}
    for worker, text in texts.items():
        try:
            started_at, heartbeat_at, _, given = text.split(" ", 3)
            fields = json.loads(given)
            for name in ("queues", "types", "leases"):
                fields[name] = None if name == "types" and fields[name] is None else tuple(fields[name])
            known = {name: value for name, value in fields.items() if name in HeartbeatRequest._fields}
            found[worker] = WorkerEntry(int(started_at), int(heartbeat_at), HeartbeatRequest(**known))
        except (ValueError, TypeError, KeyError):
            continue
    return found


UNKNOWN = "-"
"""The token of a member that is no job."""


class FrozenMember(NamedTuple):
    """A member as it was frozen."""

    token: str
    queue: str
    id: str


def member_text(member: FrozenMember) -> str:
    """Return a member as it is stored."""
    return f"{member.token} {len(member.queue)} {member.queue}{member.id}"


def member_of(text: str) -> FrozenMember:
    """Return a stored member."""
    token, length, rest = text.split(" ", 2)
    return FrozenMember(token, rest[: int(length)], rest[int(length) :])


def note_text(note: str) -> str:
    """Return a note as it is stored, whatever characters it has."""
    return json.dumps(note)


def fields_of(request: OperationRequest) -> list[Any]:
    """Return the stored fields of a new operation, names and values."""
    rollout, at = request.rollout, request.rollout.begin_at
    given = {"verb": request.verb, "label": request.label, "author": request.author, "why": request.why}
    careful = {"first_failure": rollout.first_failure, "when_release": rollout.when_release}
    text = json.dumps({**given, **careful, "way": request.options, "signatures": request.signatures})
    begin_at = None if at is None else round(at.timestamp() * 1e6)
    numbers = {"canary": rollout.canary, "rate": rollout.rate, "stop_percent": rollout.stop_percent}
    numbers |= {"begin_at": begin_at, "next_at": begin_at}
    texts = {"asked": text, "note": note_text(""), "steps": " ".join(map(str, rollout.first_steps))}
    fields = texts | {name: value for name, value in numbers.items() if value is not None}
    return [part for pair in fields.items() for part in pair]


def mapped(number: int, found: Sequence[str]) -> dict[str, str]:
    """Return the answer of HGETALL in a script as fields.

    Raises:
        OperationNotFound: there are none.
    """
    if not found:
        raise OperationNotFound(number)
    return dict(zip(found[::2], found[1::2], strict=True))


def operation_of(number: int, row: Mapping[str, str]) -> Operation:
    """Return a stored operation."""
    given = json.loads(row["asked"])
    canary, steps = whole(row.get("canary")), [int(step) for step in row.get("steps", "").split()]
    rollout = Rollout(
        canary=canary,
        rate=_float(row.get("rate")),
        stop_percent=_float(row.get("stop_percent")),
        first_failure=given.get("first_failure", False),
        ramp=() if canary else tuple(steps),
        begin_at=moment_or_none(row.get("begin_at")),
        when_release=given.get("when_release"),
    )
    names = ("total", "done", "processed", "skipped", "errored", "barrier")
    return Operation(
        number=number,
        request=OperationRequest(
            verb=given["verb"],
            label=given["label"],
            author=Author(*given["author"]),
            why=given["why"],
            options=ChangeOptions(*given["way"]),
            rollout=rollout,
            signatures=tuple(given["signatures"]),
        ),
        state=row["state"],  # type: ignore[arg-type]
        note=json.loads(row["note"]),
        **{name: whole(row[name]) for name in names},
        created_at=moment(int(row["created_at"])),
        updated_at=moment(int(row["updated_at"])),
        started_at=moment_or_none(row.get("started_at")),
        finished_at=moment_or_none(row.get("finished_at")),
        outcomes=Outcomes(*json.loads(row["outcomes"])) if row.get("outcomes") else None,
    )


def _float(text: str | None) -> float | None:
    return None if text is None else float(text)


Position = tuple[int, str]
"""Time and id, by which lists are sorted."""


class Entry(NamedTuple):
    """A job's place in a list. Entries compare as their places do."""

    # microseconds since the epoch
    at: int
    id: str
    queue: str
    # None where it does not follow from the set it was found in
    status: Status | None


def homes(entries: Iterable[Entry]) -> dict[str, list[str]]:
    """Return the ids of entries by their queues."""
    found: dict[str, list[str]] = {}
    for entry in entries:
        found.setdefault(entry.queue, []).append(entry.id)
    return found
