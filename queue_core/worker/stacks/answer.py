"""How a worker answers where a running job is: from the heartbeat's thread, so that no handler can hold it up.

The answer is a JSON object: `kind` (task, thread, or "child task" and "child thread" of a child process), `frames` (of
`CodeFrame`, as lists), `lag` (seconds that the event loop took to answer; null: it did not), `memory` and `grown`
(bytes of the process, and since `grown_over` seconds ago), `running` (seconds); or `problem`, a sentence.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import json
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from queue_core.ports.store import StackRequest, StoreHeartbeat
from queue_core.worker.attempt import AskedChild, RunningAttempt
from queue_core.worker.stacks.frames import of_task, of_thread

LAG_SECONDS = 0.3
"""How long the event loop is waited for; it is blocked if it takes longer."""
CHILD_SECONDS = 0.5
"""How long a child process is waited for."""
MEMORY_SECONDS, MEMORY_KEPT = 30.0, 21
"""Seconds between two samples of the process's memory, and how many are kept: ten minutes."""
ENDED = "the job has ended, or was given back"
WAITS = "the job has not begun: it waits in its worker for a free slot"


def take(attempt: RunningAttempt, loop: asyncio.AbstractEventLoop, thread: int) -> dict[str, Any]:
    """Return where the handler of an attempt is in this process; `thread`: that of the event loop."""
    ident, task = attempt.thread, attempt.task
    if ident is not None:
        return {"kind": "thread", "frames": of_thread(ident)}
    if task is None:
        return {"problem": WAITS}
    return {"kind": "task", "frames": of_task(task, loop, thread)}


class ProcessMemory:
    """How much memory this process holds, and how that has grown."""

    def __init__(self) -> None:
        # (seconds of time.monotonic, bytes)
        self._samples: deque[tuple[float, int]] = deque(maxlen=MEMORY_KEPT)

    def sample(self) -> None:
        """Note the memory from time to time."""
        now = time.monotonic()
        if not self._samples or now - self._samples[-1][0] >= MEMORY_SECONDS:
            self._samples.append((now, resident()))

    def facts(self) -> dict[str, Any]:
        """Return the bytes held, and since the oldest sample."""
        now, held = time.monotonic(), resident()
        first = self._samples[0] if self._samples else (now, held)
        return {"memory": held, "grown": held - first[1], "grown_over": round(now - first[0], 1)}


def resident() -> int:
    """Return the bytes of memory that this process holds; 0 where the system does not report it."""
    with suppress(OSError, ValueError, IndexError):
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0


class StackAnswers:
    """Answers the requests of a worker; for the heartbeat's thread alone."""

    def __init__(
        self,
        store_heartbeat: StoreHeartbeat,
        worker: Callable[[], str],
        held: Mapping[str, RunningAttempt],
        loop: asyncio.AbstractEventLoop,
        thread: int,
    ) -> None:
        self._store_heartbeat = store_heartbeat
        self._worker = worker
        self._held = held
        self._loop = loop
        self._thread = thread
        self.memory = ProcessMemory()

    def run_once(self) -> int:
        """Answer what is asked, and return how many requests there were.

        Raises:
            StoreUnavailable: the rest is answered in the next round.
        """
        asked = self._store_heartbeat.stack_requests(self._worker())
        for request in asked:
            self._store_heartbeat.give_stack(request, json.dumps(self._answer(request)))
        return len(asked)

    def _answer(self, request: StackRequest) -> dict[str, Any]:
        attempt = self._held.get(request.job_id)
        if attempt is None:
            return self._facts() | {"problem": ENDED}
        # Before the loop is asked for its lag: by then the handler may be elsewhere.
        if attempt.child is not None:
            found = self._of_child(attempt.child)
        else:
            found = take(attempt, self._loop, self._thread) if attempt.started else {"problem": WAITS}
        return self._facts() | {"running": attempt.run_us() / 1e6} | found

    def _facts(self) -> dict[str, Any]:
        return self.memory.facts() | {"lag": self._lag()}

    def _lag(self) -> float | None:
        answered, began = threading.Event(), time.monotonic()
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(answered.set)
        return time.monotonic() - began if answered.wait(LAG_SECONDS) else None

    def _of_child(self, child: AskedChild) -> dict[str, Any]:
        try:
            asked = asyncio.run_coroutine_threadsafe(child.stack(), self._loop)
            try:
                return asked.result(CHILD_SECONDS)
            except (concurrent.futures.TimeoutError, TimeoutError):
                asked.cancel()
                return {"problem": f"the child process {child.pid} did not answer in {CHILD_SECONDS:g} s"}
        except (RuntimeError, OSError, concurrent.futures.CancelledError):
            return {"problem": f"the child process {child.pid} cannot be asked: it is ending"}
