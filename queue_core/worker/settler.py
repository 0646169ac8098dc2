"""Ends attempts: outcomes gather while the last batch is being stored, then go in one statement a kind."""

from __future__ import annotations

import asyncio
import logging
from collections import deque

from queue_core.dispatch import Dispatcher
from queue_core.endings import dispatch, events_of
from queue_core.errors import StaleLease, StoreUnavailable
from queue_core.job import Outcome, Settled
from queue_core.middleware import AfterSettle, Hooks
from queue_core.store import JobStore
from queue_core.worker.announcer import Announcer
from queue_core.worker.attempt import Attempt
from queue_core.worker.journal import Journal

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
        # the lines of jobs' logs, written before the end of their attempts
        self.journal = Journal(store)
        self._outcomes: deque[Outcome] = deque()
        # stored by others, and what they opened is to be offered
        self._written: list[tuple[Outcome, Settled]] = []
        self._wake = asyncio.Event()
        self._closing = False
        # outcomes on their way to the store
        self._sending = 0
        # attempts whose lease was over when they ended
        self.refused = 0
        self.settled = 0

    def put(self, outcome: Outcome, answer: Settled | None = None) -> None:
        """Hand in the end of an attempt; with the store's answer, it was stored in its handler's own transaction."""
        if answer is not None:
            self._forget(outcome)
            self._ended(outcome, answer)
            if answer.opened:
                self._written.append((outcome, answer))
                self._wake.set()
            return
        self._outcomes.append(outcome)
        self._wake.set()

    async def run(self) -> None:
        """Store outcomes until closed and empty."""
        while self._outcomes or not self._closing:
            await self._wake.wait()
            self._wake.clear()
            if self._written:
                written, self._written = self._written, []
                await dispatch(self._dispatcher, written)
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
                if self.journal.busy:
                    await self.journal.write_first(filter(None, [self._held.get(outcome.id) for outcome in batch]))
                return await self._store.settle(batch)
            except StoreUnavailable as error:
                # The fence makes trying again safe: what was stored before is found, what is over is refused.
                logger.warning("settle waits for the store: %s", error)
                await asyncio.sleep(pause)
                pause = min(PAUSE_MOST, pause * 2)

    async def _stored(self, batch: list[Outcome], answers: list[Settled]) -> None:
        for outcome, answer in zip(batch, answers, strict=True):
            perhaps = self._forget(outcome)
            if not answer.accepted and perhaps is not None:
                # The lease is over, so that this writes nothing: it only asks whether it has been written.
                (written,) = await self._settle([perhaps])
                self._ended(perhaps, written)
                continue
            self._ended(outcome, answer)
        await dispatch(self._dispatcher, zip(batch, answers, strict=True))

    def _ended(self, outcome: Outcome, answer: Settled) -> None:
        """Say how an attempt ended."""
        if not answer.accepted:
            self.refused += 1
            logger.warning("%s", StaleLease(outcome.id, outcome.token))
            return
        self.settled += 1
        for event in events_of(outcome, answer):
            self._announcer.tell(event)
        self._after.note(outcome, answer)

    def _forget(self, outcome: Outcome) -> Outcome | None:
        """Hold the attempt no longer; return what its handler's own transaction may have stored instead."""
        attempt = self._held.get(outcome.id)
        if attempt is None or attempt.claim.token != outcome.token:
            return None
        del self._held[outcome.id]
        return attempt.perhaps
