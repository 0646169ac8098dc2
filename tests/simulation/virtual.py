"""Virtual time: an event loop whose clock goes on only when nothing else is left to do."""

from __future__ import annotations

import asyncio
import math
import random
import selectors
import time
import uuid
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from queue_core.model import job as job_module
from queue_core.model import retry as retry_module

BEGIN = 1_767_225_600.0
"""Seconds since the epoch at which each simulation begins."""
LOOK = 1e-6
"""Seconds that a look for work takes, so that a loop which waits for a time without sleeping comes to its end."""


class StuckError(AssertionError):
    """Every task waits for something that will never come, or the end of the allowed time is over."""


class VirtualTime:
    """Seconds that pass in no time, as `time` gives them."""

    def __init__(self, most: float) -> None:
        self.passed = 0.0
        self._most = most

    def monotonic(self) -> float:
        """Return the seconds since the simulation began."""
        return self.passed

    def time(self) -> float:
        """Return the seconds since the epoch."""
        return BEGIN + self.passed

    def time_ns(self) -> int:
        """Return the nanoseconds since the epoch."""
        return int(self.time() * 1e9)

    def advance(self, seconds: float) -> None:
        """Let time pass.

        Raises:
            StuckError: more has passed than a simulation may take.
        """
        self.passed += seconds
        if self.passed > self._most:
            most, self._most = self._most, math.inf  # what is broken off may take its time for that
            raise StuckError(f"not at its end after {most:g} simulated seconds")


class _Selector(selectors.SelectSelector):
    """Waits for nothing outside: the clock is moved to the next timer."""

    def __init__(self, clock: VirtualTime) -> None:
        super().__init__()
        self._clock = clock

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise StuckError("every task waits, and no timer is left")
        self._clock.advance(max(timeout, LOOK))
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop in virtual time; signals stay those of the process around it."""

    def __init__(self, clock: VirtualTime) -> None:
        super().__init__(_Selector(clock))

    def add_signal_handler(self, sig: int, callback: object, *args: object) -> None:
        raise NotImplementedError


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Let everything random depend on the seed."""
    state, source = random.getstate(), random.Random(seed)
    random.seed(seed)
    job_module.random_source.seed(seed)
    retry_module._source.seed(seed)
    with patch.object(uuid, "uuid4", lambda: uuid.UUID(int=source.getrandbits(128), version=4)):
        try:
            yield
        finally:
            random.setstate(state)


def run_virtually(main: Callable[[], Coroutine[Any, Any, None]], seed: int, most: float) -> None:
    """Run a coroutine in virtual time.

    Args:
        main: What is run.
        seed: Decides everything random: the same one runs in the same way.
        most: Seconds of virtual time after which it is broken off.

    Raises:
        StuckError: it does not come to its end.
    """
    clock = VirtualTime(most)
    with (
        _seeded(seed),
        patch.multiple(
            time, monotonic=clock.monotonic, time=clock.time, perf_counter=clock.monotonic, time_ns=clock.time_ns
        ),
        asyncio.Runner(loop_factory=lambda: VirtualLoop(clock)) as runner,
    ):
        runner.run(main())
