"""Ends attempts: outcomes gather while the last batch is being stored, then go in one statement a kind.

An outcome is kept until the store has taken or refused it: only an error in its own values drops it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from threading import Lock
from typing import Protocol

from queue_core.client.effects import offer, ready_of
from queue_core.client.logs import OutageLog, log_failure
from queue_core.client.middleware import AfterSettle, Hooks
from queue_core.errors import InvalidJob, QueueCoreError, SchemaError, StaleLease, StoreUnavailable
from queue_core.model.job import Claim, Outcome, Settled, Stray, attempt_of
from queue_core.model.outcome import released_stray
from queue_core.ports.delivery import Dispatcher
from queue_core.ports.handover import HandoverStore
from queue_core.ports.store import ClaimRequest, Doubt, JobStore
from queue_core.runtime import LARGEST, parts_of
from queue_core.worker.attempt import RunningAttempt
from queue_core.worker.journal import EventPublisher, Journal

logger = logging.getLogger("queue_core.worker")


BATCH = 1000
"""Outcomes stored at a time: some 15 ms of the store."""
PAUSE_FIRST, PAUSE_MOST = 0.1, 2.0
"""Seconds between two tries while the store is away, doubling."""
SHORT = 0.75
"""Parts of a trip to the store that jobs of a queue with a concurrency run where the trip waits for all of them. Those
that it leaves behind have a trip of their own: half of the slots a trip, instead of all in a trip and a run."""
SPARE, SHARE = 1.5, 0.1
"""How many times as long as they run it waits for them, for one may run on; the share of the last trip in means."""
IN_THE_DATA = (InvalidJob, UnicodeError, OverflowError)
"""Errors that the same outcomes meet again: one of them holds a value that the store cannot keep."""


# The claims of one worker: each has a number, and those whose answers did not come are remembered.
#
# The store may have carried such a claim out, and given jobs to this worker of which it knows nothing; or it may yet do
# so. The heartbeat asks for what came of it, and that is released.

OFTEN = 15.0
"""Seconds after a failed claim during which each heartbeat asks; later each one that renews all leases."""
KEEP = 600.0
"""Seconds after which it is taken for not carried out: a server may have been frozen with it, but for how long?"""
MOST = 1000
"""Claims in doubt that are remembered: the newest."""


class Claims:
    """Used by the event loop and by the heartbeat's thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._last = 0
        # number -> queue of those on their way
        self._open: dict[int, str] = {}
        # those of them whose answers come too late
        self._void: set[int] = set()
        # number -> its queue and when it failed, in seconds of time.monotonic
        self._failed: dict[int, tuple[str, float]] = {}

    def begin(self, queue: str, number: int = 0) -> int:
        """Return the number of a claim that is about to be sent; one that is sent again keeps its number."""
        with self._lock:
            if not number:
                self._last = number = self._last + 1
            self._open[number] = queue
            return number

    def answered(self, number: int) -> bool:
        """Note that its answer is there; False: it came too late, and is in doubt like a failed one."""
        with self._lock:
            if number not in self._void:
                return self._open.pop(number, None) is not None
        self.failed(number)
        return False

    def void(self) -> tuple[bool, int]:
        """Accept the answers no more that have not been read yet; return whether there are any, and the last number."""
        with self._lock:
            self._void |= self._open.keys()
            return bool(self._open), self._last

    def failed(self, number: int) -> None:
        """Note that no answer will come."""
        with self._lock:
            queue = self._open.pop(number, None)
            self._void.discard(number)
            if queue is not None:
                self._failed.pop(number, None)
                self._failed[number] = (queue, time.monotonic())
                if len(self._failed) > MOST:
                    del self._failed[next(iter(self._failed))]

    def forget(self, number: int) -> None:
        """Note that the answer to a claim in doubt has come after all."""
        with self._lock:
            self._failed.pop(number, None)

    def doubts(self, full: bool) -> list[Doubt]:
        """Return the claims to ask for now; of those that are on their way again the answer may just be read."""
        with self._lock:
            now = time.monotonic()
            if self._failed:
                self._failed = {n: one for n, one in self._failed.items() if now - one[1] < KEEP}
            return [
                Doubt(queue, number)
                for number, (queue, since) in self._failed.items()
                if number not in self._open and (full or now - since < OFTEN)
            ]


class Successors(Protocol):
    """Who takes jobs that are claimed in the trip that ends others; see `queue_core.worker.fetcher`."""

    # queue -> how many of its jobs may run at a time
    concurrencies: dict[str, int]

    def ask(self, outcomes: Sequence[Outcome], held: Mapping[str, RunningAttempt]) -> Sequence[ClaimRequest]:
        """Return what to claim behind these ends; their answer goes to `take_over` or `give_up`."""
        ...

    def take_over(self, requests: Sequence[ClaimRequest], claims: Sequence[Claim]) -> Sequence[Claim]:
        """Accept the claims that came of it; return those that were in time."""
        ...

    def give_up(self, requests: Sequence[ClaimRequest]) -> None:
        """Note that no answer has come."""
        ...

    def note_ended(self, outcomes: Sequence[Outcome], claims: Sequence[Claim]) -> None:
        """Note the ends that are stored, and what was claimed behind them."""
        ...


class _Pace:
    """How many seconds a trip takes that stores ends and claims behind them, and the jobs ran that it ended."""

    def __init__(self) -> None:
        self._trip = self._run = 0.0

    def note(self, seconds: float, batch: Sequence[Outcome]) -> None:
        """Note a trip."""
        self._trip += SHARE * (seconds - self._trip)
        self._run += SHARE * (sum([outcome.run_us for outcome in batch]) / len(batch) / 1e6 - self._run)

    def wait(self) -> float:
        """Return for how many seconds a trip may wait for the other jobs of a queue."""
        return SPARE * self._run if self._run < SHORT * self._trip else 0.0


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
        if sum([_size(outcome) if outcome.failure else len(outcome.result or "") for outcome in batch]) > LARGEST:
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
            self._most = min(BATCH, 2 * self._most)
            self._pause = PAUSE_FIRST
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
        self._pause = min(PAUSE_MOST, self._pause * 2)

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
