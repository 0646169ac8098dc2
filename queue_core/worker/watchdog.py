"""Notices an event loop that does not answer, names the job that holds it up, and gives up on one that never will."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Set
from types import CodeType
from typing import NamedTuple

from queue_core.job import Claim
from queue_core.text import cut
from queue_core.worker.options import EXIT_FAILED

LOOK = 0.25
"""Seconds between two questions to the loop: a few microseconds of its time each."""
LAG = 1.0
"""Seconds without an answer after which it is logged who holds the loop up."""

LOOPS = frozenset({"asyncio", "selectors", "uvloop"})
"""What runs where the loop waits, or runs what is not written in Python."""

logger = logging.getLogger("queue_core.worker")


class Patience(NamedTuple):
    """Seconds without an answer from the event loop."""

    # after which what has not begun is given back
    stall: float
    # after which it is given up
    wedged: float


def end_process() -> None:
    """End this process as one that failed, whatever its event loop is doing."""
    logging.shutdown()
    os._exit(EXIT_FAILED)


class Watchdog:
    """A thread that asks the loop to answer; `find` tells which job's handler a task runs, by the code in its stack."""

    def __init__(
        self,
        find: Callable[[asyncio.Task[object] | None, Set[CodeType]], Claim | None],
        patience: Patience,
        stalled: Callable[[], None],
        give_up: Callable[[], None] | None,
    ) -> None:
        self._find = find
        self._patience = patience
        self._stalled = stalled
        # whether that was called since the loop last answered
        self._told_stalled = False
        self._give_up = give_up
        self._answered = 0.0
        self._stop = threading.Event()

    def start(self) -> None:
        """Start watching the running loop."""
        loop = asyncio.get_running_loop()
        self._answered = time.monotonic()
        watched = threading.get_ident()
        threading.Thread(target=self._run, args=(loop, watched), name="watchdog", daemon=True).start()

    def stop(self) -> None:
        """Stop watching; the thread ends by itself."""
        self._stop.set()

    def _answer(self) -> None:
        self._answered = time.monotonic()

    def _run(self, loop: asyncio.AbstractEventLoop, watched: int) -> None:
        since: float | None = None
        asked_at = time.monotonic()
        while not self._stop.wait(LOOK):
            now = time.monotonic()
            if now - asked_at > LAG:
                # This thread did not run either: the machine or the process stood still, and no job is to blame.
                self._answered += now - asked_at
            asked_at = now
            try:
                loop.call_soon_threadsafe(self._answer)
            except RuntimeError:  # the loop is closed
                return
            silent = now - self._answered
            if silent <= LAG:
                if since is not None:
                    logger.warning("the event loop answers again after %.1f s", now - since)
                since, self._told_stalled = None, False
                continue
            if since is None:
                since = self._answered
                self._tell(loop, watched, silent)
            if silent > self._patience.stall and not self._told_stalled:
                self._told_stalled = True
                self._stalled()
            if self._give_up is not None and silent > self._patience.wedged:
                logger.critical("the event loop has not answered for %.0f s; this process ends", silent)
                self._tell(loop, watched, silent)
                self._give_up()
                return

    def _tell(self, loop: asyncio.AbstractEventLoop, watched: int, silent: float) -> None:
        frame = sys._current_frames().get(watched)
        stack = list(traceback.walk_stack(frame))
        claim = self._find(asyncio.current_task(loop), {one.f_code for one, _ in stack})
        if claim:
            who = f"job {claim.id} of type '{claim.type}' holds it up"
        elif frame is None or str(frame.f_globals.get("__name__")).partition(".")[0] in LOOPS:
            who = "no job's handler holds it up"
        else:
            who = f"{frame.f_code.co_qualname} holds it up, which is no job's handler"
        where = cut("".join(traceback.format_stack(frame)[-8:]), 8 << 10) if frame else ""
        logger.warning("the event loop has not answered for %.1f s: %s, at\n%s", silent, who, where)
