"""Does on a store what happens in the model, and compares after each step."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, Protocol, cast

from queue_core.errors import StoreUnavailable
from queue_core.model.job import Claim, Outcome, OutcomeKind, Ready, new_id
from queue_core.ports.store import Doubt, HeartbeatReply, HeartbeatRequest, LeaseRenewal, StoreHeartbeat
from tests.conformance.making import LEASE, TYPE, failure, new_job, worker_beat
from tests.conformance.world import World
from tests.model.invariants import done
from tests.model.model import MAX_LOSSES, Actions, Attempt, Job, Jobs, Lease, Rules, State, Step, Token
from tests.model.traces import CHANGES, FAULTS, SWEEPS, Pair, Way, kind_of, ways_on

KINDS: dict[str, OutcomeKind] = {"lost": "released", "poison": "dead"}
"""Outcomes of the model that the store knows by their failures."""
QUIET = ("ask", "insert", "settle", "reclaim", "promote", "audit", "start", "claim", "time", "heartbeat")
"""The steps that bring all jobs to their ends, the best first."""


Facts = tuple[str, int, int, int, bool]
"""Of a job: its state, losses, crashes and retries, and whether it was asked to stop."""


def facts_of(job: Job) -> Facts:
    """Return what a store has to say of a job."""
    asked = job.lease is not None and job.lease.cancel
    return job.status, job.losses, job.crashes, job.retries, asked


class Walk(Protocol):
    """Which way a trace goes."""

    def choose(self, steps: Sequence[Step], ways: Iterable[Way]) -> Way | None:
        """Return the next step behind these; None: the trace is at its end."""
        ...


class Walker:
    """Chooses steps so that pairs of kinds of steps that were rare so far come next."""

    def __init__(self, seed: int, most: int) -> None:
        self._random = random.Random(seed)
        self._most = most
        self._pairs: Counter[Pair] = Counter()

    def choose(self, steps: Sequence[Step], ways: Iterable[Way]) -> Way | None:
        """Return the next step; None: there are as many as there may be, or no way leads on."""
        last = steps[-1] if steps else None
        found = ways_on("" if last is None else last.name, ways, frozenset())
        if not found or len(steps) == self._most:
            return None
        if last is None:
            return self._random.choice(found)
        fewest = min(self._pairs[kind_of(last), kind_of(step)] for step, _ in found)
        rare = [way for way in found if self._pairs[kind_of(last), kind_of(way[0])] == fewest]
        chosen = self._random.choice(rare if self._random.random() < 0.9 else found)
        self._pairs[kind_of(last), kind_of(chosen[0])] += 1
        return chosen


class Replay:
    """One trace: the model and a store side by side, from nothing to the end of all jobs.

    `crash`: kills the server and starts it again; where there is none, no trace has a crash.
    """

    def __init__(self, world: World, name: str, jobs: Jobs, crash: Callable[[], Awaitable[None]] | None = None) -> None:
        self._world = world
        self._crash_server = crash
        # since the disk had everything: the states whose commits a crash may have lost
        self._unsure: list[State] = []
        self._queue = name
        self._actions = Actions(Rules(), jobs)
        self._ids = (new_id(), new_id())
        self.state = State(faults=FAULTS, changes=CHANGES)
        self._claims: dict[Token, Claim] = {}
        self._owners: dict[Token, str] = {}
        self._last: dict[int, Token] = {}
        self._lives = [0, 0]
        self._hearts: dict[str, StoreHeartbeat] = {}
        self.steps: list[Step] = []

    async def run(self, walk: Walk) -> None:
        """Take the steps of a trace, then those that bring all jobs to their ends."""
        try:
            while (way := walk.choose(self.steps, self._actions(self.state))) is not None:
                await self.take(*way)
            while not done(self.state):
                await self.take(*self._quiet())
        except AssertionError as error:
            error.add_note("\n".join(map(str, self.steps)))
            raise
        finally:
            for heart in self._hearts.values():
                await asyncio.to_thread(heart.close)

    def _quiet(self) -> tuple[Step, State]:
        ways = [way for way in self._actions(self.state) if self._costs_nothing(way[1])]
        if self.steps[-1].name in SWEEPS:
            ways = [way for way in ways if way[0].name == self.steps[-1].name] or ways
        ways = [way for way in ways if way[0].name in QUIET and way[1] != self.state]
        return min(ways, key=lambda way: QUIET.index(way[0].name))

    def _costs_nothing(self, after: State) -> bool:
        return (after.faults, after.changes) == (self.state.faults, self.state.changes)

    async def take(self, step: Step, after: State) -> None:
        """Do a step on the store, and compare."""
        before, self.state = self.state, after
        last = self.steps[-1].name if self.steps else ""
        # Time passes by a commit that is waited for.
        sure = last == "time" or before.disk == (before.jobs, before.number)
        self._unsure = [before] if sure else [*self._unsure, before]
        self.steps.append(step)
        await self._deliver(step)
        if step.name in SWEEPS:
            if last != step.name:
                await self._sweep(step.name, before)
        else:
            name = step.name.partition(",")[0]
            if not step.name.endswith(", sent") and (call := getattr(self, f"_{name.split()[0]}", None)):
                await call(step, before)
        if step.name not in SWEEPS or not self._more(step.name):
            await self._compare()

    def _more(self, name: str) -> bool:
        return any(step.name == name for step, _ in self._actions(self.state))

    async def _compare(self) -> None:
        for place, job in enumerate(self.state.jobs):
            assert await self._seen(place) == facts_of(job)

    async def _seen(self, place: int) -> Facts:
        """Return what the store says of a job."""
        job_id = self._ids[place]
        if await self._world.store.results([job_id]) == []:
            return facts_of(Job())
        found = await self._world.inspector.get(job_id)
        return str(found.status), found.losses, found.crashes, found.retry_count, found.cancel_requested

    # -- the steps; those that have no method are a worker's own

    async def _insert(self, step: Step, before: State) -> None:
        assert step.job is not None
        new = new_job(id=self._ids[step.job], queue=self._queue)
        (inserted,) = await self._world.store.insert([new])
        assert inserted.created is (before.jobs[step.job].status == "absent")
        await self._ready(Ready(inserted.id, self._queue, inserted.rank))

    async def _ask(self, step: Step, _before: State) -> None:
        assert step.job is not None
        (found,) = await self._world.store.results([self._ids[step.job]])
        assert str(found.status) == self.state.jobs[step.job].status

    async def _claim(self, step: Step, before: State) -> None:
        assert step.job is not None
        assert step.worker is not None
        worker, number = self._worker(step.worker), self._number(step, before)
        claims = await self._world.claim(
            queue=self._queue,
            worker=worker,
            ids=[self._ids[step.job]],
            start_count=0 if step.what == "waiting" else 1,
            number=number,
        )
        ready = before.jobs[step.job].status == "queued"
        assert len(claims) == ready
        for claim in claims:
            self._last.pop(step.job, None)
            lease = self.state.jobs[step.job].lease
            assert lease is not None
            self._claims[lease.token], self._owners[lease.token] = claim, worker

    def _number(self, step: Step, before: State) -> int:
        """Return the number that the worker gives a claim whose answer gets lost."""
        if step.name == "claim, answer lost":
            return self.state.claims
        if step.name == "claim, executed late":
            (message,) = (one for one in before.wire - self.state.wire)
            return message.claim
        return 0

    async def _settle(self, step: Step, before: State) -> None:
        assert step.job is not None
        one = self._attempt(step, before)
        claim, repeated = self._claims[one.token], (one.token, step.what) in before.jobs[step.job].endings
        (settled,) = await self._world.store.settle([self._outcome(step, claim)])
        # A repeated outcome has to be accepted until something else becomes of the job.
        if not repeated or one.token == self._last.get(step.job):
            # A release leaves little behind: one that a reclaim has done before may be accepted, and one that became a
            # cancel may be refused when it is repeated. That nothing changes is compared.
            given_back = KINDS.get(step.what, step.what) == "released"
            assert settled.accepted is step.accepted or (given_back and (settled.accepted or repeated))
        if settled.accepted and not repeated:
            self._last[step.job] = one.token
        await self._ready(Ready(claim.id, self._queue, settled.rank))

    def _attempt(self, step: Step, before: State) -> Attempt:
        assert step.worker is not None
        late = [one.attempt for one in before.wire if one.attempt is not None]
        among = late if step.name.endswith("late") else before.held[step.worker]
        return next(one for one in among if (one.job, one.seen_attempt) == (step.job, step.attempt))

    def _outcome(self, step: Step, claim: Claim) -> Outcome:
        fields: dict[str, Any] = {"failure": failure()} if step.what in {"retrying", "dead"} else {}
        if step.what in KINDS:
            fields = {"failure": failure(kind=step.what)}
        if step.what == "retrying":
            fields["delay"] = LEASE
        kind = KINDS.get(step.what) or cast("OutcomeKind", step.what)
        return Outcome(claim.id, claim.token, self._queue, TYPE, kind, **fields)

    async def _heartbeat(self, step: Step, before: State) -> None:
        assert step.worker is not None
        held = sorted(before.held[step.worker], key=lambda one: one.token)
        last = {one.job: one for one in held}
        doubt = before.doubts[step.worker]
        for ones in ([one for one in held if last[one.job] is not one], list(last.values())):
            await self._beat(step.worker, before, ones, doubt if ones == list(last.values()) else 0)

    async def _beat(self, worker: int, before: State, held: list[Attempt], doubt: int) -> None:
        name = self._worker(worker)
        heart = self._hearts.setdefault(name, self._world.store.open_heartbeat())
        leases = [LeaseRenewal(self._ids[one.job], self._claims[one.token].token, started=one.started) for one in held]
        doubts = (Doubt(self._queue, doubt),) if doubt else ()
        request = worker_beat(*leases, worker=name, queues=(self._queue,), doubts=doubts)
        reply = await self._renewed(heart, request)
        rows = before.jobs
        holding = {one.job for one in held if (lease := rows[one.job].lease) and lease.token == one.token}
        assert set(reply.lost) == {self._ids[one.job] for one in held if one.job not in holding}
        mine = [place for place, job in enumerate(rows) if job.lease is not None and self._has(worker, job.lease)]
        asked = {self._ids[place] for place in mine if (lease := rows[place].lease) and lease.cancel}
        assert set(reply.cancel) == asked
        found = {self._ids[place] for place in mine if doubt and (lease := rows[place].lease) and lease.claim == doubt}
        assert {stray.id for stray in reply.strays} == found

    async def _renewed(self, heart: StoreHeartbeat, request: HeartbeatRequest) -> HeartbeatReply:
        """Renew, again where its connection has ended with a server."""
        if self._crash_server is not None:
            with suppress(StoreUnavailable):
                return await asyncio.to_thread(heart.renew, request)
        return await asyncio.to_thread(heart.renew, request)

    def _has(self, worker: int, lease: Lease) -> bool:
        """Return whether a lease is this process's, and not that of one which was killed."""
        return self._owners[lease.token] == self._worker(worker)

    async def _cancel(self, step: Step, _before: State) -> None:
        await self._change("cancel", step)

    async def _retry(self, step: Step, _before: State) -> None:
        await self._change("retry", step)

    async def _change(self, verb: Any, step: Step) -> None:
        assert step.job is not None
        self._last.pop(step.job, None)
        changed = await self._world.change(verb, [self._ids[step.job]])
        assert changed.ids == (self._ids[step.job],)
        await self._ready(*changed.ready)

    async def _time(self, _step: Step, _before: State) -> None:
        await self._world.advance(LEASE + 5)

    async def _kill(self, step: Step, _before: State) -> None:
        assert step.worker is not None
        self._lives[step.worker] += 1

    async def _crash(self, _step: Step, before: State) -> None:
        """Kill the server; what of the last commits it has lost is seen, not chosen: the model goes on from there."""
        assert self._crash_server is not None
        await self._crash_server()
        seen = [await self._seen(place) for place in range(len(self._ids))]
        ways = []
        for state in reversed(self._unsure):
            disk = (state.jobs, state.number)
            ways.append(self._actions.store.crash(before._replace(faults=before.faults - 1, disk=disk)))
        found = [state for state in ways if [facts_of(job) for job in state.jobs] == seen]
        assert found, (seen, ways)
        self.state = found[0]

    # -- delivery, where there is any

    async def _ready(self, *ready: Ready) -> None:
        """Offer what became ready; one without a rank did not."""

    async def _deliver(self, step: Step) -> None:
        """Do what a step does to the ready set before it comes to the store."""

    async def _audit(self) -> None:
        """Offer again what no ready set has."""

    async def _sweep(self, name: str, before: State) -> None:
        if name == "audit":
            await self._audit()
            return
        if name == "promote":
            promoted = await self._world.store.promote(1000)
            await self._ready(*promoted)
            ready = {one.id for one in promoted}
            due = {self._ids[place] for place, job in enumerate(before.jobs) if job.status == "retrying" and job.due}
            assert ready & set(self._ids) == due
            return
        reclaimed = await self._world.store.reclaim(1000, MAX_LOSSES)
        await self._ready(*(Ready(one.id, one.queue, one.rank) for one in reclaimed))
        found = {one.id for one in reclaimed}
        over = {self._ids[place] for place, job in enumerate(before.jobs) if job.lease and job.lease.expired}
        assert found & set(self._ids) == over

    def _worker(self, worker: int) -> str:
        return f"{self._queue}-{worker}-{self._lives[worker]}"
