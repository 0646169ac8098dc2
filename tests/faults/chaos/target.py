"""What the workers run under random faults: handlers that write the ledger, and a store whose answers it keeps."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from queue_core import JobContext, JobQueue, Retry
from queue_core.delivery import audit
from queue_core.model.job import Claim, Outcome, Reclaimed, Settled
from queue_core.model.settings import JobsSettings
from queue_core.ports.store import ClaimRequest
from queue_core.worker import leader
from tests.around import Around
from tests.faults.chaos.clocks import SharedClock
from tests.faults.chaos.rules import QUEUES
from tests.faults.ledger import Pen

FOLDER = Path(os.environ["CHAOS_FOLDER"])

# Seconds instead of 10 and 20: what an idle leader looks after is part of each recovery.
audit.IDLE_SECONDS, leader.IDLE_UPKEEP_INTERVAL = 1.5, 3.0
SharedClock(Path(os.environ["CHAOS_CLOCK"])).install()
pen = Pen(FOLDER)
pen.write("born", os.getpid(), os.environ["CHAOS_UNIT"])


_noted = [0.0]


def note_tasks() -> None:
    """Write down how many tasks this process has, once a second."""
    if time.monotonic() > _noted[0] + 1:
        _noted[0] = time.monotonic()
        (FOLDER / f"{os.getpid()}.tasks").write_text(str(len(asyncio.all_tasks())))


class RecordingStore(Around):
    """The store, and the ledger of what it gave back and refused."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def settle(self, outcomes: Sequence[Outcome]) -> list[Settled]:
        note_tasks()
        answers: list[Settled] = await self._store.settle(outcomes)
        self._write(outcomes, answers)
        return answers

    async def settle_and_claim(
        self, outcomes: Sequence[Outcome], requests: Sequence[ClaimRequest]
    ) -> tuple[list[Settled], list[Claim]]:
        note_tasks()
        answers, claims = await self._store.settle_and_claim(outcomes, requests)
        self._write(outcomes, answers)
        return answers, claims

    def _write(self, outcomes: Sequence[Outcome], answers: Sequence[Settled]) -> None:
        for outcome, answer in zip(outcomes, answers, strict=True):
            if not answer.accepted:
                pen.write("refused", outcome.id, outcome.token)
            elif outcome.kind in {"retrying", "released"}:
                pen.write("back", outcome.id, outcome.token, outcome.kind)

    async def reclaim(self, limit: int, bound: int) -> list[Reclaimed]:
        reclaimed: list[Reclaimed] = await self._store.reclaim(limit, bound)
        pen.reclaimed(reclaimed)
        return reclaimed


class RecordingQueue(JobQueue):
    """A queue object whose store writes the ledger."""

    @property
    def parts(self) -> Any:
        return super().parts._replace(store=self.store)

    @property
    def store(self) -> Any:
        return RecordingStore(super().store)


given: dict[str, Any] = json.loads(os.environ["CHAOS_SETTINGS"])
jobs = RecordingQueue(settings=JobsSettings.model_validate(given | {"queues": QUEUES | given.get("queues", {})}))
RETRY = Retry(max_retries=20, delay=0.2)


@jobs.task(retry=RETRY, timeout=300)
async def work(ctx: JobContext, ms: float = 0) -> dict[str, int]:
    pen.start(ctx.job_id, ctx.token)
    await asyncio.sleep(ms / 1000)
    pen.end(ctx.job_id, ctx.token)
    return {"token": ctx.token}


@jobs.task(retry=RETRY, timeout=300)
def work_in_thread(ctx: JobContext, ms: float = 0) -> dict[str, int]:
    pen.start(ctx.job_id, ctx.token)
    time.sleep(ms / 1000)
    pen.end(ctx.job_id, ctx.token)
    return {"token": ctx.token}


@jobs.task(retry=RETRY, timeout=300)
async def fails_first(ctx: JobContext, ms: float = 0) -> dict[str, int]:
    pen.start(ctx.job_id, ctx.token)
    await asyncio.sleep(ms / 1000)
    if ctx.attempt <= 1:
        pen.write("failed", ctx.job_id, ctx.token)
        raise OSError("not yet")
    pen.end(ctx.job_id, ctx.token)
    return {"token": ctx.token}


@jobs.task(retry=Retry(max_retries=1, delay=0.2), timeout=300)
async def always_fails(ctx: JobContext, ms: float = 0) -> None:
    pen.start(ctx.job_id, ctx.token)
    await asyncio.sleep(ms / 1000)
    pen.write("failed", ctx.job_id, ctx.token)
    raise OSError("never")
