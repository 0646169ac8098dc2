"""The queue as a state machine: small enough to be explored to its end, readable as the specification.

Producers, two workers, an operator, the store, what is on the disk, and what is on its way between them. Each function
below is one kind of action: it yields every way in which it can happen in a state. Time is a flag: whether it went on
long enough for a lease to end, or a job to be due. Faults are actions that take one from a budget.

What the store decides is in `Store`; what is promised is in `tests.model.invariants`. Names that begin with `seen_` are
an onlooker's: no decision rests on them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

JOBS = (0, 1)
WORKERS = (0, 1)
MAX_RETRIES = 1
MAX_LOSSES = 2
"""Losses that bury a job; 20 by default, and few here."""

Token = tuple[int, int]
"""The epoch, which every restart of the server raises, and the number within it."""


class Lease(NamedTuple):
    """The right to run a job."""

    worker: int
    token: Token
    # the handler was started, as far as the store knows
    begun: bool = True
    # its time is over: the next reclaim takes the job back
    expired: bool = False
    cancel: bool = False
    # the number of its claim, where its worker had no answer; 0: it had one
    claim: int = 0
    # which attempt this is
    seen_attempt: int = 0


class Job(NamedTuple):
    """A row of the store."""

    status: str = "absent"
    lease: Lease | None = None
    retries: int = 0
    losses: int = 0
    # deaths of its process that a living worker saw
    crashes: int = 0
    # retrying: its time has come
    due: bool = False
    # how attempts ended: an outcome that is repeated is accepted, for its first answer may have been lost
    endings: frozenset[tuple[Token, str]] = frozenset()


class Attempt(NamedTuple):
    """What a worker holds."""

    job: int
    token: Token
    # "waiting" for a slot, "running", or the outcome that the worker goes on trying to store
    phase: str
    # its handler was started
    started: bool
    # losses of the job before this attempt: it runs alone from the first on
    losses: int
    seen_attempt: int


class Message(NamedTuple):
    """A request that its sender has given up and the server may still execute."""

    worker: int
    job: int
    # a settle of this attempt; None: a claim
    attempt: Attempt | None
    # the number of a claim
    claim: int = 0


class State(NamedTuple):
    """Everything."""

    jobs: tuple[Job, ...] = (Job(), Job())
    # the last number of a lease token, and its epoch
    number: int = 0
    epoch: int = 0
    # what is left of jobs and number when the server crashes now
    disk: tuple[tuple[Job, ...], int] = ((Job(), Job()), 0)
    # ids that wait in the ready set
    offered: tuple[bool, ...] = (False, False)
    # whether the producer has its answer
    acknowledged: tuple[bool, ...] = (False, False)
    held: tuple[frozenset[Attempt], ...] = (frozenset(), frozenset())
    # the number of this worker's claim that is without an answer; 0: none is
    doubts: tuple[int, ...] = (0, 0)
    wire: frozenset[Message] = frozenset()
    faults: int = 0
    # how often operators and services may still change something
    changes: int = 0
    # claims without an answer so far
    claims: int = 0
    seen_attempts: int = 0
    # attempts that were given to begin at once, or whose handlers were started
    seen_started: frozenset[int] = frozenset()
    # outcomes that were acknowledged
    seen_told: frozenset[tuple[int, Token, str]] = frozenset()
    # per job: deaths that its worker survived
    seen_deaths: tuple[int, ...] = (0, 0)
    # what was broken; "" as long as all is well
    broken: str = ""


class Jobs(NamedTuple):
    """What the handlers of the two jobs do, and how they are claimed; decided before anything happens."""

    # it raises each time
    fails: tuple[bool, ...] = (False, False)
    # its worker has no free slot when it claims it
    waits: tuple[bool, ...] = (False, False)


@dataclass(frozen=True)
class Rules:
    """What the store does; a rule that is left out is one that a counterexample shows to be needed."""

    # a write of an attempt needs the token of the lease
    fence: bool = True
    # a restart of the server begins a new epoch of tokens
    epoch: bool = True
    # the audit offers again what is ready and not offered
    audit: bool = True
    # an insert is on the disk before it is acknowledged
    durable_insert: bool = True
    # an outcome is on the disk before it is acknowledged
    durable_settle: bool = True
    # a producer without an answer asks whether its job is there before it inserts it again
    asks: bool = True
    # a repeated outcome is accepted
    repeats: bool = True
    # a lease of a job that waits for its slot does not count as a loss
    waiting: bool = True
    # a job with a cancel request is cancelled instead of retried or released
    cancel_wins: bool = True


class Step(NamedTuple):
    """An action that happened."""

    name: str
    job: int | None = None
    worker: int | None = None
    # the phase of an attempt, or the outcome
    what: str = ""
    # the number of the attempt
    attempt: int = 0
    # of a write: whether the store accepted it
    accepted: bool | None = None


Steps = Iterator[tuple[Step, State]]
FINAL = frozenset({"completed", "dead", "cancelled"})


def put(values: tuple, place: int, value: object) -> tuple:  # type: ignore[type-arg]
    """Return the tuple with another value in one place."""
    return (*values[:place], value, *values[place + 1 :])


# -- the store


class Store:
    """What the server does with a request, at once and in one commit."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules

    def commit(self, state: State, place: int, job: Job, durable: bool = True) -> State:
        """Write a row; where it is durable, everything before it is on the disk, too."""
        state = state._replace(jobs=put(state.jobs, place, job))
        if job.status == "queued":
            # The offer follows the commit.
            state = state._replace(offered=put(state.offered, place, True))
        return state._replace(disk=(state.jobs, state.number)) if durable else state

    def insert(self, state: State, place: int) -> State:
        if state.jobs[place].status not in {"absent", *FINAL}:
            return state
        return self.commit(state, place, Job("queued"), self.rules.durable_insert)

    def claim(self, state: State, worker: int, place: int, begun: bool = True, claim: int = 0) -> State:
        """Lease a job that is ready; the commit is not waited for."""
        job = state.jobs[place]
        if job.status != "queued":
            return state
        number, attempt = state.number + 1, state.seen_attempts + 1
        lease = Lease(worker, (state.epoch, number), begun, claim=claim, seen_attempt=attempt)
        started = state.seen_started | {attempt} if begun else state.seen_started
        state = state._replace(number=number, seen_attempts=attempt, seen_started=started)
        return self.commit(state, place, job._replace(status="running", lease=lease), durable=False)

    def settle(self, state: State, attempt: Attempt) -> tuple[State, bool]:
        """End an attempt whose token holds; accept an outcome again that was written before."""
        job, kind = state.jobs[attempt.job], attempt.phase
        ended = (attempt.token, kind)
        if self.rules.repeats and ended in job.endings:
            return state, True
        lease = job.lease
        if lease is None or (self.rules.fence and lease.token != attempt.token):
            return state, False
        if lease.seen_attempt != attempt.seen_attempt:
            state = state._replace(broken="a stale write landed")
        job = job._replace(lease=None, endings=job.endings | {ended})
        job = self._ended(job, kind, lease.cancel and self.rules.cancel_wins)
        return self.commit(state, attempt.job, job, self.rules.durable_settle), True

    def _ended(self, job: Job, kind: str, cancelled: bool) -> Job:
        if kind in {"released", "lost"}:
            job = job._replace(losses=job.losses + (kind == "lost"))
            return job._replace(status="cancelled" if cancelled else "queued")
        if kind == "retrying":
            if cancelled:
                return job._replace(status="cancelled")
            return job._replace(status="retrying", retries=job.retries + 1, due=False)
        if kind == "poison":
            return job._replace(status="dead", crashes=job.crashes + 1)
        return job._replace(status=kind)

    def reclaim(self, state: State, place: int) -> State:
        """Take a job back whose lease is over."""
        job = state.jobs[place]
        assert job.lease is not None
        begun = job.lease.begun or not self.rules.waiting
        if begun and job.lease.seen_attempt not in state.seen_started:
            state = state._replace(broken="a job was blamed that had not begun")
        losses = job.losses + begun
        status = "dead" if losses >= MAX_LOSSES else "cancelled" if job.lease.cancel else "queued"
        return self.commit(state, place, job._replace(status=status, lease=None, losses=losses))

    def crash(self, state: State) -> State:
        """Start again with what is on the disk; requests on their way are gone."""
        jobs, number = state.disk
        epoch = state.epoch + self.rules.epoch
        return state._replace(jobs=jobs, number=number, epoch=epoch, disk=(jobs, number), wire=frozenset())


# -- what happens


class Actions:
    """All that can happen in a state, under these rules."""

    def __init__(self, rules: Rules, jobs: Jobs) -> None:
        self.store = Store(rules)
        self.rules = rules
        self.jobs = jobs
        self.kinds: tuple[Callable[[State], Steps], ...] = (
            self.insert,
            self.claim,
            self.start,
            self.child,
            self.settle,
            self.heartbeat,
            self.time,
            self.sweep,
            self.operator,
            self.late,
            self.kill,
            self.crash,
            self.forget,
        )

    def __call__(self, state: State) -> Steps:
        for kind in self.kinds:
            yield from kind(state)

    def insert(self, state: State) -> Steps:
        """A producer enqueues; while it has no answer, it asks, or enqueues again what has not ended."""
        for place in JOBS:
            if state.acknowledged[place] or (place and state.jobs[place - 1].status == "absent"):
                continue
            told = state._replace(acknowledged=put(state.acknowledged, place, True))
            if state.jobs[place].status != "absent" and self.rules.asks:
                yield Step("ask", place), told
            if state.jobs[place].status not in FINAL or not self.rules.asks:
                yield Step("insert", place), self.store.insert(told, place)
            after = self.store.insert(state, place)
            if state.faults and state.jobs[place].status == "absent":
                yield Step("insert, answer lost", place), after._replace(faults=state.faults - 1)

    def claim(self, state: State) -> Steps:
        """A worker takes an id from the ready set and claims the job: to begin at once, or when a slot is free."""
        for worker in WORKERS:
            if worker and not state.seen_attempts:
                continue  # the workers are alike: the first claim is the first one's
            for place in JOBS:
                if not state.offered[place]:
                    continue
                taken = state._replace(offered=put(state.offered, place, False))
                if state.jobs[place].status != "queued":
                    yield Step("claim of one that is gone", place, worker), taken
                    continue
                begun = not self.jobs.waits[place]
                after = self.store.claim(taken, worker, place, begun)
                lease = after.jobs[place].lease
                assert lease is not None
                phase = "running" if begun else "waiting"
                one = Attempt(place, lease.token, phase, begun, after.jobs[place].losses, lease.seen_attempt)
                yield Step("claim", place, worker, phase, lease.seen_attempt), _holding(after, worker, one)
                if state.faults and not state.doubts[worker]:
                    number = state.claims + 1
                    sent = taken._replace(
                        faults=state.faults - 1, claims=number, doubts=put(state.doubts, worker, number)
                    )
                    after = self.store.claim(sent, worker, place, claim=number)
                    yield Step("claim, answer lost", place, worker, attempt=after.seen_attempts), after
                    message = Message(worker, place, None, number)
                    yield Step("claim, sent", place, worker), sent._replace(wire=sent.wire | {message})

    def start(self, state: State) -> Steps:
        """A slot is free for a job that waited in its worker."""
        for worker in WORKERS:
            for one in state.held[worker]:
                if one.phase == "waiting":
                    begun = state._replace(seen_started=state.seen_started | {one.seen_attempt})
                    after = _holding(
                        _forgotten(begun, worker, one), worker, one._replace(phase="running", started=True)
                    )
                    yield Step("start", one.job, worker, attempt=one.seen_attempt), after

    def child(self, state: State) -> Steps:
        """The process of a handler dies while its worker lives: a loss, or poison where it ran alone."""
        for worker in WORKERS if state.faults else ():
            for one in state.held[worker]:
                if one.phase == "running":
                    kind = "poison" if one.losses else "lost"
                    deaths = state.seen_deaths[one.job] + (kind == "poison")
                    after = state._replace(faults=state.faults - 1, seen_deaths=put(state.seen_deaths, one.job, deaths))
                    yield Step("child dies", one.job, worker, kind, one.seen_attempt), _phase(after, worker, one, kind)

    def _outcome(self, state: State, one: Attempt) -> str:
        """Return what the handler's end makes of the attempt."""
        if one.phase != "running":
            return one.phase
        if not self.jobs.fails[one.job]:
            return "completed"
        return "retrying" if state.jobs[one.job].retries < MAX_RETRIES else "dead"

    def settle(self, state: State) -> Steps:
        """A handler ends, its worker stores the outcome and hears whether the lease held; else it tries again."""
        for worker in WORKERS:
            for one in state.held[worker]:
                if one.phase == "waiting":
                    continue
                ended = one._replace(phase=self._outcome(state, one))
                step = Step("settle", one.job, worker, ended.phase, one.seen_attempt)
                after, accepted = self.store.settle(state, ended)
                told = _forgotten(after, worker, one)
                yield step._replace(accepted=accepted), _acknowledged(told, ended) if accepted else told
                if not state.faults:
                    continue
                kept = _phase(state, worker, one, ended.phase)._replace(faults=state.faults - 1)
                after, accepted = self.store.settle(kept, ended)
                if accepted and after.jobs != state.jobs:
                    yield step._replace(name="settle, answer lost", accepted=True), after
                message = Message(worker, one.job, ended)
                if message not in state.wire:
                    yield step._replace(name="settle, sent"), kept._replace(wire=state.wire | {message})

    def heartbeat(self, state: State) -> Steps:
        """A worker renews what it holds, reports what began, hears what it lost, and finds what it does not know."""
        for worker in WORKERS:
            after = state
            for one in state.held[worker]:
                lease = after.jobs[one.job].lease
                if lease is None or (self.rules.fence and lease.token != one.token):
                    if one.phase in {"waiting", "running"}:
                        after = _forgotten(after, worker, one)
                    continue
                renewed = lease._replace(expired=False, begun=lease.begun or one.started)
                after = after._replace(jobs=put(after.jobs, one.job, after.jobs[one.job]._replace(lease=renewed)))
                if lease.cancel and one.phase in {"waiting", "running"}:
                    after = _phase(after, worker, one, "cancelled")
            if state.doubts[worker]:
                after = self._found(after, worker)
            if after != state:
                yield Step("heartbeat", worker=worker), after

    def _found(self, state: State, worker: int) -> State:
        """Give back what a claim without an answer has leased."""
        for place in JOBS:
            lease = state.jobs[place].lease
            if lease is not None and lease.claim == state.doubts[worker]:
                state = _holding(state, worker, Attempt(place, lease.token, "released", False, 0, lease.seen_attempt))
        return state._replace(doubts=put(state.doubts, worker, 0))

    def time(self, state: State) -> Steps:
        """Time goes on: leases end, retries are due. That a living worker renews nothing meanwhile is a fault."""
        leases = [job.lease for job in state.jobs if job.lease is not None and not job.lease.expired]
        frozen = any(one.token == lease.token for lease in leases for one in state.held[lease.worker])
        jobs = tuple(map(_later, state.jobs))
        if jobs != state.jobs and state.faults >= frozen:
            disk = (tuple(map(_later, state.disk[0])), state.disk[1])
            yield Step("time"), state._replace(jobs=jobs, disk=disk, faults=state.faults - frozen)

    def sweep(self, state: State) -> Steps:
        """The leader takes back what was lost, moves what is due, and offers what no ready set has."""
        for place, job in enumerate(state.jobs):
            if job.lease is not None and job.lease.expired:
                yield Step("reclaim", place), self.store.reclaim(state, place)
            if job.status == "retrying" and job.due:
                after = self.store.commit(state, place, job._replace(status="queued", due=False), durable=False)
                yield Step("promote", place), after
            if self.rules.audit and job.status == "queued" and not state.offered[place]:
                yield Step("audit", place), state._replace(offered=put(state.offered, place, True))

    def operator(self, state: State) -> Steps:
        """An operator cancels, or retries what has ended; a service that stops gives back what it holds."""
        if not state.changes:
            return
        state = state._replace(changes=state.changes - 1)
        for place, job in enumerate(state.jobs):
            if job.status in {"queued", "retrying"}:
                yield (
                    Step("cancel", place),
                    self.store.commit(state, place, job._replace(status="cancelled", due=False)),
                )
            elif job.lease is not None and not job.lease.cancel:
                asked = job._replace(lease=job.lease._replace(cancel=True))
                yield Step("cancel", place), self.store.commit(state, place, asked)
            elif job.status in {"dead", "completed"}:
                again = job._replace(status="queued", retries=0, losses=0)
                yield Step("retry", place), self.store.commit(state, place, again)
        for worker in WORKERS:
            for one in state.held[worker]:
                if one.phase in {"waiting", "running"}:
                    step = Step("stop", one.job, worker, "released", one.seen_attempt)
                    yield step, _phase(state, worker, one, "released")

    def late(self, state: State) -> Steps:
        """The server executes a request that its sender has given up."""
        for message in state.wire:
            rest = state._replace(wire=state.wire - {message})
            if message.attempt is None:
                after = self.store.claim(rest, message.worker, message.job, claim=message.claim)
                yield Step("claim, executed late", message.job, message.worker, attempt=after.seen_attempts), after
                continue
            after, accepted = self.store.settle(rest, message.attempt)
            one = message.attempt
            yield Step("settle, executed late", one.job, message.worker, one.phase, one.seen_attempt, accepted), after

    def kill(self, state: State) -> Steps:
        """A worker's process ends, and another takes its place."""
        for worker in WORKERS if state.faults else ():
            if state.held[worker] or state.doubts[worker]:
                after = state._replace(held=put(state.held, worker, frozenset()), faults=state.faults - 1)
                yield Step("kill", worker=worker), after._replace(doubts=put(state.doubts, worker, 0))

    def crash(self, state: State) -> Steps:
        """The server crashes and starts again; the last commits that nothing waited for may be lost, or not."""
        if not state.faults:
            return
        less = state._replace(faults=state.faults - 1)
        yield Step("crash, commits lost"), self.store.crash(less)
        if state.disk != (state.jobs, state.number):
            yield Step("crash"), self.store.crash(less._replace(disk=(state.jobs, state.number)))

    def forget(self, state: State) -> Steps:
        """The ready set loses an id: Redis restarted, or whoever took it ended."""
        for place in JOBS if state.faults else ():
            if state.offered[place]:
                after = state._replace(offered=put(state.offered, place, False), faults=state.faults - 1)
                yield Step("offer lost", place), after


def _later(job: Job) -> Job:
    if job.lease is not None:
        return job._replace(lease=job.lease._replace(expired=True))
    return job._replace(due=job.status == "retrying")


def _holding(state: State, worker: int, one: Attempt) -> State:
    return state._replace(held=put(state.held, worker, state.held[worker] | {one}))


def _forgotten(state: State, worker: int, one: Attempt) -> State:
    return state._replace(held=put(state.held, worker, state.held[worker] - {one}))


def _phase(state: State, worker: int, one: Attempt, phase: str) -> State:
    return _holding(_forgotten(state, worker, one), worker, one._replace(phase=phase))


def _acknowledged(state: State, one: Attempt) -> State:
    return state._replace(seen_told=state.seen_told | {(one.job, one.token, one.phase)})
