"""The releases of the demo's workers: when each is deployed, and the service that is stopped and started for it."""

from __future__ import annotations

import argparse
import asyncio
import math
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import cycle
from typing import NamedTuple

from jobconsole.demo.orders import BREAKING, BROKEN, CODE, FIRST, MENDED
from jobconsole.embedded.fleet import Fleet, FleetProcess
from jobconsole.format.humanize import duration
from queue_core import JobQueue
from queue_core.errors import QueueCoreError
from queue_core.model.filters import Filter, Term
from queue_core.model.operation import Author
from queue_core.model.states import Status
from queue_core.model.validation import parse_duration

TASK = "write_receipt"
"""The type that some releases break."""
OWNERS = ("ana", "bo")
"""Who has the failures that there are before a release breaks something."""
WHY = "known for a long time"
POLL_SECONDS = 1.0
"""Between two reads of what operators wait for."""
HEED_SECONDS = 5.0
"""From an operator's request for a release to its deployment."""
DRAIN_SECONDS = 20.0
"""Seconds that the workers have to end what they run; what is left then counts as unfinished."""


class Deployment(NamedTuple):
    """A release, and the seconds after the start at which it is deployed at the latest; infinite: only on demand."""

    release: str
    after: float


STORY = (Deployment("r2", 15.0), Deployment("r3", 240.0), Deployment("r4", 420.0), Deployment("r5", math.inf))
"""How it goes where nothing else is asked for."""


def parse_deployments(text: str) -> tuple[Deployment, ...]:
    """Return the deployments in `r2=15s,r3=4m,r4=never`; "none": no release after the first one.

    Raises:
        argparse.ArgumentTypeError: it is no such list.
    """
    if text == "none":
        return ()
    found = []
    for part in text.split(","):
        release, _, after = part.partition("=")
        if release not in CODE or release == FIRST:
            known = ", ".join(name for name in CODE if name != FIRST)
            raise argparse.ArgumentTypeError(f"'{part}' names no release of the demo: {known}")
        try:
            found.append(Deployment(release, math.inf if after == "never" else parse_duration(after)))
        except ValueError as problem:
            raise argparse.ArgumentTypeError(f"{release}: {problem}") from None
    order = [one.release for one in found]
    if order != sorted(set(order)):
        raise argparse.ArgumentTypeError(f"releases come once each, in their order, not {' '.join(order)}")
    return tuple(found)


class Requests(NamedTuple):
    """What operators wait for."""

    # releases that operations wait for
    awaited: frozenset[str] = frozenset()
    # whether they have marked the broken receipts as resolved
    resolved: bool = False


class Timetable:
    """Decides which release comes next; all times are seconds since the start."""

    def __init__(self, deployments: Sequence[Deployment]) -> None:
        self._left = list(deployments)
        # when the next one was first requested
        self._requested_at: float | None = None

    @property
    def next(self) -> Deployment | None:
        """What is deployed next; None: nothing."""
        return self._left[0] if self._left else None

    def due(self, now: float, requests: Requests) -> str | None:
        """Return the release to deploy now, once; None: none yet.

        One that an operation waits for comes soon, and one that breaks what was resolved, too.
        """
        if self.next is None:
            return None
        release, after = self.next
        if self._requested_at is None and (release in requests.awaited or (requests.resolved and release in BREAKING)):
            self._requested_at = now
        if now < after and (self._requested_at is None or now < self._requested_at + HEED_SECONDS):
            return None
        self._left.pop(0)
        self._requested_at = None
        return release


class WorkerService:
    """The demo's workers, of one release at a time."""

    def __init__(self, fleet: Fleet, arguments: Sequence[str], deployments: Sequence[Deployment]) -> None:
        self._fleet = fleet
        self._arguments = arguments
        self._timetable = Timetable(deployments)
        self.hints = tuple(hints(deployments))
        # the running one last, those that drain before it
        self._processes: list[FleetProcess] = []
        self._start(FIRST)

    async def end(self, seconds: float = DRAIN_SECONDS) -> bool:
        """End all of them, and return whether they did so by themselves."""
        return all(await asyncio.gather(*(self._end(one, seconds) for one in tuple(self._processes))))

    async def follow(self, jobs: JobQueue, started: float, write: Callable[[str], None]) -> None:
        """Deploy each release in its time; `started` is a moment of the monotonic clock.

        Raises:
            DemoError: a process cannot be started.
        """
        requests = Requests()
        while self._timetable.next is not None:
            with suppress(QueueCoreError):  # the store is away: time goes on all the same
                requests = await requests_of(jobs)
            release = self._timetable.due(time.monotonic() - started, requests)
            if release is not None:
                if release == BROKEN:
                    await take_known(jobs)
                write(f"release {release} is deployed: {_deed(release)}")
                await self.deploy(release)
            await asyncio.sleep(POLL_SECONDS)

    async def deploy(self, release: str) -> None:
        """Stop the service and start it with another release: no worker of the former one claims a job any more."""
        before = tuple(self._processes)
        ending = [asyncio.create_task(self._end(one, DRAIN_SECONDS)) for one in before]
        await asyncio.sleep(0)  # they have been asked to end
        self._start(release)
        await asyncio.gather(*ending)

    def _start(self, release: str) -> None:
        process = self._fleet.start("workers", "jobconsole.demo.workers", self._arguments, {"JOBS__RELEASE": release})
        self._processes.append(process)

    async def _end(self, process: FleetProcess, seconds: float) -> bool:
        willing = await self._fleet.end(process, seconds)
        self._processes.remove(process)
        return willing


async def take_known(jobs: JobQueue) -> None:
    """Give every signature so far an owner, as a team has that knows them: what comes later is new."""
    with suppress(QueueCoreError):
        groups = await jobs.inspector.signatures(Filter((Term("status", "=", Status.DEAD),)), POLL_SECONDS, 1, 50)
        for group, owner in zip(groups, cycle(OWNERS)):
            await jobs.signatures.own(group.signature, owner, why=WHY, author=Author(owner, "demo"))


async def requests_of(jobs: JobQueue) -> Requests:
    """Return what operators wait for at this moment."""
    operations = await jobs.operations.list_operations(unfinished=True)
    awaited = frozenset(release for one in operations if (release := one.request.rollout.when_release))
    broken = Filter((Term("status", "=", Status.DEAD), Term("type", "=", TASK)))
    groups = await jobs.inspector.signatures(broken, POLL_SECONDS, 1, 5)
    _, facts = await jobs.inspector.signature_facts([group.signature for group in groups])
    return Requests(awaited, any(one.state == "resolved" for one in facts.values()))


def hints(deployments: Sequence[Deployment]) -> list[str]:
    """Return the lines of the console's help on the releases, and what it shows with the receipts that fail."""
    lines = []
    for release, after in deployments:
        cause = "after the receipts are resolved" if release in BREAKING else "after a retry waits for it"
        when = [] if release == BROKEN else [f"{HEED_SECONDS:g}s {cause}"]
        if math.isfinite(after):
            when.append(f"{duration(after)} after the start" + (" at the latest" if when else ""))
        lines.append(f"release {release} is deployed {', '.join(when)}: {_deed(release)}")
    if any(one.release == MENDED for one in deployments):
        lines.append(f"{TASK}: R, type {MENDED} at 'begins': release {MENDED} mends it, and comes for it")
    return lines


def _deed(release: str) -> str:
    return f"it breaks {TASK}" if release in BREAKING else f"it mends {TASK}"
