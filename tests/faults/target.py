"""What the workers of the fault tests run: handlers that write the ledger, and a queue object that can be hit.

`arm` leaves a file that names a point of the protocol; the first process that comes to it removes the file and is
killed, or stops itself, there and then.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from psycopg import AsyncConnection

from queue_core import JobContext, JobQueue, Retry
from queue_core.delivery import audit
from queue_core.model.job import Claim, Outcome, Reclaimed, Settled
from queue_core.ports.store import ClaimRequest
from queue_core.stores.postgres.session import runner
from queue_core.worker import leader
from tests.around import Around
from tests.faults.impatience import settings
from tests.faults.ledger import Pen

FOLDER = Path(os.environ["FAULTS_FOLDER"])
POSTGRES = os.environ["FAULTS_POSTGRES"]

# Seconds instead of 10 and 20: no test is to wait so long for what an idle leader looks after.
audit.IDLE_SECONDS, leader.IDLE_UPKEEP_INTERVAL = 1.5, 3.0
pen = Pen(FOLDER)
# attempts whose handler's own transaction is about to be committed, or may have been
in_doubt: set[tuple[str, int]] = set()


def come_to(point: str) -> None:
    """Meet what a test has prepared for whoever comes to this point first."""
    trap = FOLDER / f"trap-{point}"
    try:
        what = trap.read_text()
        trap.rename(FOLDER / f"sprung-{point}-{os.getpid()}")
    except FileNotFoundError:
        return
    os.kill(os.getpid(), signal.Signals[what])


class HitStore(Around):
    """The store, with points before and after its calls, and the ledger of what it gave back and refused."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def claim(self, request: ClaimRequest) -> list[Claim]:
        claims: list[Claim] = await self._store.claim(request)
        if claims:
            come_to("after_claim")
        return claims

    async def settle(self, outcomes: Sequence[Outcome]) -> list[Settled]:
        come_to("before_settle")
        answers: list[Settled] = await self._store.settle(outcomes)
        self._write(outcomes, answers)
        come_to("after_settle")
        return answers

    async def settle_and_claim(
        self, outcomes: Sequence[Outcome], requests: Sequence[ClaimRequest]
    ) -> tuple[list[Settled], list[Claim]]:
        come_to("before_settle")
        answers, claims = await self._store.settle_and_claim(outcomes, requests)
        self._write(outcomes, answers)
        come_to("after_settle")
        return answers, claims

    def _write(self, outcomes: Sequence[Outcome], answers: Sequence[Settled]) -> None:
        for outcome, answer in zip(outcomes, answers, strict=True):
            if not answer.accepted:
                if outcome.kind == "completed" or (outcome.id, outcome.token) not in in_doubt:
                    pen.write("refused", outcome.id, outcome.token)
            elif outcome.kind in {"retrying", "released"}:
                pen.write("back", outcome.id, outcome.token, outcome.kind)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Any]:
        async with self._store.transaction() as connection:
            yield connection
            come_to("before_joint_commit")
        come_to("after_joint_commit")

    async def settle_on(self, connection: Any, outcome: Outcome) -> Settled:
        answer: Settled = await self._store.settle_on(connection, outcome)
        if answer.accepted:
            in_doubt.add((outcome.id, outcome.token))
        else:
            pen.write("refused", outcome.id, outcome.token)
        return answer

    async def reclaim(self, limit: int, bound: int) -> list[Reclaimed]:
        reclaimed: list[Reclaimed] = await self._store.reclaim(limit, bound)
        pen.reclaimed(reclaimed)
        return reclaimed


class HitDispatcher(Around):
    """The dispatcher, with a point behind each take."""

    def __init__(self, dispatcher: Any) -> None:
        self._dispatcher = dispatcher

    def __getattr__(self, name: str) -> Any:
        return getattr(self._dispatcher, name)

    async def take(self, queues: Sequence[str], limit: int, timeout: float) -> Any:
        taken = await self._dispatcher.take(queues, limit, timeout)
        if taken is not None:
            come_to("after_pop")
        return taken


class HitBus:
    """The bus, with a point before each message."""

    def __init__(self, bus: Any) -> None:
        self._bus = bus

    def __getattr__(self, name: str) -> Any:
        return getattr(self._bus, name)

    async def publish(self, events: Sequence[Any]) -> None:
        if any(event.event == "completed" for event in events):
            come_to("before_event")
        await self._bus.publish(events)


class HitQueue(JobQueue):
    """A queue object whose parts can be hit."""

    @property
    def parts(self) -> Any:
        return super().parts._replace(store=self.store, dispatcher=self.dispatcher, bus=self.bus)

    @property
    def store(self) -> Any:
        return HitStore(super().store)

    @property
    def dispatcher(self) -> Any:
        return HitDispatcher(super().dispatcher)

    @property
    def bus(self) -> Any:
        return HitBus(super().bus)


FENCE = (
    b" AND l.token = i.token",
    b" AND j.last_token < i.token",
    b"AND last_token = ANY (ARRAY(SELECT DISTINCT last_token FROM held))",
)


def without_fence(name: str, schema: str | None = None, load: Any = runner.load) -> bytes:
    """Return a query without what refuses outdated tokens, to show that the checks see what comes of it."""
    text: bytes = load(name, schema)
    if name == "settle/finish":
        for clause in FENCE:
            assert clause in text, f"the statement has no longer: {clause!r}"
            text = text.replace(clause, b"")
    return text


if os.environ.get("FAULTS_WITHOUT_FENCE"):
    runner.load = without_fence  # type: ignore[assignment]

jobs = HitQueue(settings=settings(POSTGRES, os.environ["FAULTS_REDIS"], os.environ["FAULTS_PREFIX"]))


@jobs.task(retry=Retry(max_retries=3, delay=0.2), timeout=60)
async def work(ctx: JobContext, ms: float = 0) -> dict[str, int]:
    pen.start(ctx.job_id, ctx.token)
    await asyncio.sleep(ms / 2000)
    come_to("in_handler")
    await asyncio.sleep(ms / 2000)
    pen.end(ctx.job_id, ctx.token)
    return {"token": ctx.token}


@jobs.task(retry=Retry(max_retries=3, delay=0.2), timeout=60)
async def pays(ctx: JobContext, ms: float = 0) -> dict[str, int]:
    """Leave an effect in the database of the jobs, in one commit with the job's end, or apart from it."""
    pen.start(ctx.job_id, ctx.token)
    apart = os.environ.get("FAULTS_APART")
    async with await AsyncConnection.connect(POSTGRES) if apart else ctx.transaction() as connection:
        await connection.execute("insert into effects (job, token) values (%s, %s)", (ctx.job_id, ctx.token))
        await asyncio.sleep(ms / 1000)
    come_to("in_handler")
    pen.end(ctx.job_id, ctx.token)
    return {"token": ctx.token}


@jobs.task(retry=Retry(max_retries=3, delay=0.2), timeout=60)
def work_in_thread(ctx: JobContext, ms: float = 0) -> dict[str, int]:
    pen.start(ctx.job_id, ctx.token)
    time.sleep(ms / 1000)
    pen.end(ctx.job_id, ctx.token)
    return {"token": ctx.token}


@jobs.task(retry=Retry(max_retries=3, delay=0.2), timeout=60)
async def fails_first(ctx: JobContext, times: int = 1) -> dict[str, int]:
    pen.start(ctx.job_id, ctx.token)
    if ctx.attempt <= times:
        raise OSError("not yet")
    pen.end(ctx.job_id, ctx.token)
    return {"token": ctx.token}


@jobs.task(retry=Retry(max_retries=0), timeout=0)
async def waits_for(ctx: JobContext, gate: str, of_attempt: int = 0) -> dict[str, int]:
    """Wait until a test opens a gate; with `of_attempt`, only that attempt waits."""
    pen.start(ctx.job_id, ctx.token)
    while of_attempt in {0, ctx.attempt} and not (FOLDER / f"gate-{gate}").exists():  # noqa: ASYNC110
        await asyncio.sleep(0.02)
    pen.end(ctx.job_id, ctx.token)
    return {"token": ctx.token}


@jobs.task(retry=Retry(max_retries=0), timeout=60)
async def kills_its_process(ctx: JobContext) -> None:
    pen.start(ctx.job_id, ctx.token)
    os.kill(os.getpid(), signal.SIGKILL)
