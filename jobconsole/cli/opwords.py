"""How operations look as table rows, as a line of progress, and as JSON."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from jobconsole.cli.output import Column, Output
from jobconsole.cli.pacing import in_words
from jobconsole.cli.tables import moment
from jobconsole.core.humanize import elapsed, exact, plural, rate
from queue_core.text import safe

if TYPE_CHECKING:
    from queue_core.operations import Operation, Outcomes

OPERATIONS = (
    Column("#", "right"),
    Column("CREATED"),
    Column("WHO", limit=40),
    Column("VERB", limit=20),
    Column("STATE"),
    Column("DONE", "right"),
    Column("SKIPPED", "right"),
    Column("ERRORED", "right"),
    Column("WHAT", limit=200),
)


def show_operations(output: Output, operations: Iterable[Operation]) -> None:
    """Write operations as a table."""
    output.table(OPERATIONS, (_row(operation) for operation in operations))


def _row(operation: Operation) -> tuple[object, ...]:
    asked, members = operation.asked, operation.total
    return (
        operation.number,
        moment(operation.created_at),
        "@".join(asked.author),
        asked.verb,
        operation.state,
        f"{exact(operation.done)}/{exact(members)}" if members else None,
        exact(operation.skipped) if members else None,
        exact(operation.errored) if members else None,
        f"{asked.label} ({asked.why})" if asked.why else asked.label,
    )


def state_of_progress(operation: Operation) -> str:
    """Return how far an operation is, on one line."""
    pace = operation.asked.pace
    if operation.held:
        where = f"waits for the outcome of its canary of {plural(operation.barrier, 'job')}"
    else:
        where = f"{exact(operation.done)} of {plural(operation.total, 'job')}"
        where += "" if operation.state == "running" else f", {operation.state}"
    if pace.rate and operation.state == "running" and not operation.in_canary:
        where += f", {rate(pace.rate)}, {elapsed((operation.total - operation.done) / pace.rate)} left"
    skipped = f", skipped {exact(operation.skipped)}" if operation.skipped else ""
    errored = f", errored {exact(operation.errored)}" if operation.errored else ""
    return f"#{operation.number} {operation.asked.verb}: {where}{skipped}{errored}"


def outcome(operation: Operation) -> str:
    """Return what an operation came to, on one line."""
    counts = f"changed {exact(operation.processed)} of {plural(operation.total, 'job')}"
    if operation.done != operation.processed:
        counts += f", skipped {exact(operation.skipped)}, errored {exact(operation.errored)}"
    said = f"#{operation.number} {operation.asked.verb}: {operation.state}"
    if operation.total:
        said += f", {counts}"
    return f"{said}; {safe(operation.note, 500)}" if operation.note else said


def facts(operation: Operation, outcomes: Outcomes | None) -> list[tuple[str, object]]:
    """Return everything that is known of an operation, in the order of the questions who, what, how, why and what came
    of it."""
    asked = operation.asked
    return [
        ("operation", f"#{operation.number}"),
        ("verb", asked.verb),
        ("what", asked.label),
        ("state", operation.state),
        ("who", "@".join(asked.author)),
        ("why", asked.why),
        ("how", ", ".join(in_words(asked.way, asked.pace))),
        ("signatures", ", ".join(asked.signatures)),
        ("created", moment(operation.created_at)),
        ("started", moment(operation.started_at)),
        ("last step", moment(operation.updated_at)),
        ("ended", moment(operation.finished_at)),
        ("jobs", exact(operation.total) if operation.total else None),
        ("done", exact(operation.done) if operation.total else None),
        ("changed", exact(operation.processed) if operation.total else None),
        ("skipped", exact(operation.skipped) if operation.skipped else None),
        ("errored", exact(operation.errored) if operation.errored else None),
        ("canary", _canary(operation)),
        ("outcomes", outcomes and _outcomes(outcomes)),
        ("note", operation.note),
    ]


def _canary(operation: Operation) -> str:
    if not operation.asked.pace.canary or operation.state == "preparing":
        return ""
    if not operation.in_canary:
        return "over"
    return "its outcome is waited for" if operation.held else f"of {plural(operation.barrier, 'job')}, not over"


def _outcomes(outcomes: Outcomes) -> str:
    words = (
        (outcomes.completed, "completed"),
        (outcomes.dead, "dead again"),
        (outcomes.unfinished, "on their way"),
        (outcomes.ended - outcomes.dead - outcomes.completed, "gone"),
    )
    found = ", ".join(f"{exact(count)} {word}" for count, word in words if count)
    return f"of the last {exact(outcomes.looked)}: {found}"


def operation_body(operation: Operation) -> dict[str, Any]:
    """Return an operation as JSON."""
    asked = operation.asked
    return {
        "number": operation.number,
        "verb": asked.verb,
        "label": asked.label,
        "state": operation.state,
        "user": asked.author.user,
        "host": asked.author.host,
        "why": asked.why,
        **asked.way._asdict(),
        **asked.pace._asdict(),
        "signatures": asked.signatures,
        "total": operation.total,
        "done": operation.done,
        "processed": operation.processed,
        "skipped": operation.skipped,
        "errored": operation.errored,
        "note": operation.note,
        "created_at": operation.created_at,
        "started_at": operation.started_at,
        "updated_at": operation.updated_at,
        "finished_at": operation.finished_at,
    }
