"""Claims within the rules of queues."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any

from queue_core.errors import StoreUnavailable
from queue_core.model.job import Claim, Ready
from queue_core.model.report import Announced
from queue_core.model.rules import Rules, rules_of
from queue_core.ports.store import ClaimRequest
from queue_core.redis.scripts import Call
from queue_core.runtime import MAX_STATEMENT_LENGTH
from queue_core.stores.redis.capacity import limit_arguments
from queue_core.stores.redis.hints import DueHints
from queue_core.stores.redis.records import entries_of, tags_of, whole
from queue_core.stores.redis.session import JOBS_PER_SCRIPT, RedisLink, chunks, microseconds

SPARE_CANDIDATES = 100
"""Candidates beside those that are wanted, since other workers claim at the same moment."""
MAX_READS = 5
"""Reads of a queue's best ranks in one claim, while others take them away."""
MAX_SCANNED = 10_000
"""Ready jobs read in one round for those of some types: some 20 ms of Redis, in parts."""

_SETS = ("paused", "pending", "offered", "running", "unfinished", "token", "types", "depths", "blocked", "rate")


class RedisClaims:
    """Reads of ready jobs and the script that claims them."""

    def __init__(self, link: RedisLink, rules: Rules, hints: DueHints) -> None:
        self._link = link
        self._rules = rules
        self.hints = hints
        # the last claim whose answer did not come: what it asked for, and its name
        self._unanswered: dict[tuple[str, str, int, tuple[str, ...]], str] = {}
        # the rank up to which a queue was scanned without finding enough of some types
        self._scanned_to: dict[tuple[str, frozenset[str]], int] = {}

    async def claim(self, request: ClaimRequest) -> list[Claim]:
        """Move ready jobs to running, best rank first; with a concurrency, all of them start at once."""
        rules = rules_of(self._rules, request.queue)
        if rules.concurrency is not None and request.start_count is not None:
            request = request._replace(limit=min(request.limit, request.start_count), start_count=None)
        if request.limit <= 0 or request.types == ():
            return []
        if request.ids is not None:
            return await self._claim(request, await self._in_order(request.queue, request.ids))
        claims: list[Claim] = []
        types = None if request.types is None else frozenset(request.types)
        for _ in range(MAX_READS):
            ready = await self.ready_of(request.queue, request.limit - len(claims), types, SPARE_CANDIDATES)
            start_count = None if request.start_count is None else max(0, request.start_count - len(claims))
            left = request._replace(limit=request.limit - len(claims), start_count=start_count)
            more = await self._claim(left, [job.id for job in ready])
            claims += more
            if not ready or len(claims) >= request.limit or (rules.limits_claims and not more) or _is_full(claims):
                break
        return claims

    async def _in_order(self, queue: str, ids: Sequence[str]) -> Sequence[str]:
        """Return the ids in the order of their ranks, as far as one script does not see to that."""
        ids = list(dict.fromkeys(ids))
        if len(ids) <= JOBS_PER_SCRIPT:
            return ids
        ranks = await self._ranks(queue, ids)
        return sorted(ranks, key=lambda job_id: ranks[job_id])

    async def _claim(self, request: ClaimRequest, ids: Sequence[str]) -> list[Claim]:
        claims: list[Claim] = []
        for part in chunks(ids):
            left = request.limit - len(claims)
            if left <= 0 or _is_full(claims):
                break
            start_count = left if request.start_count is None else max(0, request.start_count - len(claims))
            claims += await self._claim_part(request._replace(limit=left, start_count=start_count), part)
        return claims

    async def _claim_part(self, request: ClaimRequest, ids: Sequence[str]) -> list[Claim]:
        asked = (request.queue, request.worker, request.number, tuple(ids))
        # By its number the worker finds what a claim whose answer got lost has given to it.
        name = self._unanswered.pop(asked, None) or name_of(request)
        # Before the claim, so that a crash in between loses no hint.
        await self.hints.leased(request.queue, request.lease)
        try:
            found = await self._link.run(*self.call(request, ids, name))
        except StoreUnavailable:
            # It may have run: asked for the same jobs again, it is to give those that it gave then.
            self._unanswered = {asked: name}
            raise
        return claims_of(request.queue, ids, found)

    def call(self, request: ClaimRequest, ids: Sequence[str], name: str) -> Call:
        """Return the script that claims these candidates of one call, under this name."""
        keys = self._link.of(request.queue, _SETS) + self._link.keys.jobs(request.queue, ids)
        lease = round(request.lease * 1e6)
        types = ["*"] if request.types is None else [len(request.types), *request.types]
        limits = limit_arguments(rules_of(self._rules, request.queue))
        begin = [request.worker, lease, request.limit, name, request.start_count]
        return Call("claim", keys, [*begin, *limits, request.release, *types, *ids])

    async def _ranks(self, queue: str, ids: Sequence[str]) -> dict[str, int]:
        """Return the ranks of those jobs that are ready."""
        commands = self._link.batch()
        parts = list(chunks(ids))
        for part in parts:
            commands.zmscore(self._link.keys.of(queue, "pending"), list(part))
        found = zip(parts, await self._link.send(commands), strict=True) if parts else ()
        return {
            job_id: int(score)
            for part, scores in found
            for job_id, score in zip(part, scores, strict=True)
            if score is not None
        }

    async def ready_of(self, queue: str, limit: int, types: frozenset[str] | None, spare: int = 0) -> list[Ready]:
        """Return the first ready jobs of some types, None: of every type, and a few more where they are adjacent.

        When many others precede them, each call reads the very first and continues where the last
        one stopped.
        """
        if limit <= 0:
            return []
        if types is None:
            return await self.list_ready(queue, -1, limit + spare)
        place = (queue, types)
        ready, rank = await self._scan(queue, -1, limit, types, JOBS_PER_SCRIPT)
        if rank is None or len(ready) >= limit:
            self._scanned_to.pop(place, None)
            return ready[: limit + spare]
        start = max(rank, self._scanned_to.get(place, -1))
        more, rank = await self._scan(queue, start, limit - len(ready), types, MAX_SCANNED)
        if rank is None or more:
            self._scanned_to.pop(place, None)
        else:
            self._scanned_to[place] = rank
        return (ready + more)[: limit + spare]

    async def _scan(
        self, queue: str, rank: int, limit: int, types: frozenset[str], most: int
    ) -> tuple[list[Ready], int | None]:
        """Return at least so many ready jobs behind a rank, and the rank reached; None: that was all there are."""
        found: list[Ready] = []
        for _ in range(0, most, JOBS_PER_SCRIPT):
            page = await self.list_ready(queue, rank, JOBS_PER_SCRIPT)
            known = await self._link.read({queue: [job.id for job in page]}, ["type"]) if page else {}
            # An entry without a hash is no job; a claim of it drops it.
            found += [job for job in page if known.get((queue, job.id), [None])[0] in types]
            if len(page) < JOBS_PER_SCRIPT:
                return found, None
            rank = page[-1].rank
            if len(found) >= limit:
                break
        return found, rank

    async def list_ready(self, queue: str, rank: int, limit: int) -> list[Ready]:
        """Return ready jobs with a higher rank, in order."""
        if limit <= 0:
            return []
        commands = self._link.batch()
        pending = self._link.keys.of(queue, "pending")
        commands.zrangebyscore(pending, f"({rank}", "+inf", start=0, num=limit, withscores=True)
        (found,) = await self._link.send(commands)
        return [Ready(job_id, queue, int(score)) for job_id, score in found]

    async def list_claimable(self, queue: str, limit: int) -> list[Ready]:
        """Return the first claimable jobs whose type a live worker of this queue has announced."""
        announced = await self._announced(queue)
        return await self.ready_of(queue, limit, announced) if announced else []

    async def filter_claimable(self, queue: str, ids: Sequence[str]) -> list[Ready]:
        """Return those of these jobs that are claimable now and whose type a live worker of this queue announced."""
        announced = await self._announced(queue)
        ranks = await self._ranks(queue, list(dict.fromkeys(ids))) if announced else {}
        known = await self._link.read({queue: list(ranks)}, ["type"]) if ranks else {}
        ready = [Ready(job_id, queue, ranks[job_id]) for (_, job_id), (type_,) in known.items() if type_ in announced]
        return sorted(ready, key=lambda job: job.rank)

    async def _announced(self, queue: str) -> frozenset[str]:
        """Return the types that live workers of a queue run and that may wait here; none while it is paused."""
        commands = self._link.batch()
        commands.exists(self._link.keys.of(queue, "paused"))
        commands.hkeys(self._link.keys.of(queue, "types"))
        commands.hgetall(self._link.keys.workers)
        commands.time()
        paused, waiting, entries, time = await self._link.send(commands)
        if paused:
            return frozenset()
        now = microseconds(time)
        alive = (one.request for one in entries_of(entries).values() if not one.is_lost(now))
        live = Announced((request.queues, request.types) for request in alive).of(queue)
        return frozenset(waiting if live is None else live.intersection(waiting))


def name_of(request: ClaimRequest) -> str:
    """Return a new name for a claim, which begins with its number."""
    return f"{request.number}.{secrets.token_hex(4)}"


def claims_of(queue: str, ids: Sequence[str], found: Any) -> list[Claim]:
    """Return what a claim of these candidates gave, by the answer of the script."""
    return [_claim(queue, ids[place - 1], row) for place, *row in found]


def _is_full(claims: Sequence[Claim]) -> bool:
    return sum(len(claim.payload) for claim in claims) >= MAX_STATEMENT_LENGTH


def _claim(queue: str, job_id: str, row: Sequence[Any]) -> Claim:
    token, type_, payload, priority, rank, retries, most, crashes, created_at, tags, key, losses, headers = row
    return Claim(
        job_id,
        int(token),
        queue,
        type_,
        payload or "",
        whole(priority),
        whole(rank),
        whole(retries),
        whole(most),
        whole(crashes),
        whole(created_at) / 1e6,
        tags_of(tags),
        None if key is None else str(key),
        whole(losses),
        headers,
    )
