"""What an operation came to, in one sentence."""

from __future__ import annotations

from jobconsole.core.humanize import plural
from jobconsole.core.operations import REVERSIBLE, Report
from queue_core.text import safe

PAST: dict[str, str] = {
    "retry": "retried", "delete": "deleted", "restore": "restored", "purge": "purged", "cancel": "cancelled",
    "move": "moved",
}  # fmt: skip


def sentence(report: Report) -> str:
    """Return what an operation did, for people."""
    operation, past = report.operation, PAST[report.plan.verb]
    if operation is None:
        return f"nothing was {past}: {report.problem}"
    name = f"{report.plan.verb} #{operation.number}"
    if operation.state == "stopped":
        return f"{name} stopped: {safe(operation.note)}; (4) P goes on, X ends it"
    if operation.state == "cancelled" and operation.started_at is None:
        return f"{name} was cancelled while it was being written: nothing was {past}"
    if operation.state == "cancelled":
        rest = plural(operation.total - operation.done, "job")
        return f"{name} was cancelled: {past} {plural(report.processed, 'job')}, left {rest} as they are"
    if operation.state == "failed":
        return f"{name} failed: {safe(operation.note)}"
    parts = [f"{past} {plural(report.processed, 'job')}"]
    if report.skipped:
        parts.append(f"skipped {report.skipped:,} that had changed meanwhile")
    if report.errored:
        parts.append(f"{report.errored:,} not done: {safe(operation.note)}")
    if report.plan.verb in REVERSIBLE and report.processed:
        parts.append("u brings them back" if report.processed > 1 else "u brings it back")
    return ", ".join(parts)


def tone_of(report: Report) -> str:
    """Return how good that is."""
    operation = report.operation
    if operation is None or report.errored or operation.state in {"stopped", "failed"}:
        return "bad"
    return "good" if report.processed and operation.state == "done" else "warn"
