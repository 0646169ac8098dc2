"""What stands in Redis of operations and their members, as the records that everybody knows."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from queue_core.errors import OperationNotFound
from queue_core.operations import Author, NewOperation, Operation, Pace, Way
from queue_core.stores.redis.records import moment, moment_or_none, whole

UNKNOWN = "-"
"""The token of a member that is no job."""


class Member(NamedTuple):
    """A member as it was frozen."""

    token: str
    queue: str
    id: str


def member_text(member: Member) -> str:
    """Return a member as it is stored."""
    return f"{member.token} {len(member.queue)} {member.queue}{member.id}"


def member_of(text: str) -> Member:
    """Return a stored member."""
    token, length, rest = text.split(" ", 2)
    return Member(token, rest[: int(length)], rest[int(length) :])


def note_text(note: str) -> str:
    """Return a note as it is stored, whatever characters it has."""
    return json.dumps(note)


def fields_of(asked: NewOperation) -> list[Any]:
    """Return names and values of what is stored of an operation that somebody asks for."""
    pace = asked.pace._asdict()
    said = {"verb": asked.verb, "label": asked.label, "author": asked.author, "why": asked.why}
    text = json.dumps({**said, "way": asked.way, "signatures": asked.signatures})
    numbers = {name: value for name, value in pace.items() if value is not None}
    fields = {"asked": text, "note": note_text(""), **numbers}
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
    said = json.loads(row["asked"])
    pace = Pace(whole(row.get("canary")), _float(row.get("rate")), _float(row.get("stop_percent")))
    names = ("total", "done", "processed", "skipped", "errored", "barrier")
    return Operation(
        number=number,
        asked=NewOperation(
            verb=said["verb"],
            label=said["label"],
            author=Author(*said["author"]),
            why=said["why"],
            way=Way(*said["way"]),
            pace=pace,
            signatures=tuple(said["signatures"]),
        ),
        state=row["state"],  # type: ignore[arg-type]
        note=json.loads(row["note"]),
        **{name: whole(row[name]) for name in names},
        created_at=moment(int(row["created_at"])),
        updated_at=moment(int(row["updated_at"])),
        started_at=moment_or_none(row.get("started_at")),
        finished_at=moment_or_none(row.get("finished_at")),
    )


def _float(text: str | None) -> float | None:
    return None if text is None else float(text)
