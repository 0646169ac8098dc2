"""What a worker notes for the service that started it: who it is, and where its store is.

In a nameless file that the service has opened, so that the service need not import the application, whose code only
runs in its workers.
"""

from __future__ import annotations

import json
import os
import tempfile
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from queue_core.settings import JobsSettings


class Note(NamedTuple):
    """What a worker has noted about itself."""

    worker: str
    # the settings of its queue object as plain values, passwords included
    settings: dict[str, Any]


def open_note() -> int:
    """Return the descriptor of an empty nameless file."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("worker")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def write_note(descriptor: int, worker: str, settings: JobsSettings) -> None:
    """Note who this worker is; the descriptor is closed, for its handlers have no business there."""
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump({"worker": worker, "settings": _plain(settings.model_dump())}, file)


def _plain(value: Any) -> Any:
    if hasattr(value, "get_secret_value"):
        return value.get_secret_value()
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, list | tuple) else value


def read_note(descriptor: int) -> Note | None:
    """Return what a worker has noted, or None where it has not come to that."""
    try:
        return Note(**json.loads(os.pread(descriptor, os.fstat(descriptor).st_size, 0)))
    except (OSError, ValueError, TypeError):
        return None
