"""Gets jobs: candidates from the dispatcher, or from the store alone, always claimed in the store."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from math import inf

from queue_core.client.logs import OutageLog
from queue_core.delivery.pairing import Pairing
from queue_core.errors import QueueCoreError, StoreUnavailable
from queue_core.model.job import Claim, Outcome
from queue_core.model.rules import AHEAD_SECONDS, Rules, rules_of
from queue_core.ports.delivery import Dispatcher, DispatchUnavailable, Nomination
from queue_core.ports.parts import PartedStore
from queue_core.ports.store import ClaimRequest, JobStore
from queue_core.runtime import MAX_STATEMENT_LENGTH
from queue_core.worker.attempt import RunningAttempt
from queue_core.worker.claims import Claims
from queue_core.worker.runner import Runner

logger = logging.getLogger("queue_core.worker")

CLAIM_BATCH = 500
"""Jobs claimed at a time: some 5 ms of the store."""
BLOCKING_SECONDS = 1.5
"""Seconds of one blocking wait. Waking does not depend on it: it only bounds how long one that hangs goes unnoticed
while the store could be asked."""
BLOCKING_SECONDS_ALONE = 6.0
"""The same where that server is the store, too."""
NO_WAIT_SECONDS = 0.001
"""Seconds of a wait that only collects what is there."""
FIRST_POLL, MAX_POLL = 0.05, 1.0
"""Seconds between two polls of the store without a dispatcher; growing while nothing is found, with jitter."""
COOL_DOWN_SECONDS = 0.1
"""Seconds for which a queue is left to others after candidates were given back that only they can run."""
LIMITED_COOL_DOWN_SECONDS = 0.02
"""The same where its concurrency or rate lets nothing start; until a job of this worker ends that came from it."""
PERHAPS_CUT = MAX_STATEMENT_LENGTH // 4
"""Characters of a claim's payloads from which on the store may have cut it by their bytes."""
FIRST_PAUSE, MAX_PAUSE = 0.1, 2.0
"""Seconds between two tries while the store is away, doubling."""
HAND_ON_SECONDS = 0.1
"""Seconds for which a slot is handed on from job to job. Then it goes to the best rank of the next queue again: others
wait no longer for it than behind jobs that are claimed ahead, and other workers find the place free."""


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
        self.concurrencies = {queue: one.concurrency for queue, one in own.items() if one.concurrency is not None}
        self._limited = frozenset(queue for queue, one in own.items() if one.limits_claims)
        self._rated = frozenset(queue for queue, one in own.items() if one.rate is not None)
        # when the end of a job of theirs was last stored, in seconds of time.monotonic
        self._ended_at: dict[str, float] = {}
        self._ended = asyncio.Event()
        # slots that claims on their way will fill, jobs that they may give, and of those behind ends: number -> when it
        # was sent, and `since`
        self._coming = self._asked = 0
        self._handing: dict[int, tuple[float, float]] = {}
        # ids by queue that were claimed by rank, so that the dispatcher may still nominate them, and who removes them
        self._stale: dict[str, list[str]] = {}
        self._forgetting: asyncio.Task[None] | None = None
        self._poll, self._resumed = FIRST_POLL, asyncio.Event()
        self._resumed.set()
        # candidates that were taken and not yet asked for, the number of the claim that asked in vain, and its first
        self._in_hand: Nomination | None = None
        self._in_hand_number, self._in_hand_since = 0, 0.0
        self._parted = isinstance(store, PartedStore) and store.apart
        # queues in which the store may have more than was asked for
        self._unfinished: deque[str] = deque()
        # while it is doubtful, Redis may not learn of all jobs: this worker polls the store, too, at intervals
        self.pairing: Pairing | None = None
        # seconds
        self.wait = BLOCKING_SECONDS_ALONE if store.name == "redis" else BLOCKING_SECONDS
        # time.monotonic
        self._poll_at = float("-inf")
        self._waits = OutageLog(logger, "claim waits")
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

    def pause_claims(self) -> None:
        """Claim nothing until resumed."""
        self._resumed.clear()

    def resume(self) -> None:
        """Claim again."""
        self._resumed.set()

    # -- what is claimed in the trip that stores the end of jobs, because it waits for that
    #
    # Only free slots are filled so, and only behind jobs that themselves began a moment ago: what was claimed ahead
    # comes first, no rank waits longer than behind those, and the other queues of this worker have their turn.

    def ask(self, outcomes: Sequence[Outcome], held: Mapping[str, RunningAttempt]) -> list[ClaimRequest]:
        """Return what to claim behind these ends: the next jobs of their ordering keys, or of a limited queue."""
        waited_for = [one for one in outcomes if one.ordering_key is not None or one.queue in self.concurrencies]
        if not waited_for or self.quiet or self._runner.draining:
            return []
        since: dict[str, list[float]] = {}
        keyed: set[str] = set()
        now = time.monotonic()
        for outcome in waited_for:
            attempt = held.get(outcome.id)
            if attempt is not None and now - attempt.since < HAND_ON_SECONDS and outcome.kind != "released":
                since.setdefault(outcome.queue, []).append(attempt.since)
                if outcome.ordering_key is not None:
                    keyed.add(outcome.queue)
        requests: list[ClaimRequest] = []
        free = self._runner.free() - self._coming
        for queue, ended in since.items():
            limit = min(free, self._runner.left - self._asked, len(ended))
            if limit > 0:
                free -= limit
                number = self.claims.begin(queue)
                self._handing[number] = (now, min(ended))
                ids = () if queue in keyed else None
                requests.append(
                    self._request._replace(queue=queue, limit=limit, ids=ids, start_count=limit, number=number)
                )
                self._coming += limit
                self._asked += limit
        return requests

    def take_over(self, requests: Sequence[ClaimRequest], claims: Sequence[Claim]) -> list[Claim]:
        """Accept what was claimed so; return the claims that were in time."""
        found: list[Claim] = []
        for request in requests:
            self._coming -= request.limit
            self._asked -= request.limit
            sent, since = self._handing.pop(request.number)
            mine = [claim for claim in claims if claim.queue == request.queue]
            if not self.claims.answered(request.number) or not mine:
                continue
            self._runner.accept(mine, sent, request.limit, self._start_by(request.queue, sent), since)
            found += mine
            if request.ids is None and self._store.name != "redis":  # which removes them itself
                self._stale.setdefault(request.queue, []).extend([claim.id for claim in mine])
        if self._runner.draining:
            self._runner.release_waiting()  # it was stopped meanwhile, and what waited then has been given back
        if self._stale and self._dispatcher is not None and self._forgetting is None:
            self._forgetting = asyncio.create_task(self._forget(self._dispatcher))
        return found

    def give_up(self, requests: Sequence[ClaimRequest]) -> None:
        """Note that there is no answer: the heartbeat asks what these claims gave."""
        for request in requests:
            self._coming -= request.limit
            self._asked -= request.limit
            self._handing.pop(request.number)
            self.claims.failed(request.number)

    async def _forget(self, dispatcher: Dispatcher) -> None:
        """Drop candidates that were claimed by rank; if that fails, each costs a look-up."""
        try:
            while self._stale:
                queue, ids = self._stale.popitem()
                await dispatcher.forget(queue, ids)
        except DispatchUnavailable:
            self._stale.clear()
        finally:
            self._forgetting = None

    def note_ended(self, outcomes: Sequence[Outcome], claims: Sequence[Claim]) -> None:
        """Note jobs whose end is stored: where rules let nothing start, others may start now, unless some have."""
        if self._limited:
            ended = Counter([outcome.queue for outcome in outcomes if outcome.queue in self._limited])
            ended.subtract([claim.queue for claim in claims])
            for queue, free in ended.items():
                if free > 0:
                    self._ended_at[queue] = time.monotonic()
                    self._cool_until.pop(queue, None)
                    self._ended.set()

    async def run(self) -> None:
        """Fetch for ever."""
        pause = FIRST_PAUSE
        while True:
            await self._resumed.wait()
            room = await self._runner.wait_for_room()
            try:
                await self._fetch(min(room, CLAIM_BATCH))
                pause = FIRST_PAUSE
            except StoreUnavailable as error:
                self._waits.failed(error)
                await asyncio.sleep(pause)
                pause = min(MAX_PAUSE, pause * 2)
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
            self._poll_at = now + MAX_POLL * random.uniform(0.5, 1.0)
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
        limit = min(limit, max(0, self._runner.left - self._asked))  # what was handed over meanwhile counts
        began = time.monotonic()
        if taken.ids is None:
            found = await self._claim_from_store([taken.queue], limit)
            if found >= limit or await self._holds_back(taken.queue, began):
                self._unfinished.append(taken.queue)
            return
        await self._claim_taken(taken, taken.ids, limit, began)

    def _open_queues(self, now: float) -> list[str]:
        """Return the queues that do not cool down, and of which this worker alone does not hold as many as may run."""
        for queue, most in self.concurrencies.items():
            if self._runner.held_of(queue) >= most:
                self._cool_until[queue] = now + LIMITED_COOL_DOWN_SECONDS
        return [queue for queue in self._queues if self._cool_until.get(queue, 0.0) <= now]

    def _limit_for(self, queues: Sequence[str], limit: int) -> int:
        """Return how many jobs to take: those of the only queue that may not run would be given back."""
        most = self.concurrencies.get(queues[0]) if len(queues) == 1 else None
        return limit if most is None else min(limit, most - self._runner.held_of(queues[0]))

    async def _claim_taken(self, taken: Nomination, ids: Sequence[str], limit: int, began: float) -> None:
        """Claim candidates; return those that others have to run.

        Should the store be away, these are tried again: others would have to wait for the audit to find them.
        """
        if self._in_hand is not taken:
            # Where other parts of the store may go on, they do not wait for this one: these are left to the audit.
            self._in_hand = None if self._parted else taken
            self._in_hand_number, self._in_hand_since = self.claims.begin(taken.queue), time.monotonic()
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
            taken = await self._dispatcher.take(queues, limit, NO_WAIT_SECONDS) or Nomination(unfinished, None)
            with contextlib.suppress(ValueError):
                self._unfinished.remove(taken.queue)
            return taken
        # A queue that cools down must not be waited past its time.
        cooling = len(queues) < len(self._queues)
        wait = max(NO_WAIT_SECONDS, self._coolest() - time.monotonic()) if cooling else self.wait
        return await self._dispatcher.take(queues, limit, wait)

    def _coolest(self) -> float:
        """Return the time at which the next of the queues that cool down is asked for again."""
        now = time.monotonic()
        return min((until for until in self._cool_until.values() if until > now), default=now + NO_WAIT_SECONDS)

    async def _holds_back(self, queue: str, began: float) -> bool:
        """Return whether a queue has ready jobs that its rules do not let start yet; it cools down then."""
        if queue not in self._limited or not await self._store.list_claimable(queue, 1):
            return False
        self._cool_down(queue, began)
        return True

    def _cool_down(self, queue: str, began: float) -> None:
        """Leave a queue to others for a moment, unless a job has ended since it was asked that others waited for."""
        if self._ended_at.get(queue, 0.0) < began:
            seconds = LIMITED_COOL_DOWN_SECONDS if queue in self._limited else COOL_DOWN_SECONDS
            self._cool_until[queue] = time.monotonic() + seconds

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
            self._poll = FIRST_POLL
        else:
            await asyncio.sleep(self._poll * random.uniform(0.5, 1.0))
            self._poll = min(MAX_POLL, self._poll * 1.5)

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

    def _start_by(self, queue: str, sent: float) -> float:
        return sent + AHEAD_SECONDS if queue in self._rated else inf

    async def _claim(self, queue: str, limit: int, ids: Sequence[str] | None, number: int = 0) -> list[Claim]:
        start_by = self._start_by(queue, now := time.monotonic())
        # What the store gives again to one that is sent again, it may have given at the first try.
        sent = self._in_hand_since if number else now
        start_count = max(0, self._runner.free() - self._coming)
        number = self.claims.begin(queue, number)
        request = self._request._replace(queue=queue, limit=limit, ids=ids, start_count=start_count, number=number)
        claiming = asyncio.ensure_future(self._store.claim(request))
        coming = min(limit, start_count)
        self._coming += coming
        self._asked += limit
        try:
            claims = await asyncio.shield(claiming)
        except asyncio.CancelledError:
            # What the store may be giving right now is this worker's: a stop gives it back, and must not forget it.
            self.claims.failed(number)
            with contextlib.suppress(QueueCoreError):
                self._runner.accept(await claiming, sent, start_count, start_by)
                self.claims.forget(number)
            raise
        except Exception:
            self.claims.failed(number)
            raise
        finally:
            self._coming -= coming
            self._asked -= limit
        self._waits.worked()
        if not self.claims.answered(number):
            return []  # the loop was blocked meanwhile, and they were handed back
        if claims:
            self._runner.accept(claims, sent, start_count, start_by)
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
