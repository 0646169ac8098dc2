"""Gets jobs: candidates from the dispatcher, or from the store alone, always claimed in the store."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections import deque
from collections.abc import Iterable, Sequence
from threading import Lock

from queue_core.delivery.pairing import Pairing
from queue_core.errors import QueueCoreError, StoreUnavailable
from queue_core.model.job import Claim, Outcome
from queue_core.model.rules import Rules, rules_of
from queue_core.ports.delivery import Dispatcher, DispatchUnavailable, Nomination
from queue_core.ports.store import ClaimRequest, Doubt, JobStore
from queue_core.runtime import LARGEST
from queue_core.worker.runner import Runner

logger = logging.getLogger("queue_core.worker")


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

    def void(self) -> bool:
        """Accept the answers no more that have not been read yet; False when there are none."""
        with self._lock:
            self._void |= self._open.keys()
            return bool(self._open)

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


BATCH = 500
"""Jobs claimed at a time: some 5 ms of the store."""
WAIT = 1.5
"""Seconds of one blocking wait. Waking does not depend on it: it only bounds how long one that hangs goes unnoticed
while the store could be asked."""
WAIT_ALONE = 6.0
"""The same where that server is the store, too."""
AT_ONCE = 0.001
"""Seconds of a wait that only collects what is there."""
POLL_FIRST, POLL_MOST = 0.05, 1.0
"""Seconds between two polls of the store without a dispatcher; growing while nothing is found, with jitter."""
COOL_DOWN = 0.1
"""Seconds for which a queue is left to others after candidates were given back that only they can run."""
COOL_DOWN_LIMITED = 0.02
"""The same where its concurrency or rate lets nothing start; until a job of this worker ends that came from it."""
PERHAPS_CUT = LARGEST // 4
"""Characters of a claim's payloads from which on the store may have cut it by their bytes."""
PAUSE_FIRST, PAUSE_MOST = 0.1, 2.0
"""Seconds between two tries while the store is away, doubling."""


class Fetcher:
    """One loop: wait for room, take candidates, claim them, hand them to the runner."""

    def __init__(
        self,
        store: JobStore,
        dispatcher: Dispatcher | None,
        runner: Runner,
        queues: Sequence[str],
        request: ClaimRequest,
        rules: Rules,
    ) -> None:
        self._store = store
        self._dispatcher = dispatcher
        self._runner = runner
        # rotated, so that every queue comes first in turn
        self._queues = deque(queues)
        self._request = request
        self._rules = rules
        self.claims = Claims()
        self._cool_until: dict[str, float] = {}
        # queues of which only so many jobs may run at a time, and all whose rules may let nothing start
        own = {queue: rules_of(rules, queue) for queue in queues}
        self._most = {queue: one.concurrency for queue, one in own.items() if one.concurrency is not None}
        self._limited = frozenset(queue for queue, one in own.items() if one.limits_claims)
        # when the end of a job of theirs was last stored, in seconds of time.monotonic
        self._ended_at: dict[str, float] = {}
        self._ended = asyncio.Event()
        self._resumed = asyncio.Event()
        self._resumed.set()
        self._poll = POLL_FIRST
        # candidates that were taken and not yet asked for, and the number of the claim that asked in vain
        self._in_hand: Nomination | None = None
        self._in_hand_number = 0
        # queues in which the store may have more than was asked for
        self._unfinished: deque[str] = deque()
        # while it is doubtful, Redis may not learn of all jobs: this worker polls the store, too, at intervals
        self.pairing: Pairing | None = None
        # seconds
        self.wait = WAIT_ALONE if store.name == "redis" else WAIT
        # time.monotonic
        self._poll_at = float("-inf")
        # seconds of time.monotonic at which a claim last worked, for health
        self.worked_at = time.monotonic()

    @property
    def release(self) -> int:
        """The number of the release under which it claims."""
        return self._request.release

    @release.setter
    def release(self, number: int) -> None:
        self._request = self._request._replace(release=number)

    @property
    def quiet(self) -> bool:
        """Whether new jobs are not claimed."""
        return not self._resumed.is_set()

    def hush(self) -> None:
        """Claim nothing until resumed."""
        self._resumed.clear()

    def resume(self) -> None:
        """Claim again."""
        self._resumed.set()

    def note_ended(self, outcomes: Iterable[Outcome]) -> None:
        """Note jobs whose end is stored: where rules let nothing start, others may start now."""
        if self._limited:
            for queue in self._limited.intersection([outcome.queue for outcome in outcomes]):
                self._ended_at[queue] = time.monotonic()
                self._cool_until.pop(queue, None)
                self._ended.set()

    async def run(self) -> None:
        """Fetch for ever."""
        pause = PAUSE_FIRST
        while True:
            await self._resumed.wait()
            room = await self._runner.wait_for_room()
            try:
                await self._fetch(min(room, BATCH))
                pause = PAUSE_FIRST
            except StoreUnavailable as error:
                logger.warning("claim waits for the store: %s", error)
                await asyncio.sleep(pause)
                pause = min(PAUSE_MOST, pause * 2)
            self.worked_at = time.monotonic()

    async def _fetch(self, limit: int) -> None:
        self._queues.rotate(-1)
        now = time.monotonic()
        queues = self._open_queues(now)
        if not queues:
            self._ended.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._coolest() - now):
                    await self._ended.wait()
            return
        limit = self._limit_for(queues, limit)
        if self.pairing is not None and self.pairing.doubtful and now >= self._poll_at:
            self._poll_at = now + POLL_MOST * random.uniform(0.5, 1.0)
            if await self._claim_from_store(queues, limit):
                self._poll_at = now  # there may be more
                return
        try:
            taken = await self._take(queues, limit)
        except DispatchUnavailable:
            await self._poll_store(queues, limit)
            return
        if taken is None:
            return
        if self.quiet:
            return  # stopped while waiting; the audit finds what was taken
        began = time.monotonic()
        if taken.ids is None:
            found = await self._claim_from_store([taken.queue], limit)
            if found >= limit or await self._holds_back(taken.queue, began):
                self._unfinished.append(taken.queue)
            return
        await self._claim_taken(taken, taken.ids, limit, began)

    def _open_queues(self, now: float) -> list[str]:
        """Return the queues that do not cool down, and of which this worker alone does not hold as many as may run."""
        for queue, most in self._most.items():
            if self._runner.held_of(queue) >= most:
                self._cool_until[queue] = now + COOL_DOWN_LIMITED
        return [queue for queue in self._queues if self._cool_until.get(queue, 0.0) <= now]

    def _limit_for(self, queues: Sequence[str], limit: int) -> int:
        """Return how many jobs to take: those of the only queue that may not run would be given back."""
        most = self._most.get(queues[0]) if len(queues) == 1 else None
        return limit if most is None else min(limit, most - self._runner.held_of(queues[0]))

    async def _claim_taken(self, taken: Nomination, ids: Sequence[str], limit: int, began: float) -> None:
        """Claim candidates; return those that others have to run.

        Should the store be away, these are tried again: others would have to wait for the audit to find them.
        """
        if self._in_hand is not taken:
            self._in_hand, self._in_hand_number = taken, self.claims.begin(taken.queue)
        mine = {claim.id for claim in await self._claim_all(taken.queue, limit, ids, self._in_hand_number)}
        self._in_hand = None
        left = [job_id for job_id in ids if job_id not in mine]
        if left:
            await self._give_back(taken.queue, left, limit - len(mine), began)

    async def _take(self, queues: Sequence[str], limit: int) -> Nomination | None:
        if self._in_hand is not None:
            return self._in_hand
        if self._dispatcher is None:
            raise DispatchUnavailable("there is none")
        unfinished = next((queue for queue in self._unfinished if queue in queues), None)
        if unfinished is not None:
            # A poll that found all it asked for may have left some; the other queues still get their turn first.
            taken = await self._dispatcher.take(queues, limit, AT_ONCE)
            taken = taken or Nomination(unfinished, None)
            with contextlib.suppress(ValueError):
                self._unfinished.remove(taken.queue)
            return taken
        # A queue that cools down must not be waited past its time.
        wait = self.wait if len(queues) == len(self._queues) else max(AT_ONCE, self._coolest() - time.monotonic())
        return await self._dispatcher.take(queues, limit, wait)

    def _coolest(self) -> float:
        """Return the time at which the next of the queues that cool down is asked for again."""
        now = time.monotonic()
        return min((until for until in self._cool_until.values() if until > now), default=now + AT_ONCE)

    async def _holds_back(self, queue: str, began: float) -> bool:
        """Return whether a queue has ready jobs that its rules do not let start yet; it cools down then."""
        if queue not in self._limited or not await self._store.list_claimable(queue, 1):
            return False
        self._cool_down(queue, began)
        return True

    def _cool_down(self, queue: str, began: float) -> None:
        """Leave a queue to others for a moment, unless a job has ended since it was asked that others waited for."""
        if self._ended_at.get(queue, 0.0) < began:
            self._cool_until[queue] = time.monotonic() + (COOL_DOWN_LIMITED if queue in self._limited else COOL_DOWN)

    async def _claim_from_store(self, queues: Sequence[str], limit: int) -> int:
        """Ask the store for its best ranks, queue after queue; return how many jobs were claimed."""
        found = 0
        for queue in queues:
            found += len(await self._claim_all(queue, limit - found, None))
            if found >= limit:
                break
        return found

    async def _poll_store(self, queues: Sequence[str], limit: int) -> None:
        """Poll the store without a dispatcher; wait a little when there is nothing."""
        if await self._claim_from_store(queues, limit):
            self._poll = POLL_FIRST
        else:
            await asyncio.sleep(self._poll * random.uniform(0.5, 1.0))
            self._poll = min(POLL_MOST, self._poll * 1.5)

    async def _claim_all(self, queue: str, limit: int, ids: Sequence[str] | None, number: int = 0) -> list[Claim]:
        """Claim in as many parts as the payloads are large."""
        claims = part = await self._claim(queue, limit, ids, number)
        while len(claims) < limit and sum(len(claim.payload) for claim in part) >= PERHAPS_CUT:
            if ids is not None:
                taken = {claim.id for claim in part}
                ids = [job_id for job_id in ids if job_id not in taken]
                if not ids:
                    break
            part = await self._claim(queue, limit - len(claims), ids)
            claims = claims + part
        return claims

    async def _claim(self, queue: str, limit: int, ids: Sequence[str] | None, number: int = 0) -> list[Claim]:
        sent = time.monotonic()
        start_count = self._runner.free()
        number = self.claims.begin(queue, number)
        request = self._request._replace(queue=queue, limit=limit, ids=ids, start_count=start_count, number=number)
        claiming = asyncio.ensure_future(self._store.claim(request))
        try:
            claims = await asyncio.shield(claiming)
        except asyncio.CancelledError:
            # What the store may be giving right now is this worker's: a stop gives it back, and must not forget it.
            self.claims.failed(number)
            with contextlib.suppress(QueueCoreError):
                self._runner.accept(await claiming, sent, start_count)
                self.claims.forget(number)
            raise
        except Exception:
            self.claims.failed(number)
            raise
        if not self.claims.answered(number):
            return []  # the loop was blocked meanwhile, and they were handed back
        if claims:
            self._runner.accept(claims, sent, start_count)
        return claims

    async def _give_back(self, queue: str, ids: Sequence[str], room: int, began: float) -> None:
        """Return candidates that only other workers can run; what no worker can run is left to the audit."""
        ready = await self._store.filter_claimable(queue, ids)
        if not ready or self._dispatcher is None:
            return
        self._cool_down(queue, began)
        with contextlib.suppress(DispatchUnavailable):  # the audit offers them
            await self._dispatcher.offer(ready)
        # They come first again the next time, and there may be more of them than are taken at once.
        await self._claim_from_store([queue], room)
