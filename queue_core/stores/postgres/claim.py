"""Claims, the heads of queues for the audit, and the heartbeat."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from typing import Any, NamedTuple

from queue_core.errors import StoreUnavailable
from queue_core.model.job import Claim, Ready
from queue_core.model.rules import QueueRules, Rules, rules_of
from queue_core.ports.store import ClaimRequest
from queue_core.stores.postgres.capacity import INLINE_BYTES, Running, claim_limited
from queue_core.stores.postgres.dialect import Rows, plain_array, text_array
from queue_core.stores.postgres.scans.ranks import (
    ABOVE_ALL_RANKS,
    BAND_BITS,
    EVERYWHERE,
    PAUSE_FACTOR,
    PAUSE_FACTOR_CLAIMS,
    Part,
    PassedRanks,
    Ranks,
    RankScan,
    named,
    rank_parameters,
    read,
)
from queue_core.stores.postgres.session.plans import Ahead, Last, Plan
from queue_core.stores.postgres.session.queue_ids import QUEUES
from queue_core.stores.postgres.session.runner import SerialRunner
from queue_core.stores.sql.records import known_ids

USUAL_SECONDS, USUAL_SECONDS_EACH = 0.005, 0.00003
"""Seconds of a statement about heads that is not slow, and of each queue and each job in it."""
DOUBT_SECONDS, DOUBT_FACTOR = 60.0, 2000.0
"""How long all queues count as ready after the search for the ready ones was slow, also as a multiple of that
time: their heads show which are."""


class QueueHeads:
    """See queue_core.ports.store.JobStore for what each method does."""

    def __init__(self, runner: SerialRunner, hears: Callable[[], bool]) -> None:
        self.runner = runner
        # the ranks that the audit has passed
        self.passed = Ranks(PAUSE_FACTOR, hears)
        # by queue: which types its workers had announced
        self._announced: dict[str, int] = {}
        self._doubt_until = float("-inf")

    def reread(self, queue: str, parts: Sequence[Part]) -> None:
        """Read these ranks of a queue again."""
        self.passed.reread(queue, parts, time.monotonic())

    async def list_claimable_in(self, queues: Sequence[str], limit: int) -> list[Ready]:
        """Return the first claimable jobs of each of these queues whose type a live worker has announced."""
        known = {queue: self.passed.of(queue) for queue in queues}
        began = time.monotonic()
        if wait := max([passed.due_in(began) for passed in known.values()], default=0.0):
            await asyncio.sleep(wait)
            began = time.monotonic()
        await self._know_edge([passed for passed in known.values() if passed.wants_edge(began)])
        scans = {queue: passed.next_scan(began) for queue, passed in known.items()}
        parts = [(queue, part) for queue, scan in scans.items() for part in scan.parts]
        asked = {
            "queues": text_array(queue for queue, _ in parts),
            "above": plain_array(low for _, (low, _) in parts),
            "up_to": plain_array(high for _, (_, high) in parts),
            "limit": limit,
        }
        try:
            rows = await self.runner.run("claim/heads", asked)
        except StoreUnavailable:
            for queue in queues:
                self.passed.of(queue).cut_off()
            raise
        usual = USUAL_SECONDS + USUAL_SECONDS_EACH * (len(rows) + len(parts))
        found = self._learn(scans, rows, limit, max(0.0, time.monotonic() - began - usual))
        return [job for jobs in found.values() for job in jobs[:limit]]

    async def list_ready(self, queue: str, queue_id: int | None, rank: int, limit: int, whole: bool) -> list[Ready]:
        """Return the next ready jobs of a queue; without `whole`, leave out the passed ranks.

        A whole page reads ended rows, too, once. Where that was cut off, it leaves out the passed ranks, too.
        """
        passed = self.passed.of(queue)
        if passed.wants_edge(time.monotonic()):
            await self._know_edge([passed])
        parts = [EVERYWHERE] if whole and not passed.given_up else passed.left()
        clipped = [(max(low, rank), high) for low, high in parts if high > rank]
        try:
            rows = await self.runner.run(
                "claim/ready_after", {"queue_id": queue_id, "limit": limit, **rank_parameters(clipped)}
            )
        except StoreUnavailable:
            passed.cut_off()
            raise
        return [Ready(job_id, queue, job_rank) for job_id, job_rank in rows]

    async def _know_edge(self, doubtful: Sequence[PassedRanks]) -> None:
        now = time.monotonic()
        for place, blocks, row_count in await self.runner.run("claim/sweep_edge") if doubtful else ():
            for passed in doubtful:
                passed.know_edge(place, blocks, row_count, now)

    def _learn(self, scans: dict[str, RankScan], rows: Rows, limit: int, extra: float) -> dict[str, list[Ready]]:
        """Record which ranks the heads show as passed; return the jobs of each queue."""
        found: dict[str, list[Ready]] = {}
        for job_id, queue, rank, announced in rows:
            jobs = found.setdefault(queue, [])
            if job_id is not None:
                jobs.append(Ready(job_id, queue, rank))
            if self._announced.setdefault(queue, announced) != announced:
                # The passed jobs may have been of a type that no worker ran.
                self._announced[queue] = announced
                self.passed.forget(queue)
                scans.pop(queue, None)
        now = time.monotonic()
        for queue in found.keys() & scans.keys():
            jobs, passed = found[queue], self.passed.of(queue)
            reached = jobs[limit - 1].rank if len(jobs) >= limit > 0 else ABOVE_ALL_RANKS
            passed.stopped(scans[queue], [job.rank for job in jobs], reached, now, extra)
        return found

    async def ready_queues(self) -> list[str]:
        """Return the queues that are not paused and have ready or running jobs."""
        began = time.monotonic()
        if began < self._doubt_until:
            return [queue for queue, _, paused in await self.runner.run(QUEUES) if not paused]
        rows: Rows = []
        try:
            rows = await self.runner.run("claim/ready_queues")
        finally:
            took = time.monotonic() - began
            if took > 4 * USUAL_SECONDS + USUAL_SECONDS_EACH * len(rows):
                self._doubt_until = time.monotonic() + max(DOUBT_SECONDS, DOUBT_FACTOR * took)
        return [queue for (queue,) in rows]


ID, EPOCH, PAYLOAD, PRIORITY, RANK = 0, 1, 3, 4, 5
"""Columns of a claim's rows; the epoch is one of the row without an id."""
EPOCH_SECONDS = 0.05
"""Until a claim is tried again that saw ready jobs where no lease epoch is live yet: a leader raises it."""


class ClaimBehind(NamedTuple):
    """A claim in the transaction that ends others: of the jobs that these unblock, or of the best ranks."""

    request: ClaimRequest
    params: dict[str, Any]
    rules: QueueRules
    # what ran as of the last claim, where the rules limit claims
    running: Running | None
    # of the best ranks
    scan: RankScan | None

    def plan(self, unblocked: Iterable[Ready] | None, last: bool = True) -> Plan[tuple[Rows, Running | None]]:
        """Claim, and return the rows and what runs. It is kept after the commit: the ends before it are undone, too.

        `unblocked`: None where only the server knows them by now. `last`: the plan ends with it.
        """
        query, params = "claim/by_rank", self.params
        if self.request.ids is not None:
            ids = None if unblocked is None else [one.id for one in unblocked if one.queue == self.request.queue]
            if ids == []:
                return [], None
            query, params = "claim/by_ids", {**params, "ids": None if ids is None else plain_array(ids)}
        if self.running is None:
            return (yield Last(query, params) if last else Ahead(query, params)), None
        running = copy(self.running)
        return (yield from claim_limited(query, params, self.rules, running, last)), running


class Claimed(NamedTuple):
    """What was claimed behind ends."""

    claim: ClaimBehind
    rows: Rows
    running: Running | None


def _parameters(queue_id: int, request: ClaimRequest) -> dict[str, Any]:
    return {
        "queue_id": queue_id,
        "queue": request.queue,
        "types": None if request.types is None else text_array(request.types),
        "limit": request.limit,
        "worker": request.worker,
        "lease": request.lease,
        "claim": request.number,
        "release": request.release,
        "starting": request.limit if request.start_count is None else request.start_count,
        # any payload comes with its job, which is not counted
        "inline": None,
        # of what the rules leave, as counted in the same transaction
        "within": False,
        # does not wait for the disk
        "synchronous": "off",
    }


def _claims(queue: str, rows: Rows) -> list[Claim]:
    return [
        Claim(
            job_id,
            token,
            queue,
            type_,
            payload,
            priority,
            rank,
            tried,
            limit,
            crashes,
            at,
            tuple(tags or ()),
            key,
            lost,
            head,
        )
        for job_id, token, type_, payload, priority, rank, tried, limit, crashes, at, tags, key, lost, head in rows
    ]


class PostgresClaims:
    """See queue_core.ports.store.JobStore for what each method does."""

    def __init__(
        self,
        runner: SerialRunner,
        sweeps: SerialRunner,
        rules: Rules,
        more: Callable[[str], None],
        hears: Callable[[], bool],
    ) -> None:
        """`more`: is called with a queue in which a claim has seen more than it could have, and that is to be asked for
        again: else who loses a race to other workers waits for a notification, with a backlog. `hears`: returns
        whether notifications of what came back arrive."""
        self._runner = runner
        self._more = more
        self._rules = rules
        # the ranks that claims have passed
        self.passed = Ranks(PAUSE_FACTOR_CLAIMS, hears)
        # by queue
        self._running: dict[str, Running] = {}
        # the audit's reads
        self.heads = QueueHeads(sweeps, hears)

    async def claim(self, queue_id: int, request: ClaimRequest) -> list[Claim]:
        """Move ready jobs of the queue with this id to running, unless it is paused; see `JobStore.claim`."""
        params = _parameters(queue_id, request)
        if request.ids is None:
            rows = await self._claim_by_rank(request, params)
        else:
            rows = await self._claim(
                "claim/by_ids", request.queue, {**params, "ids": plain_array(known_ids(request.ids))}
            )
        return _claims(request.queue, rows)

    async def behind(self, queue_id: int, request: ClaimRequest) -> ClaimBehind:
        """Return a claim that is a part of the transaction in which others end, and as durable as that."""
        queue, rules = request.queue, rules_of(self._rules, request.queue)
        params = {**_parameters(queue_id, request), "synchronous": None, "inline": INLINE_BYTES // request.limit}
        scan = None
        if request.ids is None:
            parts: Sequence[Part] = [EVERYWHERE]
            if not rules.aging:
                passed = self.passed.of(queue, request.types)
                await self._settle_doubts(passed, params)
                scan = passed.next_scan(time.monotonic())
                parts = scan.parts
            params |= rank_parameters(parts)
        running = self._running.setdefault(queue, Running()) if rules.limits_claims else None
        return ClaimBehind(request, params, rules, running, scan)

    async def claimed_behind(self, claim: ClaimBehind, rows: Rows, running: Running | None) -> list[Claim]:
        """Return what such a claim gave, after its commit; `running` is what runs as of then."""
        request = claim.request
        if running is not None:
            self._running[request.queue] = running
        had = self._had(request.queue, rows)
        if claim.scan is not None:
            self._learn(request, claim.scan, had)
        return _claims(request.queue, await self._with_payloads(had))

    def _had(self, queue: str, rows: Rows) -> Rows:
        """Return what was claimed, and have the queue asked for again where it was not all that was seen."""
        if not rows or rows[-1][ID] is not None:
            return rows
        if rows[-1][EPOCH] is None:
            asyncio.get_running_loop().call_later(EPOCH_SECONDS, self._more, queue)
        else:
            self._more(queue)
        return rows[:-1]

    async def _claim(self, query: str, queue: str, params: Mapping[str, Any]) -> Rows:
        rules = rules_of(self._rules, queue)
        if rules.limits_claims:
            running = self._running.setdefault(queue, Running())
            claimed = await self._runner.run_plan(lambda: claim_limited(query, params, rules, running))
            return await self._with_payloads(self._had(queue, claimed))
        return self._had(queue, await self._runner.run(query, params))

    async def _claim_by_rank(self, request: ClaimRequest, params: Mapping[str, Any]) -> Rows:
        if rules_of(self._rules, request.queue).aging:
            # Later arrivals may have lower ranks than those passed.
            return await self._claim("claim/by_rank", request.queue, {**params, **rank_parameters([EVERYWHERE])})
        passed = self.passed.of(request.queue, request.types)
        if wait := passed.due_in(time.monotonic()):
            await asyncio.sleep(wait)
        await self._settle_doubts(passed, params)
        scan = passed.next_scan(time.monotonic())
        try:
            rows = await self._claim("claim/by_rank", request.queue, {**params, **rank_parameters(scan.parts)})
        except StoreUnavailable:
            passed.cut_off()
            raise
        self._learn(request, scan, rows)
        return rows

    def _learn(self, request: ClaimRequest, scan: RankScan, rows: Rows) -> None:
        """Record which ranks a claim by rank has passed."""
        ranks = [row[RANK] for row in rows]
        if rows and rows[-1][PRIORITY] != 127 - (ranks[-1] >> BAND_BITS):
            self.passed.forget(request.queue)  # it has aging, unknown to this process
        else:
            self.passed.of(request.queue, request.types).claimed(scan, ranks, time.monotonic())

    def reread_notified(self, message: str) -> None:
        """Read ranks of a queue again to which others have returned jobs, as notified."""
        queue, parts = read(message)
        self.passed.reread(queue, parts, time.monotonic())
        self.heads.reread(queue, parts)

    def reread_all(self) -> None:
        """Read all passed ranks again, soon: notifications may have been missed."""
        self.passed.reread_all()
        self.heads.passed.reread_all()

    def reread(self, ready: Sequence[Ready]) -> None:
        """Read the ranks of jobs again that are ready once more, or late."""
        queues: dict[str, list[int]] = {}
        for job in ready:
            queues.setdefault(job.queue, []).append(job.rank)
        for queue, ranks in queues.items():
            parts = named(ranks)
            self.passed.reread(queue, parts, time.monotonic())
            self.heads.reread(queue, parts)

    async def _settle_doubts(self, passed: PassedRanks, params: Mapping[str, Any]) -> None:
        now = time.monotonic()
        if passed.wants_edge(now):
            for place, blocks, row_count in await self._runner.run(
                "claim/edge", {name: params[name] for name in ("queue_id", "queue")}
            ):
                passed.know_edge(place, blocks, row_count, now)
        elif passed.wants_first(now):
            scan = passed.next_scan(now)
            asked = {name: params[name] for name in ("queue_id", "types")}
            rows = await self._runner.run("claim/first", asked | rank_parameters(scan.parts))
            found = [rank for (rank,) in rows]
            passed.stopped(scan, found, found[0] if found else ABOVE_ALL_RANKS, time.monotonic())

    async def _with_payloads(self, rows: Rows) -> Rows:
        """Fetch payloads that were too large to be sent under a lock; jobs whose lease is lost by then are left out."""
        large = [row[0] for row in rows if row[PAYLOAD] is None]
        if not large:
            return rows
        fetched = await self._runner.run("claim/payloads", {"ids": plain_array(large)})
        found: dict[str, str] = {job_id: payload for job_id, payload in fetched}
        whole = [
            row if row[PAYLOAD] is not None else (*row[:PAYLOAD], found.get(row[0]), *row[PAYLOAD + 1 :])
            for row in rows
        ]
        return [row for row in whole if row[PAYLOAD] is not None]

    async def filter_claimable(self, queue: str, queue_id: int | None, ids: Sequence[str]) -> list[Ready]:
        rows = await self._runner.run("claim/claimable", {"queue_id": queue_id, "ids": plain_array(known_ids(ids))})
        return [Ready(job_id, queue, rank) for job_id, rank in rows]
