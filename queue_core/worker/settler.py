"""Ends attempts: outcomes gather while the last batch is being stored, then go in one statement a kind.

An outcome is kept until the store has taken or refused it: only an error in its own values drops it.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Iterable, Sequence
from contextlib import suppress
from functools import partial

from queue_core.client.effects import offer, ready_of
from queue_core.client.logs import OutageLog, log_failure
from queue_core.client.middleware import AfterSettle, Hooks
from queue_core.errors import InvalidJob, QueueCoreError, SchemaError, StaleLease, StoreUnavailable
from queue_core.model.job import Claim, Outcome, Settled, Stray, attempt_of
from queue_core.model.outcome import released_stray
from queue_core.ports.delivery import Dispatcher
from queue_core.ports.handover import HandoverStore
from queue_core.ports.parts import PartedStore
from queue_core.ports.store import ClaimRequest, JobStore
from queue_core.runtime import MAX_STATEMENT_LENGTH, end_tasks, parts_of
from queue_core.worker.attempt import RunningAttempt
from queue_core.worker.claims import Successors
from queue_core.worker.journal import EventPublisher, Journal
from queue_core.worker.leader import keep_running

logger = logging.getLogger("queue_core.worker")

Loop = tuple[str, Callable[[], Awaitable[None]]]


SETTLE_BATCH = 1000
"""Outcomes stored at a time: some 15 ms of the store."""
FIRST_PAUSE, MAX_PAUSE = 0.1, 2.0
"""Seconds between two tries while the store is away, doubling."""
SHORT_SHARE = 0.75
"""Parts of a trip to the store that jobs of a queue with a concurrency run where the trip waits for all of them. Those
that it leaves behind have a trip of their own: half of the slots a trip, instead of all in a trip and a run."""
SPARE_FACTOR, MEAN_SHARE = 1.5, 0.1
"""How many times as long as they run it waits for them, for one may run on; the share of the last trip in means."""
IN_THE_DATA = (InvalidJob, UnicodeError, OverflowError)
"""Errors that the same outcomes meet again: one of them holds a value that the store cannot keep."""


class _Pace:
    """How many seconds a trip takes that stores ends and claims behind them, and the jobs ran that it ended."""

    def __init__(self) -> None:
        self._trip = self._run = 0.0

    def note(self, seconds: float, batch: Sequence[Outcome]) -> None:
        """Note a trip."""
        self._trip += MEAN_SHARE * (seconds - self._trip)
        self._run += MEAN_SHARE * (sum([outcome.run_us for outcome in batch]) / len(batch) / 1e6 - self._run)

    def wait(self) -> float:
        """Return for how many seconds a trip may wait for the other jobs of a queue."""
        return SPARE_FACTOR * self._run if self._run < SHORT_SHARE * self._trip else 0.0


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
        self._most = SETTLE_BATCH
        self._pause = FIRST_PAUSE
        self._waits = OutageLog(logger, "settle waits")
        # attempts whose lease was over when they ended
        self.refused = 0
        self.settled = 0
        self._handing = store if isinstance(store, HandoverStore) else None
        # who takes what is claimed behind the ends; None: nothing is
        self.successors: Successors | None = None
        # the last trip failed: the ends go alone, so that no claim can keep them from being stored
        self._alone = False
        self._pace = _Pace()

    @property
    def loops(self) -> Sequence[Loop]:
        """What has to run beside `run`, by name."""
        return [("journal", self.journal.run)]

    def journal_of(self, queue: str) -> Journal:
        """Return what keeps the lines of a queue's jobs."""
        return self.journal

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
                self.put(released_stray(stray))

    async def run(self) -> None:
        """Store outcomes until closed and empty."""
        while self._outcomes or not self._closing:
            await self._wake.wait()
            self._wake.clear()
            if self._written:
                written, self._written = self._written, []
                await offer(self._dispatcher, ready_of(written))
            while self._outcomes:
                await self._gather(self._outcomes[0].queue)
                batch = self._next()
                self._sending = len(batch)
                await self._store_batch(batch)
                self._sending = 0

    async def _gather(self, queue: str) -> None:
        """Wait for the other jobs of a queue with a concurrency, if they are short, and while no other job ends."""
        if self.successors is None or queue not in self.successors.concurrencies or not (seconds := self._pace.wait()):
            return
        held = sum([attempt.claim.queue == queue for attempt in self._held.values()])
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while len(self._outcomes) < held and self._outcomes[-1].queue == queue and not self._closing:
                    self._wake.clear()
                    await self._wake.wait()
        self._wake.set()  # what else it was set for comes next

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
        if (
            sum([_size(outcome) if outcome.failure else len(outcome.result or "") for outcome in batch])
            > MAX_STATEMENT_LENGTH
        ):
            first = next(parts_of(batch, _size))
            waiting.extendleft(reversed(batch[len(first) :]))
            return first
        return batch

    async def _store_batch(self, batch: list[Outcome]) -> None:
        requests: Sequence[ClaimRequest] = ()
        claims: Sequence[Claim] = ()
        try:
            if self.journal.busy:
                await self.journal.write_first(filter(None, [self._held.get(outcome.id) for outcome in batch]))
            if self._handing is not None and self.successors is not None and not self._alone:
                requests = self.successors.ask(batch, self._held)
            if requests:
                answers, claims = await self._settle_and_claim(batch, requests)
            else:
                answers = await self._store.settle(batch)
        except IN_THE_DATA:
            if len(batch) > 1 or requests:
                self._alone = True
                self._put_back(batch)
                return
            logger.exception("the outcome of job %s cannot be stored; its lease is left to end", batch[0].id)
            self._forget(batch[0])
        except asyncio.CancelledError:
            self._put_back(batch)  # it may have been stored: the fence makes trying again safe
            raise
        except Exception as error:  # noqa: BLE001  whatever it is, it is no evidence about the outcomes
            self._alone = True
            self._put_back(batch)
            await self._wait_for_store(error)
        else:
            self._most = min(SETTLE_BATCH, 2 * self._most)
            self._pause = FIRST_PAUSE
            self._waits.worked()
            self._alone = False
            await self._stored(batch, answers, requests, claims)

    async def _settle_and_claim(
        self, batch: list[Outcome], requests: Sequence[ClaimRequest]
    ) -> tuple[list[Settled], Sequence[Claim]]:
        assert self._handing is not None, "nothing is requested without it"
        assert self.successors is not None, "they have asked"
        began = time.monotonic()
        settling = asyncio.ensure_future(self._handing.settle_and_claim(batch, requests))
        answered = False
        try:
            answers, claims = await asyncio.shield(settling)
            answered = True
            self._pace.note(time.monotonic() - began, batch)
        except asyncio.CancelledError:
            # What the store may be giving right now is this worker's. Nothing may be left that stores its release: the
            # claims stay in doubt, and the heartbeat's end gives back what such ones hold, once the store has given it.
            with suppress(QueueCoreError, *IN_THE_DATA):
                await settling
            raise
        finally:
            if not answered:
                self.successors.give_up(requests)
        return answers, claims

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
        self._waits.failed(error, exc_info=unexpected)
        await asyncio.sleep(self._pause)
        self._pause = min(MAX_PAUSE, self._pause * 2)

    async def _stored(
        self, batch: list[Outcome], answers: list[Settled], requests: Sequence[ClaimRequest], claims: Sequence[Claim]
    ) -> None:
        doubtful: list[tuple[Outcome, RunningAttempt | None]] = []
        for outcome, answer in zip(batch, answers, strict=True):
            attempt = self._forget(outcome)
            perhaps = None if attempt is None else attempt.perhaps
            if not answer.accepted and perhaps is not None:
                doubtful.append((perhaps, attempt))
                continue
            self._ended(outcome, answer, attempt)
        ready = ready_of(zip(batch, answers, strict=True))
        if self.successors is not None:
            if requests:
                claims = self.successors.take_over(requests, claims)
                taken = {claim.id for claim in claims}
                ready = [one for one in ready if one.id not in taken]
            self.successors.note_ended(batch, claims)
        await offer(self._dispatcher, ready)
        for perhaps, attempt in doubtful:
            self._ended(perhaps, await self._written_before(perhaps), attempt)

    async def _written_before(self, perhaps: Outcome) -> Settled:
        """Ask whether an outcome has been written; its lease is over, so that this writes nothing."""
        while True:
            try:
                return (await self._store.settle([perhaps]))[0]
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
        self._publisher.ended(outcome, answer)
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


class PartedSettler:
    """A settler for each part of a store: while one part is away, what ends in the others is stored."""

    loops: Sequence[Loop] = ()

    def __init__(self, make: Callable[[], Settler], part_of: Callable[[str], Hashable]) -> None:
        self._make = make
        self._part_of = part_of
        self._settlers: dict[Hashable, Settler] = {}
        # while `run` is under way, the loops of each: that of outcomes, that of lines
        self._tasks: dict[Settler, tuple[asyncio.Task[None], asyncio.Task[None]]] | None = None
        self._closing = asyncio.Event()
        self.successors: Successors | None = None
        # not that of the job that is the first of its part
        self._context = contextvars.copy_context()

    @property
    def refused(self) -> int:
        """Attempts whose lease was over when they ended."""
        return sum(one.refused for one in self._settlers.values())

    def _of(self, queue: str) -> Settler:
        part = self._part_of(queue)
        found = self._settlers.get(part)
        if found is None:
            found = self._settlers[part] = self._context.copy().run(self._make)
            found.successors = self.successors
            self._start(found)
        return found

    def _start(self, settler: Settler) -> None:
        if self._tasks is not None:
            settling, writing = keep_running("settler", settler.run), keep_running("journal", settler.journal.run)
            self._tasks[settler] = (
                asyncio.create_task(settling, context=self._context.copy()),
                asyncio.create_task(writing, context=self._context.copy()),
            )

    def journal_of(self, queue: str) -> Journal:
        """Return what keeps the lines of a queue's jobs."""
        return self._of(queue).journal

    def put(self, outcome: Outcome, answer: Settled | None = None) -> None:
        """Hand in the end of an attempt, as of `Settler`."""
        self._of(outcome.queue).put(outcome, answer)

    def release(self, strays: Iterable[Stray]) -> None:
        """Give back what claims have given whose answers did not come, but for what is held all the same."""
        for stray in strays:
            self._of(stray.queue).release([stray])

    async def run(self) -> None:
        """Store outcomes until closed."""
        self._tasks = {}
        try:
            for settler in self._settlers.values():
                self._start(settler)
            await self._closing.wait()
        finally:
            tasks, self._tasks = self._tasks, None
            await end_tasks(*(task for both in tasks.values() for task in both))

    async def close(self, loop: asyncio.Task[None], seconds: float) -> bool:
        """Store what is left; False when a part of the store did not take it within these seconds."""
        tasks = self._tasks or {}
        stored = await asyncio.gather(*(settler.close(both[0], seconds) for settler, both in tasks.items()))
        self._closing.set()
        await loop
        return all(stored)


AnySettler = Settler | PartedSettler


def make_settler(
    store: JobStore,
    dispatcher: Dispatcher | None,
    publisher: EventPublisher,
    held: dict[str, RunningAttempt],
    hooks: Hooks,
) -> AnySettler:
    """Return what ends attempts in a store."""
    make = partial(Settler, store, dispatcher, publisher, held, hooks)
    return PartedSettler(make, store.part_of) if isinstance(store, PartedStore) and store.apart else make()
