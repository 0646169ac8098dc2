"""What a worker notes for the service that started it: who it is, where its store is, and that it goes on draining.

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
    """Note who this worker is."""
    os.set_inheritable(descriptor, False)  # the processes that handlers start have no business there
    said = json.dumps({"worker": worker, "settings": _plain(settings.model_dump())})
    with os.fdopen(descriptor, "w", encoding="utf-8", closefd=False) as file:
        file.write(said)


def write_sign(descriptor: int) -> None:
    """Show the service that this worker's event loop goes on while it drains: its note grows by a blank."""
    os.write(descriptor, b" ")


def signs(descriptor: int) -> int:
    """Return a number that grows with each sign."""
    return os.fstat(descriptor).st_size


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
