"""What handlers share in a process, such as a pool of connections: set up before the first job, given up at the end.

A worker enters the lifespans of its queue object before it claims anything, and leaves them when its last job has ended
and its outcome is stored. Each child process does the same for itself.
"""

from __future__ import annotations

import asyncio
import inspect
import traceback
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

from queue_core.errors import ConfigurationError, LifespanFailed
from queue_core.model.text import cut

LifespanFunction = Callable[[SimpleNamespace], AsyncIterator[None] | AbstractAsyncContextManager[Any]]
"""Fills the state that it is given, yields once, and cleans up; or returns an async context manager that does."""
F = TypeVar("F", bound=LifespanFunction)

MIN_LEAVE_SECONDS = 2.0
"""Seconds in which each may be left, however little of a grace period is left."""
MAX_ERROR_BYTES = 500
"""Bytes of the error in the sentence about a lifespan that failed."""


class Lifespans:
    """The lifespans of one queue object."""

    def __init__(self) -> None:
        self._functions: list[LifespanFunction] = []

    def add(self, function: F) -> F:
        """Register a lifespan; a second time changes nothing.

        Raises:
            ConfigurationError: it is no function of one parameter, the state, or cannot be a context manager.
        """
        name = _name_of(function)
        if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
            raise ConfigurationError(f"lifespan '{name}' has to be an async function that yields once")
        try:
            inspect.signature(function).bind(SimpleNamespace())
        except (TypeError, ValueError) as error:
            raise ConfigurationError(f"lifespan '{name}' takes one parameter, the state to fill: {error}") from None
        if function not in self._functions:
            self._functions.append(function)
        return function

    def prepare(self) -> Lifespan:
        """Return what enters them, for one worker or child process."""
        return Lifespan(self._functions)


class Lifespan:
    """All lifespans of a queue object in one worker or child process, entered and left in the same task."""

    def __init__(self, functions: Sequence[LifespanFunction]) -> None:
        self._functions = functions
        self._entered: list[tuple[LifespanFunction, AbstractAsyncContextManager[Any]]] = []
        # the task that enters them, while it does
        self._entering: asyncio.Task[Any] | None = None
        # what handlers find as `ctx.state`
        self.state = SimpleNamespace()

    def __bool__(self) -> bool:
        return bool(self._functions)

    async def enter(self) -> bool:
        """Enter them in the order of their registration; return False when that was interrupted.

        Raises:
            LifespanFailed: one raised an exception, or did not yield; those before it were left.
        """
        task = self._entering = asyncio.current_task()
        try:
            await self._enter()
        except asyncio.CancelledError:
            if self._entering is not None:
                raise
        finally:
            interrupted, self._entering = self._entering is None, None
        if interrupted and task is not None and task.uncancel() > 0:
            raise asyncio.CancelledError  # by others, too
        return not interrupted

    def interrupt(self) -> None:
        """Cancel `enter`, if it has not ended; for the loop's thread."""
        entering, self._entering = self._entering, None
        if entering is not None:
            entering.cancel()

    async def _enter(self) -> None:
        for function in tuple(self._functions):
            name = _name_of(function)
            manager = asynccontextmanager(function) if inspect.isasyncgenfunction(function) else function
            try:
                block = manager(self.state)
                if not isinstance(block, AbstractAsyncContextManager):
                    raise TypeError(f"it returned {type(block).__name__}, which is no async context manager")
                await block.__aenter__()
            except (Exception, SystemExit) as error:
                await self._give_up()
                raise LifespanFailed(name, _describe(error, function)) from error
            except asyncio.CancelledError:
                await self._give_up()
                raise
            self._entered.append((function, block))

    async def leave(self, limit: float | None = None) -> None:
        """Leave those that were entered, the last one first; a second time is safe.

        `limit`: seconds for all of them, and at least `MIN_LEAVE_SECONDS` for each; None: as long as they take.

        Raises:
            LifespanFailed: one raised an exception, or took too long; the others were left all the same.
        """
        failed: LifespanFailed | None = None
        loop = asyncio.get_running_loop()
        ends = None if limit is None else loop.time() + limit
        while self._entered:
            function, block = self._entered.pop()
            name = _name_of(function)
            try:
                async with asyncio.timeout_at(
                    None if ends is None else max(ends, loop.time() + MIN_LEAVE_SECONDS)
                ) as limited:
                    await block.__aexit__(None, None, None)
            except TimeoutError as error:
                late = f"it was not left within {max(limit or 0.0, MIN_LEAVE_SECONDS):.1f} s"
                failed = LifespanFailed(name, late if limited.expired() else _describe(error, function))
                failed.__cause__ = error
            except (Exception, SystemExit) as error:  # noqa: BLE001  the others are to be left all the same
                failed = LifespanFailed(name, _describe(error, function))
                failed.__cause__ = error
        if failed is not None:
            raise failed

    async def _give_up(self) -> None:
        try:
            await self.leave()
        except LifespanFailed:
            return  # the first failure is the one to report


def _name_of(function: object) -> str:
    return str(getattr(function, "__name__", type(function).__name__))


def _describe(error: BaseException, function: object) -> str:
    """Return the error in one line, with the place in the lifespan's own code where it was raised, else its begin."""
    text = " ".join(cut(str(error), MAX_ERROR_BYTES).split())
    what = f"{type(error).__name__}: {text}" if text else type(error).__name__
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename not in (__file__, _CONTEXTLIB)]
    if own:
        return f"{what} ({Path(own[0].filename).name}, line {own[0].lineno})"
    if isinstance(error, RuntimeError) and text in _NOT_ONCE:
        what = f"it has to yield exactly once, and {_NOT_ONCE[text]}"
    code = getattr(inspect.unwrap(function), "__code__", None) if callable(function) else None
    return what if code is None else f"{what} ({Path(code.co_filename).name}, line {code.co_firstlineno})"


_NOT_ONCE = {"generator didn't yield": "did not", "generator didn't stop": "yielded again"}
"""The errors of contextlib about a function that it makes a context manager of."""
_CONTEXTLIB = inspect.getfile(asynccontextmanager)
