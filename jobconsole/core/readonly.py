"""An inspector that may look and not change: whatever a screen or a command does wrong, nothing gets through."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn, cast

from queue_core.control import Control
from queue_core.errors import ReadOnly
from queue_core.inspection import Inspector

if TYPE_CHECKING:
    from queue_core import JobQueue
    from queue_core.operating import Operations
    from queue_core.scheduling import Schedules

CHANGES = ("retry", "delete", "restore", "purge", "cancel", "pause", "resume", "command")
"""The methods of an inspector that change something; a test holds this list against the protocol."""


SCHEDULE_CHANGES = ("announce", "pause", "resume", "trigger", "remove")
"""The methods of `Schedules` that change the store; the same test holds this list."""


OPERATION_CHANGES = ("submit", "carry_out", "executor", "noted", "pause", "resume", "cancel", "undo")
"""The methods of `Operations` that change the store; the same test holds this list."""


class ReadOnlyInspector:
    """Everything that looks is the inspector's own; everything that changes raises `ReadOnly`."""

    def __init__(self, inspector: Inspector) -> None:
        self._inspector = inspector

    def __getattr__(self, name: str) -> Any:
        if name in CHANGES:
            return _refusing(name)
        return getattr(self._inspector, name)


class ReadOnlySchedules:
    """The same for schedules."""

    def __init__(self, schedules: Schedules) -> None:
        self._schedules = schedules

    def __getattr__(self, name: str) -> Any:
        if name in SCHEDULE_CHANGES:
            return _refusing(f"schedule {name}")
        return getattr(self._schedules, name)


class ReadOnlyOperations:
    """The same for operations."""

    def __init__(self, operations: Operations) -> None:
        self._operations = operations

    def __getattr__(self, name: str) -> Any:
        if name == "executor":
            # No coroutine: what is asked for it would be one that nobody awaits.
            raise ReadOnly("op executor")
        if name == "executor":
            # It is no coroutine, and nobody would wait for a refusal.
            raise ReadOnly("op run")
        if name in OPERATION_CHANGES:
            return _refusing(f"op {name}")
        return getattr(self._operations, name)


def _refusing(verb: str) -> Any:
    async def refuse(*args: object, **kwargs: object) -> NoReturn:
        raise ReadOnly(verb)

    return refuse


def read_only_control(jobs: JobQueue) -> Control:
    """Return the changing half of a queue's operations path, which changes nothing."""
    return Control(cast(Inspector, ReadOnlyInspector(jobs.inspector)), jobs.dispatcher, jobs.bus)


def read_only_schedules(jobs: JobQueue) -> Schedules:
    """Return a queue's schedules, which nobody changes."""
    return cast("Schedules", ReadOnlySchedules(jobs.schedules))


def read_only_operations(jobs: JobQueue) -> Operations:
    """Return a queue's operations, of which nobody asks for new ones."""
    return cast("Operations", ReadOnlyOperations(jobs.operations))
