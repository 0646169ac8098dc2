"""A worker service: keeps worker processes running, replaces dead ones and takes their jobs back, passes signals on.

What speaks to the store is imported on a thread, once a worker works: a service is small and starts its processes at
once.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from types import FrameType
from typing import TYPE_CHECKING, Any, Literal

from queue_core.runtime import to_stop
from queue_core.worker.options import (
    EXIT_FAILED,
    EXIT_LIFESPAN,
    EXIT_RECYCLE,
    EXIT_REFUSED,
    EXIT_USAGE,
    SIGN_TICK,
    Note,
    ProcessReport,
    ServiceManager,
    ServiceOptions,
    ServiceReport,
    open_note,
    read_note,
    read_vitals,
    signs,
)

if TYPE_CHECKING:
    from queue_core.queue import JobQueue

logger = logging.getLogger("queue_core.worker")


FIRST_PAUSE, MAX_PAUSE = 0.5, 30.0
"""Seconds before a process that died soon after its start is replaced, doubling; any other one is replaced at once."""
YOUNG_SECONDS = 10.0
"""Seconds of life after which a death is no evidence about the start."""

PREPARE_TICK = 0.5
"""Seconds between two checks whether the first worker works."""
SILENCE_SECONDS = 5.0
"""Seconds over its grace period that a worker may take without a sign of its event loop, before it is killed."""
LAST_SECONDS = 2.0
"""Seconds that a service which ends waits for its reports."""
TAKE_BACK_SECONDS = 60.0
"""Seconds after which a store that does not answer is left to the ends of the leases."""
TAKE_BACK_PAUSE = 0.5
"""Seconds between two tries to take a worker's jobs back."""


@dataclass
class _ProcessSlot:
    """One of the service's processes and when it may be replaced."""

    process: subprocess.Popen[bytes] | None = None
    started_at: float = 0.0
    start_at: float = 0.0
    pause: float = FIRST_PAUSE
    # how many of the signals to stop this process was sent
    passed: int = 0
    # it is to end, so that the next one has the changed sources
    outdated: bool = False
    # descriptor of the file in which it notes who it is
    note: int = -1
    # descriptor of the file with the vitals of whatever process is in this place
    vitals: int = -1
    # seconds of time.monotonic after which it is killed unless it gives a sign, and how many it had given
    kill_at: float = math.inf
    signs: int = 0


@dataclass
class Service:
    """The parent process. It runs no jobs, so whatever a job does to its worker, it is there to start the next one."""

    target: str
    options: ServiceOptions
    # called with the pids whenever they change
    on_change: Callable[[list[int]], None] = lambda pids: None
    # the settings of the workers' queue object as plain values, once one has noted them
    settings: dict[str, Any] | None = None
    # processes that were replaced, by why: recycled, died
    restarts: Counter[str] = field(default_factory=Counter)
    # calls what it is given whenever the sources have changed, in a thread of its own; None: they are not watched
    watch: Callable[[Callable[[], None]], None] | None = None
    _manager: ServiceManager = field(default_factory=lambda: ServiceManager({}))
    _places: list[_ProcessSlot] = field(default_factory=list)
    _stops: int = 0
    _exit: int = 0
    # the sources have changed
    _reload: bool = False
    _wake: int = -1
    # on their way to the stores: which workers have died
    _reports: list[threading.Thread] = field(default_factory=list)

    def run(self) -> int:
        """Run until SIGTERM or SIGINT, or until a wrong target, setting or store ends all; return the exit code."""
        self._manager = ServiceManager(os.environ)
        self._places = [_ProcessSlot(vitals=open_note()) for _ in range(self.options.processes)]
        self.options = replace(self.options, service=os.getpid())
        wake_read, wake_write = os.pipe()
        os.set_blocking(wake_write, False)
        self._wake = wake_write
        selector = selectors.DefaultSelector()
        selector.register(wake_read, selectors.EVENT_READ)
        old_wakeup = signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        handled = (*to_stop(), signal.SIGCHLD)
        before = {number: signal.signal(number, self._on_signal) for number in handled}
        threading.Thread(target=self._prepare, name="prepare", daemon=True).start()
        if self.watch is not None:
            threading.Thread(target=self.watch, args=(self.reload,), name="watch", daemon=True).start()
        try:
            while self._turn():
                self._manager.notify(self.report())
                # Signals wake the loop through the pipe, so a death is seen at once.
                if selector.select(self._patience()):
                    os.read(wake_read, 4096)
        finally:
            self._wake = -1
            self._kill()
            for thread in self._reports:
                thread.join(LAST_SECONDS)
            signal.set_wakeup_fd(old_wakeup)
            for number, handler in before.items():
                signal.signal(number, handler)
            selector.close()
            os.close(wake_read)
            os.close(wake_write)
        return self._exit

    def reload(self) -> None:
        """Replace every process, since the sources have changed; from any thread."""
        self._reload = True
        with contextlib.suppress(OSError):  # the service has ended, or the pipe is full
            os.write(self._wake, b"r")

    def _prepare(self) -> None:
        """Be ready to take the jobs of a worker back, once the first one works: importing that takes long."""
        while not self._stops:
            time.sleep(PREPARE_TICK)
            for place in self._places:
                if place.process is not None and (note := read_note(place.note)) is not None:
                    self.settings = note.settings
                    with contextlib.suppress(Exception):  # what is wrong is logged when it is needed
                        _import_store(note)
                    return

    def _turn(self) -> bool:
        """Look after every place; False when there is nothing left to do."""
        changed = False
        if self._reload:
            self._reload = False
            logger.info("the sources have changed; workers drain and are replaced")
            for place in self._places:
                place.outdated, place.start_at, place.pause = True, 0.0, FIRST_PAUSE
        for place in self._places:
            changed |= self._check(place)
        if changed:
            self.on_change(self._pids())
        if self._stops:
            return any(place.process is not None for place in self._places)
        return True

    def _check(self, place: _ProcessSlot) -> bool:
        now = time.monotonic()
        if place.process is not None:
            code = place.process.poll()
            if code is None:
                self._signal(place, place.process)
                self._end_in_time(place, place.process, now)
                return False
            self._buried(place, code, now)
            return True
        if self._stops or now < place.start_at:
            return False
        place.outdated = False
        place.note = open_note()
        os.ftruncate(place.vitals, 0)
        options = replace(self.options, note=place.note, vitals=place.vitals)
        command = [sys.executable, "-m", "queue_core.worker.process", self.target, options.to_json()]
        # A group of its own: Ctrl+C reaches this process alone, which passes one signal on.
        place.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, process_group=0, pass_fds=(place.note, place.vitals)
        )
        place.started_at = now
        place.passed, place.kill_at, place.signs = 0, math.inf, 0
        # A signal may have come while the process was being started.
        self._signal(place, place.process)
        return True

    def _buried(self, place: _ProcessSlot, code: int, now: float) -> None:
        """Note the end of a process and decide when it is replaced."""
        pid = place.process.pid if place.process else 0
        place.process = None
        note = read_note(place.note)
        os.close(place.note)
        if code not in (0, EXIT_RECYCLE, EXIT_REFUSED, EXIT_LIFESPAN) and note is not None:
            # It did not give its jobs back; its lease would, in minutes. A store of another version would refuse them.
            self._reports = [*filter(threading.Thread.is_alive, self._reports), _report(note)]
        if self._stops:
            self._exit = max(self._exit, 1 if code not in (0, EXIT_RECYCLE, -signal.SIGTERM, -signal.SIGINT) else 0)
            return
        self.restarts["recycled" if code == EXIT_RECYCLE or place.outdated else "died"] += 1
        if code == EXIT_RECYCLE or place.outdated:
            place.pause, place.start_at = FIRST_PAUSE, now
            return
        if self.watch is not None and code in (EXIT_USAGE, EXIT_REFUSED, EXIT_LIFESPAN):
            logger.warning("worker process %d could not start; the next change of the sources starts it again", pid)
            place.start_at = math.inf
            return
        if code == EXIT_LIFESPAN:
            # It had claimed nothing, and the next one would most likely end so, too; the others drain.
            self._exit, self._stops = EXIT_FAILED, 1
            return
        soon = now - place.started_at < YOUNG_SECONDS
        if (soon or note is None) and code in (EXIT_USAGE, EXIT_REFUSED):
            # Neither a wrong target nor a store of another version becomes right by trying again, however long the
            # start took: without a note it has not begun.
            self._exit = code
            self._stops = 1
            return
        place.pause = min(MAX_PAUSE, place.pause * 2) if soon else FIRST_PAUSE
        place.start_at = now + (place.pause if soon and code != 0 else 0.0)
        how = f"was killed by signal {-code}" if code < 0 else f"exited with {code}"
        logger.warning("worker process %d %s; it is replaced in %.1f s", pid, how, max(0.0, place.start_at - now))

    def _patience(self) -> float | None:
        """Return the seconds until a place wants its next process, or a check; None while all have theirs."""
        if self._stops or any(place.outdated for place in self._places):
            return SIGN_TICK
        waits = [time.monotonic() + self._manager.patience] if self._manager.patience < math.inf else []
        waits += [one.start_at for one in self._places if one.process is None and one.start_at < math.inf]
        return max(0.0, min(waits) - time.monotonic()) if waits else None

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        # Only noted here: the loop that it wakes passes it on, to processes that are just being started, too.
        if number != signal.SIGCHLD:
            self._stops += 1

    def _signal(self, place: _ProcessSlot, process: subprocess.Popen[bytes]) -> None:
        """Pass on the signals that this process has not got; the first signal drains, the second one stops."""
        while place.passed < max(min(2, self._stops), int(place.outdated)):
            place.passed += 1
            process.send_signal(signal.SIGTERM)
            grace = self.options.grace if place.passed == 1 else 0.0
            place.kill_at = min(place.kill_at, time.monotonic() + grace + SILENCE_SECONDS)

    def _end_in_time(self, place: _ProcessSlot, process: subprocess.Popen[bytes], now: float) -> None:
        """Kill a process that was ordered to end, whose time is over, and whose event loop does not go on."""
        if (self._stops or place.outdated) and (given := signs(place.note)) != place.signs:
            place.signs = given
            place.kill_at = max(place.kill_at, now + SILENCE_SECONDS)
        if now >= place.kill_at:
            logger.warning("worker process %d does not end and is killed", process.pid)
            process.kill()
            place.kill_at = math.inf

    def report(self) -> ServiceReport:
        """Return how the processes are; from any thread."""
        now = time.monotonic()
        return ServiceReport(tuple(_seen(place, now) for place in self._places), bool(self._stops))

    def _kill(self) -> None:
        for place in self._places:
            if place.process is not None:
                place.process.kill()
                place.process.wait()

    def _pids(self) -> list[int]:
        return [place.process.pid for place in self._places if place.process is not None]


def _seen(place: _ProcessSlot, now: float) -> ProcessReport:
    process, vitals = place.process, read_vitals(place.vitals)
    since = place.started_at if vitals is None else vitals.at
    silence = max(0.0, now - max(since, place.started_at))
    if process is None:
        return ProcessReport(None, "down", None, silence)
    if vitals is None:
        return ProcessReport(process.pid, "starting", None, silence)
    state: Literal["working", "stopping"] = "working" if vitals.working else "stopping"
    return ProcessReport(process.pid, "starting" if not vitals.working and not place.passed else state, vitals, silence)


def _report(note: Note) -> threading.Thread:
    """Take the jobs of a worker back that has died, on a thread, which is returned."""
    thread = threading.Thread(target=take_back, args=(note,), name="report", daemon=True)
    thread.start()
    return thread


def _import_store(note: Note) -> None:
    """Import what taking jobs back from this worker's store needs: that takes longer than all the rest."""
    from queue_core.backends import open_backend
    from queue_core.model.settings import JobsSettings
    from queue_core.worker import leader  # noqa: F401

    open_backend(JobsSettings.model_validate(note.settings))


def take_back(note: Note) -> None:
    """Take the jobs of a worker back that has died; for a thread of its own."""
    import asyncio

    try:
        asyncio.run(asyncio.wait_for(_take_back(note), TAKE_BACK_SECONDS))
    except TimeoutError:
        logger.warning("the jobs of worker %s are left until their leases end: no answer from the store", note.worker)
    except Exception:  # the service must go on
        logger.exception("the jobs of worker %s are left until their leases end", note.worker)


async def _take_back(note: Note) -> None:
    import asyncio

    from queue_core.errors import QueueCoreError
    from queue_core.model.settings import JobsSettings
    from queue_core.queue import JobQueue
    from queue_core.worker.neighbours import WRITE_OFF_DELAYS

    settings = JobsSettings.model_validate(note.settings)
    waits = [now - before for before, now in zip((0.0, *WRITE_OFF_DELAYS), WRITE_OFF_DELAYS, strict=False)]
    reason = ""
    while waits:
        try:
            async with JobQueue(settings=settings) as jobs:
                while waits:
                    await asyncio.sleep(waits[0])
                    await _write_off(jobs, note.worker)
                    waits.pop(0)
        except QueueCoreError as error:
            if str(error) != reason:  # once for each reason: it is tried twice a second
                reason = str(error)
                logger.warning("the jobs of worker %s wait for the store: %s", note.worker, reason)
            await asyncio.sleep(TAKE_BACK_PAUSE)


async def _write_off(jobs: JobQueue, worker: str) -> None:
    import asyncio

    from queue_core.worker.journal import EventPublisher
    from queue_core.worker.leader import LEADERSHIP_SECONDS, Duty, Sweeper
    from queue_core.worker.neighbours import write_off

    publisher = EventPublisher(jobs.bus)
    announcing = asyncio.create_task(publisher.run())
    sweeper = Sweeper(
        jobs.parts,
        jobs.operations.executor(),
        jobs.hooks,
        publisher,
        Duty(worker, LEADERSHIP_SECONDS, jobs.settings.defaults.max_losses),
    )
    try:
        await write_off(jobs.store, sweeper.reclaim, [worker])
    finally:
        await publisher.close(announcing)


def supervise(
    target: str,
    options: ServiceOptions,
    on_change: Callable[[list[int]], None] = lambda pids: None,
) -> int:
    """Run a service in this process, which must be the main thread; return its exit code."""
    return Service(target, options, on_change).run()
