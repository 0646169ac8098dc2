"""What every part runs on: the clock, batches of calls, ends of tasks, signals, and what a fork leaves behind."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Any, Generic, Protocol, TypeVar
from weakref import WeakSet

T = TypeVar("T")
R = TypeVar("R")


MAX_STATEMENT_LENGTH = 8 << 20
"""Characters of payloads, results or tracebacks that one statement carries, save for a single item that has more: some
50 ms of this process and 0.3 s of PostgreSQL. 300 results of 1 MB in one were never stored within a time limit."""
ENCODED_AT_ONCE = 1 << 20
"""Characters of values that are encoded before the event loop continues: some 10 ms."""
FLUSH_MARGIN = 0.1
"""Seconds for which a group on its way is waited for beyond its time, so that the flush's own error comes first."""


def parts_of(items: Iterable[T], size: Callable[[T], int], most: int = MAX_STATEMENT_LENGTH) -> Iterator[list[T]]:
    """Yield the items in parts that one statement carries, by their sizes."""
    part: list[T] = []
    total = 0
    for item in items:
        one = size(item)
        if part and total + one > most:
            yield part
            part, total = [], 0
        part.append(item)
        total += one
    if part:
        yield part


def until_full(items: Iterable[T], size: Callable[[T], int]) -> Iterator[T]:
    """Yield items until they are as many as one statement carries, by their sizes."""
    total = 0
    for item in items:
        yield item
        total += size(item)
        if total >= MAX_STATEMENT_LENGTH:
            return


def is_served(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether a thread runs an event loop, or will in a moment (`served`), so that it may be waited for."""
    return loop.is_running() or getattr(loop, "served", False)


class Pacing:
    """Lets the event loop go on between large values that are put into words: 150 callers with 1 MB held it 1.4 s."""

    def __init__(self) -> None:
        # characters since the loop last ran
        self._done = 0

    @property
    def due(self) -> bool:
        """Whether it is time to let the loop go on."""
        return self._done >= ENCODED_AT_ONCE

    def note(self, size: int) -> None:
        """Count characters; small ones cost nothing."""
        if size >= ENCODED_AT_ONCE // 16:
            if self._done == 0:
                asyncio.get_running_loop().call_soon(self._reset)
            self._done += size

    def _reset(self) -> None:
        self._done = 0

    async def turn(self) -> None:
        """Wait until it is the caller's turn."""
        while self.due:  # noqa: ASYNC110  one of many callers has it in each round
            await asyncio.sleep(0)


class _Group(Generic[T, R]):
    """The items of one caller, and when it handed them in (seconds of the loop's clock)."""

    __slots__ = ("answers", "at", "items", "loop", "size")

    def __init__(self, items: Sequence[T], size: int, loop: asyncio.AbstractEventLoop) -> None:
        self.items = items
        self.size = size
        self.loop = loop
        self.at = loop.time()
        self.answers: asyncio.Future[Sequence[R]] = loop.create_future()

    def fail(self, error: BaseException) -> None:
        """Let the caller have an error."""
        if not self.answers.done():
            self.answers.set_exception(error)


class Batcher(Generic[T, R]):
    """Gathers groups of items from many callers into one call; each caller gets the answers to its own items.

    A group is never torn apart. The call that fails, fails for the callers whose items were in it, unless the error
    concerns some of them alone (`separate`). A batch ends at `limit` items or `MAX_STATEMENT_LENGTH` characters, as
    `weigh` counts those of a group.
    """

    def __init__(
        self,
        flush: Callable[[list[T]], Awaitable[Sequence[R]]],
        limit: int,
        weigh: Callable[[Sequence[T]], int] = lambda items: 0,
    ) -> None:
        self._flush = flush
        self._limit = limit
        self._weigh = weigh
        self._waiting: deque[_Group[T, R]] = deque()
        self._sent: list[_Group[T, R]] = []
        self._task: asyncio.Task[None] | None = None
        # seconds that a caller waits while nothing moves, and what it gets then; None: for ever
        self._patience: float | None = None
        self._late: Callable[[], Exception] = TimeoutError
        # when the last flush ended well, by the loop's clock
        self._moved = float("-inf")
        # one timer for many groups, since nearly all are over before their time; when it ends, by the clock of its loop
        self._watch: asyncio.TimerHandle | None = None
        self._watch_ends = 0.0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._separates: tuple[type[Exception], ...] = ()
        self._flush_one = flush

    def separate(self, error: type[Exception], flush: Callable[[list[T]], Awaitable[Sequence[R]]]) -> None:
        """Flush the groups of a batch one by one, with another call, after the one for all has raised this error."""
        self._separates, self._flush_one = (error,), flush

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits and nothing is on its way."""
        return self._task is None or self._task.done()

    def limit_waits(self, seconds: float, late: Callable[[], Exception]) -> None:
        """Let callers wait for so long from their call, or from the last flush that ended well since.

        What has not been sent by then never will be. For what is on its way the error means that its end is not known.
        """
        self._patience, self._late = seconds, late

    async def put(self, items: Sequence[T]) -> Sequence[R]:
        """Hand in a group and wait for its answers, in order. Cancelling the wait does not take the items back."""
        loop = asyncio.get_running_loop()
        group: _Group[T, R] = _Group(items, self._weigh(items), loop)
        self._waiting.append(group)
        if self._task is None or self._task.done():
            self._task = loop.create_task(self._run())
            self._task.add_done_callback(self._let_go)
        return await group.answers

    def _let_go(self, task: asyncio.Task[None]) -> None:
        # A handler can cancel any task: then no caller waits for ever, not even where this one had not begun.
        while task.cancelled() and task is self._task and self._waiting:
            self._waiting.popleft().fail(asyncio.CancelledError())

    async def _run(self) -> None:
        while self._waiting:
            groups = self._sent = self._next()
            self._watch_from(groups[0])
            try:
                answers = await self._flush([item for group in groups for item in group.items])
            except BaseException as error:  # every caller gets it, cancellation of the flush included
                if len(groups) > 1 and isinstance(error, self._separates):
                    await self._flush_each(groups)
                    continue
                for group in groups:
                    group.fail(_for_a_future(error))
                if not isinstance(error, Exception):
                    raise
                continue
            finally:
                self._sent = []
            self._moved = groups[0].loop.time()
            start = 0
            for group in groups:
                if not group.answers.done():
                    group.answers.set_result(answers[start : start + len(group.items)])
                start += len(group.items)

    async def _flush_each(self, groups: Sequence[_Group[T, R]]) -> None:
        try:
            for group in groups:
                try:
                    answers = await self._flush_one(list(group.items))
                except Exception as error:  # noqa: BLE001 - its caller gets it
                    group.fail(error)
                else:
                    if not group.answers.done():
                        group.answers.set_result(answers)
        finally:
            for group in groups:
                group.fail(asyncio.CancelledError())  # of those that were not reached

    def _next(self) -> list[_Group[T, R]]:
        groups = [self._waiting.popleft()]
        number, size = len(groups[0].items), groups[0].size
        while self._waiting:
            number, size = number + len(self._waiting[0].items), size + self._waiting[0].size
            if number > self._limit or size > MAX_STATEMENT_LENGTH:
                break
            groups.append(self._waiting.popleft())
        return groups

    def _watch_from(self, first: _Group[T, R]) -> None:
        if self._patience is None:
            return
        due = self._due(first) + FLUSH_MARGIN
        if self._loop is not first.loop:
            self._watch, self._loop = None, first.loop  # the event loop before this one has ended, with its timers
        if self._watch is None or due < self._watch_ends:
            self._end_watch()
            self._watch, self._watch_ends = first.loop.call_at(due, self._expire), due

    def _end_watch(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
        self._watch = None

    def _due(self, group: _Group[T, R]) -> float:
        """Return when a group has waited for long enough; long lists take longer."""
        assert self._patience is not None
        times = 1 + len(group.items) // (10 * self._limit) + group.size // MAX_STATEMENT_LENGTH
        return max(group.at, self._moved) + self._patience * times

    def _expire(self) -> None:
        """Let callers go whose time is over, and look again when that of the next one is."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        late = [group for group in self._waiting if self._due(group) <= now]
        self._waiting = deque(group for group in self._waiting if self._due(group) > now)
        late += [group for group in self._sent if self._due(group) + FLUSH_MARGIN <= now]
        for group in late:
            group.fail(self._late())
        left = [self._due(group) for group in self._waiting]
        left += [self._due(group) + FLUSH_MARGIN for group in self._sent if not group.answers.done()]
        self._end_watch()
        if left:
            self._watch, self._watch_ends = loop.call_at(min(left), self._expire), min(left)

    async def drain(self) -> None:
        """Wait until everything handed in so far is flushed."""
        while self._task is not None and not self._task.done():
            await asyncio.wait([self._task])
        self._end_watch()


def _for_a_future(error: BaseException) -> BaseException:
    return error if isinstance(error, Exception) else asyncio.CancelledError()


class Clock(Protocol):
    """A source of the time; both values are in seconds."""

    def now(self) -> float:
        """Return the seconds since the epoch, which a person can set back or forth."""
        ...

    def monotonic(self) -> float:
        """Return seconds that only ever grow, for deadlines and durations."""
        ...


class SystemClock:
    """The clock of the machine."""

    def now(self) -> float:
        """Return the seconds since the epoch."""
        return time.time()

    def monotonic(self) -> float:
        """Return seconds that only ever grow."""
        return time.monotonic()


CANCEL_AGAIN = 15.0
"""Seconds until a task that goes on is cancelled once more: longer than what a task may have to do at its end."""


async def end_tasks(*tasks: asyncio.Future[Any] | None) -> None:
    """Cancel tasks, again where a library has lost that, and wait until they have ended, in whatever way."""
    left = [task for task in tasks if task is not None]
    while left:
        for task in left:
            task.cancel()
        await asyncio.wait({asyncio.gather(*left, return_exceptions=True)}, timeout=CANCEL_AGAIN)
        left = [task for task in left if not task.done()]


class Forked(Protocol):
    """What has to know that it finds itself in the child of a fork."""

    def after_fork(self) -> None:
        """Forget what belongs to the parent."""
        ...


_objects: WeakSet[Forked] = WeakSet()
_left: list[object] = []
"""The parent's objects, kept alive in the child: destroying them there could end the parent's sessions and waits."""


def watch_forks(one: Forked) -> None:
    """Register an object to be notified in the child of a fork."""
    _objects.add(one)


def leave(*of_the_parent: object) -> None:
    """Keep what belongs to the parent, and touch it never again."""
    _left.append(of_the_parent)


def _after_fork() -> None:
    for one in list(_objects):
        one.after_fork()


os.register_at_fork(after_in_child=_after_fork)


def to_stop() -> list[signal.Signals]:
    """Return the signals that drain; `nohup` has SIGHUP ignored."""
    ignored = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    return [signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, *([] if ignored else [signal.SIGHUP])]


class StopSignals:
    """While it is entered, the signals that drain call a function in the event loop of this process.

    Not of a child that a handler forks, as the library multiprocessing may: it has the loop's handlers of signals, and
    its own end of the pipe by which they wake the loop, so that a signal to the child would drain the worker.
    """

    def __init__(self, call: Callable[[], None]) -> None:
        self._call = call
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> None:
        loop = asyncio.get_running_loop()
        for number in to_stop():
            before = signal.getsignal(number)
            # only possible in the main thread
            with contextlib.suppress(ValueError, NotImplementedError, RuntimeError):
                loop.add_signal_handler(number, self._call)
                self._before[number] = signal.SIG_DFL if before is None else before
        _entered.append(self)

    def __exit__(self, *error: object) -> None:
        if self in _entered:  # not in a forked child that goes on here
            _entered.remove(self)
        for number in self._before:
            asyncio.get_running_loop().remove_signal_handler(number)

    def leave_to_parent(self) -> None:
        """Handle signals in a child as before."""
        if self._before:
            signal.set_wakeup_fd(-1)
        for number, before in self._before.items():
            signal.signal(number, before)


_entered: list[StopSignals] = []
_masks = threading.local()
"""What a thread that forks had blocked before: a signal may reach the child before that handles it as it should."""


def _block_signals() -> None:
    if _entered:
        _masks.before = signal.pthread_sigmask(signal.SIG_BLOCK, to_stop())


def _unblock_signals() -> None:
    before = vars(_masks).pop("before", None)
    if before is not None:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _reset_signals() -> None:
    for one in reversed(_entered):  # what the first of them found is what holds then
        one.leave_to_parent()
    _entered.clear()
    _unblock_signals()


os.register_at_fork(before=_block_signals, after_in_parent=_unblock_signals, after_in_child=_reset_signals)
