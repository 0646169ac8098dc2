"""Ends attempts: outcomes gather while the last batch is being stored, then go in one statement a kind.

An outcome is kept until the store has taken or refused it: only an error in its own values drops it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence

from queue_core.client.effects import events_of, offer, ready_of
from queue_core.client.logs import log_failure
from queue_core.client.middleware import AfterSettle, Hooks
from queue_core.errors import InvalidJob, SchemaError, StaleLease, StoreUnavailable
from queue_core.model.job import Outcome, Settled, Stray, attempt_of
from queue_core.model.outcome import unknown
from queue_core.ports.delivery import Dispatcher
from queue_core.ports.store import JobStore
from queue_core.runtime import LARGEST, parts_of
from queue_core.worker.attempt import RunningAttempt
from queue_core.worker.journal import EventPublisher, Journal

logger = logging.getLogger("queue_core.worker")


BATCH = 1000
"""Outcomes stored at a time: some 15 ms of the store."""
PAUSE_FIRST, PAUSE_MOST = 0.1, 2.0
"""Seconds between two tries while the store is away, doubling."""
IN_THE_DATA = (InvalidJob, UnicodeError, OverflowError)
"""Errors that the same outcomes meet again: one of them holds a value that the store cannot keep."""


class Settler:
    """The queue of outcomes and the loop that stores them; until stored, an attempt is held and its lease renewed."""

    def __init__(
        self,
        store: JobStore,
        dispatcher: Dispatcher | None,
        publisher: EventPublisher,
        held: dict[str, RunningAttempt],
        hooks: Hooks,
    ) -> None:
        self._store = store
        self._dispatcher = dispatcher
        self._publisher = publisher
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
        # how many are stored at a time: half as many after each failure, twice as many after each success
        self._most = BATCH
        self._pause = PAUSE_FIRST
        # attempts whose lease was over when they ended
        self.refused = 0
        self.settled = 0
        # called with outcomes that are stored
        self.on_stored: Callable[[Sequence[Outcome]], None] = lambda _: None

    def put(self, outcome: Outcome, answer: Settled | None = None) -> None:
        """Hand in the end of an attempt; with the store's answer, it was stored in its handler's own transaction."""
        if answer is not None:
            self._ended(outcome, answer, self._forget(outcome))
            if answer.unblocked:
                self._written.append((outcome, answer))
                self._wake.set()
            return
        self._outcomes.append(outcome)
        self._wake.set()

    def release(self, strays: Iterable[Stray]) -> None:
        """Give back what claims have given whose answers did not come, but for what is held all the same."""
        for stray in strays:
            held = self._held.get(stray.id)
            if held is None or held.claim.token != stray.token:
                logger.info("job %s was claimed, and the answer got lost; it is given back", stray.id)
                self.put(unknown(stray))

    async def run(self) -> None:
        """Store outcomes until closed and empty."""
        while self._outcomes or not self._closing:
            await self._wake.wait()
            self._wake.clear()
            if self._written:
                written, self._written = self._written, []
                await offer(self._dispatcher, ready_of(written))
            while self._outcomes:
                batch = self._next()
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

    def _next(self) -> list[Outcome]:
        """Take the next outcomes, by number and by size."""
        waiting = self._outcomes
        batch = [waiting.popleft() for _ in range(min(self._most, len(waiting)))]
        if sum([_size(outcome) if outcome.failure else len(outcome.result or "") for outcome in batch]) > LARGEST:
            first = next(parts_of(batch, _size))
            waiting.extendleft(reversed(batch[len(first) :]))
            return first
        return batch

    async def _store_batch(self, batch: list[Outcome]) -> None:
        try:
            answers = await self._settle(batch)
        except IN_THE_DATA:
            if len(batch) > 1:
                self._put_back(batch)
                return
            logger.exception("the outcome of job %s cannot be stored; its lease is left to end", batch[0].id)
            self._forget(batch[0])
        except asyncio.CancelledError:
            self._put_back(batch)  # it may have been stored: the fence makes trying again safe
            raise
        except Exception as error:  # noqa: BLE001  whatever it is, it is no evidence about the outcomes
            self._put_back(batch)
            await self._wait_for_store(error)
        else:
            self._most = min(BATCH, 2 * self._most)
            self._pause = PAUSE_FIRST
            await self._stored(batch, answers)

    def _put_back(self, batch: list[Outcome]) -> None:
        """Keep outcomes for another try, half as many at a time, which may fit into the time or hold no bad value."""
        self._most = max(1, len(batch) // 2)
        self._sending = 0
        if len(batch) == 1:
            self._outcomes.append(batch[0])  # the others need not wait for it
        else:
            self._outcomes.extendleft(reversed(batch))

    async def _wait_for_store(self, error: Exception) -> None:
        unexpected = not isinstance(error, StoreUnavailable | SchemaError)
        logger.warning("settle waits for the store: %s", error, exc_info=unexpected)
        await asyncio.sleep(self._pause)
        self._pause = min(PAUSE_MOST, self._pause * 2)

    async def _settle(self, batch: list[Outcome]) -> list[Settled]:
        """Store outcomes. The fence makes trying again safe: what was stored is found, what is over is refused."""
        if self.journal.busy:
            await self.journal.write_first(filter(None, [self._held.get(outcome.id) for outcome in batch]))
        return await self._store.settle(batch)

    async def _stored(self, batch: list[Outcome], answers: list[Settled]) -> None:
        for outcome, answer in zip(batch, answers, strict=True):
            attempt = self._forget(outcome)
            perhaps = None if attempt is None else attempt.perhaps
            if not answer.accepted and perhaps is not None:
                self._ended(perhaps, await self._written_before(perhaps), attempt)
                continue
            self._ended(outcome, answer, attempt)
        self.on_stored(batch)
        await offer(self._dispatcher, ready_of(zip(batch, answers, strict=True)))

    async def _written_before(self, perhaps: Outcome) -> Settled:
        """Ask whether an outcome has been written; its lease is over, so that this writes nothing."""
        while True:
            try:
                return (await self._settle([perhaps]))[0]
            except IN_THE_DATA:
                return Settled(perhaps.id, False)
            except Exception as error:  # noqa: BLE001  as above
                await self._wait_for_store(error)

    def _ended(self, outcome: Outcome, answer: Settled, attempt: RunningAttempt | None) -> None:
        """Publish how an attempt ended."""
        if not answer.accepted:
            self.refused += 1
            logger.warning("%s", StaleLease(outcome.id, outcome.token))
            return
        self.settled += 1
        if outcome.failure is not None:
            log_failure(outcome, answer, None if attempt is None else attempt_of(attempt.claim))
        for event in events_of(outcome, answer):
            self._publisher.publish(event, outcome.result)
        self._after.note(outcome, answer)

    def _forget(self, outcome: Outcome) -> RunningAttempt | None:
        """Hold the attempt no longer, and return it."""
        attempt = self._held.get(outcome.id)
        if attempt is None or attempt.claim.token != outcome.token:
            return None
        del self._held[outcome.id]
        return attempt


def _size(outcome: Outcome) -> int:
    """Return about how many characters of it travel to the store."""
    failure = outcome.failure
    return len(outcome.result or "") + (0 if failure is None else len(failure.traceback) + len(failure.message))
