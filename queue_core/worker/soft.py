"""Soft time limits: the handler is told, and has until its hard one to clean up."""

from __future__ import annotations

import asyncio
import types
from collections.abc import Coroutine, Generator
from typing import Any, TypeVar

from queue_core.errors import SoftTimeLimitExceeded
from queue_core.worker.attempt import Attempt

R = TypeVar("R")


async def within(attempt: Attempt, seconds: float, raises: bool, handler: Coroutine[Any, Any, R]) -> R:
    """Run a handler; after so many seconds its context says so, and, where it `raises`, so does its current await."""
    told = _Told(attempt, seconds, raises)
    timer = asyncio.get_running_loop().call_later(seconds, told.late)
    try:
        return await _driven(handler, told)
    finally:
        timer.cancel()


class _Told:
    """Whether the limit has passed and the handler has not been told yet."""

    def __init__(self, attempt: Attempt, seconds: float, raises: bool) -> None:
        self._attempt = attempt
        self._seconds = seconds
        self._raises = raises
        self._task = asyncio.current_task()
        self._pending = False

    def late(self) -> None:
        """Tell the handler; called by the loop while the handler waits."""
        self._attempt.late = True
        if self._raises and self._attempt.stop_reason is None and self._task is not None:
            self._pending = True
            self._task.cancel()  # the one way to end whatever it waits for

    def instead_of(self, error: BaseException) -> BaseException:
        """Return what the handler gets in place of an exception at its wait."""
        if not (self._pending and isinstance(error, asyncio.CancelledError)) or self._task is None:
            return error
        self._pending = False
        if self._attempt.stop_reason is not None:
            return error  # somebody stopped it at the same moment, and that counts
        self._task.uncancel()
        return SoftTimeLimitExceeded(self._seconds)


@types.coroutine
def _driven(handler: Coroutine[Any, Any, R], told: _Told) -> Generator[Any, Any, R]:
    """Run a coroutine step by step, to raise something else in it than the event loop would."""
    error: BaseException | None = None
    while True:
        try:
            waits_for = handler.send(None) if error is None else handler.throw(error)
        except StopIteration as end:
            result: R = end.value
            return result
        error = None
        try:
            yield waits_for
        except GeneratorExit:
            handler.close()
            raise
        except BaseException as raised:  # noqa: BLE001  the handler's to deal with
            error = told.instead_of(raised)
