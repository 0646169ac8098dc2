"""The way of one worker to the store: calls are late, fail, lose their answers, or hang while the way is cut."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any

from queue_core.errors import StoreUnavailable
from queue_core.model.job import Claim, Outcome, Settled
from queue_core.ports.store import ClaimRequest, HeartbeatReply, HeartbeatRequest
from queue_core.worker.heartbeat import Heartbeat


@dataclass(frozen=True, slots=True)
class Weather:
    """How bad the way is: chances are 0 to 1."""

    # of a call that is not carried out
    fails: float
    # of a call that is carried out and whose answer is lost
    loses: float
    # of a call that takes longer than usual, and for how many seconds at most
    late: float
    latest: float

    @classmethod
    def choose(cls, source: Random) -> Weather:
        """Return fine weather or bad."""
        bad = source.choice([0.0, 0.02, 0.1, 0.3])
        return cls(*(bad * source.random() for _ in range(3)), latest=source.choice([0.5, 3.0, 12.0]))


@dataclass
class Ledger:
    """What was handed out and given back, and which handlers began and ended: kept outside the store."""

    trace: list[str] = field(default_factory=list)
    # (job, token), in this order
    started: list[tuple[str, int]] = field(default_factory=list)
    ended: set[tuple[str, int]] = field(default_factory=set)
    # given back by an outcome, a reclaim or a heartbeat
    back: set[tuple[str, int]] = field(default_factory=set)
    # refused without having been stored before
    refused: set[tuple[str, int]] = field(default_factory=set)
    problems: list[str] = field(default_factory=list)

    def note(self, text: str) -> None:
        """Write a line of the trace, with the time."""
        self.trace.append(f"{time.monotonic():9.4f} {text}")


class Link:
    """The store, as one worker reaches it."""

    def __init__(self, name: str, store: Any, weather: Weather, source: Random, ledger: Ledger) -> None:
        self.link_name = name
        self._store = store
        self._weather = weather
        self._source = source
        self._ledger = ledger
        self._passable = asyncio.Event()
        self._passable.set()
        # calls that are made while the way is cut fail at its end in place of being carried out late
        self._forgets = False
        self._dead = False

    def __getattr__(self, name: str) -> Any:
        part = getattr(self._store, name)
        if not inspect.iscoroutinefunction(part):
            return part

        async def call(*args: Any, **options: Any) -> Any:
            return await self._call(name, part, args, options)

        return call

    async def settle_and_claim(
        self, outcomes: Sequence[Outcome], requests: Sequence[ClaimRequest]
    ) -> tuple[list[Settled], list[Claim]]:
        """Call it as `__getattr__` does, for who asks whether there is such a method."""
        answer: tuple[list[Settled], list[Claim]] = await self._call(
            "settle_and_claim", self._store.settle_and_claim, (outcomes, requests), {}
        )
        return answer

    def open_heartbeat(self) -> Any:
        """Return the heartbeat's own way, which is cut with this one."""
        return HeartbeatLink(self, self._store.open_heartbeat())

    def cut(self, forgets: bool) -> None:
        """Let calls hang from now on; with `forgets` those that hang fail in the end."""
        self._ledger.note(f"{self.link_name} is cut off")
        self._passable.clear()
        self._forgets = forgets

    def mend(self) -> None:
        """Let calls through again."""
        self._ledger.note(f"{self.link_name} is back")
        self._passable.set()

    def kill(self) -> None:
        """Let nothing through for ever, as for a process that is gone."""
        self._ledger.note(f"{self.link_name} dies")
        self._dead = True
        self._passable.clear()

    @property
    def dead(self) -> bool:
        """Whether the process behind it is gone."""
        return self._dead

    def check(self) -> None:
        """Fail as a call of the heartbeat may.

        Raises:
            StoreUnavailable: the way is cut, or the call fails.
        """
        if not self._passable.is_set() or self._source.random() < self._weather.fails:
            raise self.failure()

    def loses(self) -> bool:
        """Return whether an answer is lost."""
        return self._source.random() < self._weather.loses

    def failure(self) -> StoreUnavailable:
        """Return what a call fails with."""
        return StoreUnavailable("memory", f"{self.link_name} cannot reach it")

    async def _call(self, name: str, part: Callable[..., Any], args: Any, options: Any) -> Any:
        await self._travel()
        if not self._passable.is_set():
            await self._passable.wait()
            if self._forgets:
                raise self.failure()
        if self._source.random() < self._weather.fails:
            raise self.failure()
        answer = await part(*args, **options)
        self._write_down(name, args, answer)
        await self._travel()
        if self._dead:
            await self._passable.wait()
        if self.loses():
            self._ledger.note(f"{self.link_name} loses the answer to {name}")
            raise self.failure()
        return answer

    async def _travel(self) -> None:
        late = self._source.random() < self._weather.late
        await asyncio.sleep(self._source.uniform(0.0, self._weather.latest if late else 0.01))

    def _write_down(self, name: str, args: Any, answer: Any) -> None:
        ledger = self._ledger
        if name == "claim":
            self._claimed(answer)
        elif name == "settle":
            self._settled(args[0], answer)
        elif name == "settle_and_claim":
            self._settled(args[0], answer[0])
            self._claimed(answer[1])
        elif name == "reclaim":
            for job in answer:
                ledger.note(f"{self.link_name} takes back {short(job.id)} from {job.token}")
                ledger.back.add((job.id, job.token))

    def _claimed(self, claims: Sequence[Claim]) -> None:
        for claim in claims:
            self._ledger.note(f"{self.link_name} claims {short(claim.id)} as {claim.token}")

    def _settled(self, outcomes: Sequence[Outcome], answers: Sequence[Settled]) -> None:
        ledger = self._ledger
        for outcome, answer in zip(outcomes, answers, strict=True):
            result = "accepted" if answer.accepted else "refused"
            ledger.note(f"{self.link_name} settles {short(outcome.id)} of {outcome.token} as {outcome.kind}: {result}")
            key = (outcome.id, outcome.token)
            if not answer.accepted and outcome.kind == "completed":
                ledger.refused.add(key)
            elif answer.accepted and outcome.kind in {"retrying", "released"}:
                ledger.back.add(key)


class HeartbeatLink:
    """A worker's heartbeat, as it reaches the store."""

    def __init__(self, link: Link, heartbeat: Any) -> None:
        self.link = link
        self._heartbeat = heartbeat

    def __getattr__(self, name: str) -> Any:
        return getattr(self._heartbeat, name)

    def renew(self, request: HeartbeatRequest) -> HeartbeatReply:
        self.link.check()
        reply: HeartbeatReply = self._heartbeat.renew(request)
        if self.link.loses():
            raise self.link.failure()
        return reply


class LoopHeartbeat(Heartbeat):
    """The heartbeat as a task in virtual time in place of a thread."""

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        # All processes are this one, so that none sees that another is gone: leases decide.
        self._process = ""
        self._call = asyncio.Event()
        self._task = self._loop.create_task(self._beating())

    def wake(self) -> None:
        super().wake()
        self._call.set()

    async def close(self) -> None:
        self._stop.set()
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task
        with suppress(StoreUnavailable):
            self.end()

    def _answer(self, called: bool) -> None:
        """No stack is asked for here."""

    async def _beating(self) -> None:
        while not self._stop.is_set():
            self.run_once()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._times.tick):
                    await self._call.wait()
            self._call.clear()


def short(job_id: str) -> str:
    """Return the part of an id that differs."""
    return job_id[-6:]
