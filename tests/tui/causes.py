"""A fixed breakdown, and two fixed payloads side by side."""

from __future__ import annotations

from datetime import datetime

from queue_core.client.causes.compare import ComparedField, Comparison
from queue_core.model.job import Job
from queue_core.model.report import Breakdown, Dimension, Share


def share(value: str, dead: float, completed: float | None, field: str) -> Share:
    """Return a share that a filter chooses."""
    return Share(value, dead, completed, f"{field}={value}")


def fixed_breakdown(signature: str, since: datetime) -> Breakdown:
    """Return one with everything in it: a value of many alike, exact ones, fields, and one that no filter chooses."""
    hosts = (share("mx-7", 0.97, 0.25, "host"), share("mx-2", 0.03, 0.25, "host"))
    workers = tuple(share(f"mx-{number}:12:aaaaaa", 0.125, 0.13, "worker") for number in range(3))
    return Breakdown(
        signature, "send_email", 38_902, 2_000, 400, since, since,
        (
            Dimension("release", (share("r124", 1.0, 0.52, "release"),), 1, 2_000),
            Dimension("host", hosts, 2, 2_000),
            Dimension("worker", workers, 8, 2_000),
            Dimension("queue", (share("mail", 1.0, 1.0, "queue"),), 1, 38_902, True),
            Dimension("type", (share("send_email", 1.0, None, "type"),), 1, 38_902, True),
            Dimension("tag", (share("import", 0.61, 0.58, "tag"),), 1, 1_220),
        ),
        (
            Dimension("payload.region", (share("eu", 0.97, 0.25, "payload.region"),), 2, 2_000),
            Dimension("payload.attachments", (Share("2 items", 0.91, 0.04, ""),), 3, 2_000),
            Dimension("payload.lang\x1b[2J", (share("de", 0.88, 0.31, "payload.lang"),), 4, 2_000),
        ),
        19, 0.21,
    )  # fmt: skip


def fixed_comparison(failing: Job, completed: Job, back: int) -> Comparison:
    """Return one with a field of each kind."""
    return Comparison(
        failing, completed,
        (
            ComparedField("region", "~", '"eu"', '"us"'),
            ComparedField("to.0", "~", '"buchhaltung@firma.example"', '"ap@acme.example\x1b[2J"'),
            ComparedField("attachments", "+", "2 items", ""),
            *(ComparedField(f"same{number}", "=", "1", "1") for number in range(8)),
            ComparedField("reply_to", "-", "", '"noreply@acme.example"'),
        ),
        older=back < 2,
    )  # fmt: skip
