"""Ends attempts: outcomes gather while the last batch is being stored, then go in one statement a kind."""

from __future__ import annotations

import asyncio
import logging
from collections import deque

from queue_core.dispatch import Dispatcher, DispatchUnavailable, Due
from queue_core.errors import StaleLease, StoreUnavailable
from queue_core.events import Event, EventName
from queue_core.job import Failure, Outcome, Ready, Settled
from queue_core.losses import summary
from queue_core.middleware import AfterSettle, Hooks
from queue_core.store import JobStore
from queue_core.worker.announcer import Announcer
from queue_core.worker.attempt import Attempt

BATCH = 1000
"""Outcomes stored at a time: some 15 ms of the store."""
PAUSE_FIRST, PAUSE_MOST = 0.1, 2.0
"""Seconds between two tries while the store is away, doubling."""

logger = logging.getLogger("queue_core.worker")


class Settler:
    """The queue of outcomes and the loop that stores them; until stored, an attempt is held and its lease renewed."""

    def __init__(
        self,
        store: JobStore,
        dispatcher: Dispatcher | None,
        announcer: Announcer,
        held: dict[str, Attempt],
        hooks: Hooks,
    ) -> None:
        self._store = store
        self._dispatcher = dispatcher
        self._announcer = announcer
        self._held = held
        self._after = AfterSettle(hooks.after)
        self._outcomes: deque[Outcome] = deque()
        self._wake = asyncio.Event()
        self._closing = False
        # outcomes on their way to the store
        self._sending = 0
        # attempts whose lease was over when they ended
        self.refused = 0
        self.settled = 0

    def put(self, outcome: Outcome) -> None:
        """Hand in the end of an attempt."""
        self._outcomes.append(outcome)
        self._wake.set()

    async def run(self) -> None:
        """Store outcomes until closed and empty."""
        while self._outcomes or not self._closing:
            await self._wake.wait()
            self._wake.clear()
            while self._outcomes:
                batch = [self._outcomes.popleft() for _ in range(min(BATCH, len(self._outcomes)))]
                self._sending = len(batch)
                await self._store_batch(batch)
                self._sending = 0

    async def close(self, loop: asyncio.Task[None], seconds: float) -> bool:
        """Store what is left; False when the store did not take it within these seconds."""
        self._closing = True
        self._wake.set()
        try:
            await asyncio.wait_for(loop, seconds)
        except TimeoutError:
            left = len(self._outcomes) + self._sending
            logger.error("outcomes not stored, their jobs will run again: %d", left)  # noqa: TRY400
            return False
        await self._after.close()
        return True

    async def _store_batch(self, batch: list[Outcome]) -> None:
        try:
            answers = await self._settle(batch)
        except Exception:
            # Something in one of them cannot be stored: it must not take the others with it, nor stay for ever.
            if len(batch) > 1:
                for outcome in batch:
                    await self._store_batch([outcome])
                return
            logger.exception("the outcome of job %s cannot be stored; its lease is left to end", batch[0].id)
            self._forget(batch[0])
            return
        await self._stored(batch, answers)

    async def _settle(self, batch: list[Outcome]) -> list[Settled]:
        pause = PAUSE_FIRST
        while True:
            try:
                return await self._store.settle(batch)
            except StoreUnavailable as error:
                # The fence makes trying again safe: what was stored before is found, what is over is refused.
                logger.warning("settle waits for the store: %s", error)
                await asyncio.sleep(pause)
                pause = min(PAUSE_MOST, pause * 2)

    async def _stored(self, batch: list[Outcome], answers: list[Settled]) -> None:
        due: list[Due] = []
        ready: list[Ready] = []
        for outcome, answer in zip(batch, answers, strict=True):
            self._forget(outcome)
            if not answer.accepted:
                self.refused += 1
                logger.warning("%s", StaleLease(outcome.id, outcome.token))
                continue
            self.settled += 1
            self._tell(outcome, answer)
            self._after.note(outcome, answer)
            if answer.due is not None:
                due.append(Due(outcome.id, outcome.queue, answer.due))
            elif answer.rank is not None:
                ready.append(Ready(outcome.id, outcome.queue, answer.rank))
        await self._dispatch(ready, due)

    def _forget(self, outcome: Outcome) -> None:
        attempt = self._held.get(outcome.id)
        if attempt is not None and attempt.claim.token == outcome.token:
            del self._held[outcome.id]

    async def _dispatch(self, ready: list[Ready], due: list[Due]) -> None:
        if self._dispatcher is None or not (ready or due):
            return
        try:
            if ready:
                await self._dispatcher.offer(ready)
            if due:
                await self._dispatcher.schedule(due)
        except DispatchUnavailable:
            return  # the audit offers what is ready, the promoter reads the store

    def _tell(self, outcome: Outcome, answer: Settled) -> None:
        tell = self._announcer.tell
        job_id, token, queue, type_ = outcome.id, outcome.token, outcome.queue, outcome.type
        if outcome.kind == "completed":
            tell(Event(EventName.COMPLETED, queue, job_id, type_, token, {"ms": outcome.run_us / 1000}))
            return
        if outcome.failure is None or answer.cancelled:
            name = EventName.RELEASED if outcome.kind == "released" and not answer.cancelled else EventName.CANCELLED
            tell(Event(name, queue, job_id, type_, token, {} if answer.due is None else {"due": answer.due}))
            return
        said = _said(outcome.failure)
        tell(Event(EventName.FAILED, queue, job_id, type_, token, said))
        if outcome.kind == "retrying":
            tell(Event(EventName.RETRYING, queue, job_id, type_, token, {"error": said["error"], "due": answer.due}))
        else:
            tell(Event(EventName.DEAD, queue, job_id, type_, token, said))


def _said(failure: Failure) -> dict[str, str]:
    return {"error": summary(failure), "signature": failure.signature, "title": failure.title, "kind": failure.kind}
