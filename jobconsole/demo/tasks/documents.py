"""Work on documents that have a format."""

from __future__ import annotations

import csv
import json
from email.parser import BytesParser
from pathlib import Path
from typing import Any

from jobconsole.demo.tasks.app import jobs, recorded
from queue_core import JobContext, Priority, Retry


@jobs.task(queue="documents", priority=Priority.HIGH, retry=Retry(max_retries=1, delay=1))
@recorded
def read_document(ctx: JobContext, path: str) -> dict[str, Any]:
    """Read a JSON document and count what is in it."""
    document = json.loads(Path(path).read_text(encoding="utf-8"))
    return {"kind": type(document).__name__, "entries": len(document) if isinstance(document, dict | list) else 1}


@jobs.task(queue="documents", priority=Priority.NORMAL)
@recorded
def read_records(ctx: JobContext, path: str) -> dict[str, int]:
    """Read a table of comma-separated values and count its rows."""
    with Path(path).open(newline="", encoding="utf-8") as table:
        return {"rows": sum(1 for _ in csv.reader(table))}


@jobs.task(queue="documents", priority=Priority.LOW)
@recorded
def read_metadata(ctx: JobContext, path: str) -> dict[str, int]:
    """Read headers and text in the format of mail."""
    with Path(path).open("rb") as file:
        message = BytesParser().parse(file)
    return {"headers": len(message.keys()), "text": len(str(message.get_payload()))}
