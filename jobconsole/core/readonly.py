"""An inspector that may look and not change: whatever a screen or a command does wrong, nothing gets through."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn, cast

from queue_core.control import Control
from queue_core.errors import ReadOnly
from queue_core.inspection import Inspector

if TYPE_CHECKING:
    from queue_core import JobQueue

CHANGES = ("retry", "delete", "restore", "purge", "cancel", "pause", "resume", "command")
"""The methods of an inspector that change something; a test holds this list against the protocol."""


class ReadOnlyInspector:
    """Everything that looks is the inspector's own; everything that changes raises `ReadOnly`."""

    def __init__(self, inspector: Inspector) -> None:
        self._inspector = inspector

    def __getattr__(self, name: str) -> Any:
        if name in CHANGES:
            return _refusing(name)
        return getattr(self._inspector, name)


def _refusing(verb: str) -> Any:
    async def refuse(*args: object, **kwargs: object) -> NoReturn:
        raise ReadOnly(verb)

    return refuse


def read_only_control(jobs: JobQueue) -> Control:
    """Return the changing half of a queue's operations path, which changes nothing."""
    return Control(cast(Inspector, ReadOnlyInspector(jobs.inspector)), jobs.dispatcher, jobs.bus)
