"""Settling: outcomes, their attempts, and leases that ended without one."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from queue_core.model.job import Claim, Failure, JobResult, Outcome, Ready, Reclaimed, Settled, summary
from queue_core.model.outcome import failure_of_loss
from queue_core.model.rules import Rules, rules_of
from queue_core.ports.handover import restrict_to_unblocked
from queue_core.ports.store import ClaimRequest
from queue_core.stores.sql.records import result_of
from queue_core.stores.sqlite.capacity import Counts
from queue_core.stores.sqlite.claim import TokensUsedUp, claim, keep_time, reserve_tokens
from queue_core.stores.sqlite.dialect import texts
from queue_core.stores.sqlite.ordering import Arrivals, SqliteOrderingLocks, next_numbers, notify_arrived, rank_of
from queue_core.stores.sqlite.session import Transaction
from queue_core.stores.sqlite.statistics.totals import TallyWriter


class RunningRow(NamedTuple):
    """What ends of attempts need to know of a job; the columns of settle/held and settle/expired."""

    number: int
    id: str
    queue_id: int
    queue: str
    type: str
    state: str
    priority: int
    seq: int
    run_at: float
    retry_count: int
    crashes: int
    token: int
    last_outcome: str | None
    worker: str | None
    started_at: float | None
    cancel: int
    started: int
    aged_rank: int | None
    # its ordering key
    key: str | None
    # whether its queue counts its jobs
    keeps_counts: int
    # workers that were lost while they ran it
    losses: int
    # that of its worker
    release: int

    @property
    def failed(self) -> int:
        """Attempts that have failed, crashed or been lost."""
        return self.retry_count + self.crashes + self.losses

    @property
    def rank(self) -> int:
        """The rank that it has whenever it is ready."""
        return rank_of(self.priority, self.seq, self.aged_rank)


class Failures:
    """Failed attempts, gathered while a transaction does its work and written at its end."""

    def __init__(self) -> None:
        self._attempts: list[tuple[Any, ...]] = []
        # signature -> its title and its exception
        self._named: dict[str, tuple[str, str]] = {}

    def note(self, job: RunningRow, failure: Failure, number: int, now: float) -> None:
        """Keep why an attempt failed."""
        self._named.setdefault(failure.signature, (failure.title, failure.exception))
        self._attempts.append(
            (
                job.number,
                job.token,
                number,
                failure.kind,
                failure.exception,
                failure.message,
                failure.traceback,
                failure.signature,
                job.worker,
                job.started_at,
                now,
                job.release,
            )
        )

    def write(self, transaction: Transaction) -> None:
        """Add the attempts and the signatures that are new."""
        transaction.run_many("settle/attempt", self._attempts)
        named = [(signature, *text, transaction.now) for signature, text in self._named.items()]
        transaction.run_many("settle/signature", named)


def settle(transaction: Transaction, outcomes: Sequence[Outcome], rules: Rules) -> list[Settled]:
    """End attempts whose token still holds; accept an outcome again that was written before."""
    rows = transaction.rows("settle/held", (texts({outcome.id for outcome in outcomes}),))
    batch = SqliteSettlement(transaction, {job.id: job for job in map(RunningRow._make, rows)}, rules)
    settled = [batch.end(outcome) for outcome in outcomes]
    batch.write()
    return settled


def settle_and_claim(
    transaction: Transaction,
    outcomes: Sequence[Outcome],
    requests: Sequence[ClaimRequest],
    rules: Rules,
    reserved: bool,
) -> tuple[list[Settled], list[Claim]]:
    """End attempts, and then claim; `reserved`: this process may go on with the tokens that are reserved."""
    settled = settle(transaction, outcomes, rules)
    if not reserved:
        reserve_tokens(transaction)
    claims: list[Claim] = []
    for request in requests:
        try:
            claims += claim(transaction, restrict_to_unblocked(request, settled), rules)
        except TokensUsedUp:
            reserve_tokens(transaction)  # on the disk, as this commit is
            claims += claim(transaction, restrict_to_unblocked(request, settled), rules)
    return settled, claims


class SqliteSettlement:
    """One batch of outcomes: each is decided by its job's row, and what is to be written gathers in groups."""

    def __init__(self, transaction: Transaction, jobs: dict[str, RunningRow], rules: Rules) -> None:
        self._transaction = transaction
        self._rules = rules
        self._now = transaction.now
        # as the outcomes before leave them
        self._jobs = jobs
        self._ordering_locks = SqliteOrderingLocks(transaction, rules)
        self._arrivals = Arrivals(transaction, rules)
        # statement -> its parameters, of jobs without ordering keys
        self._writes: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
        self._failures = Failures()
        self._tally_writer = TallyWriter()
        self._arrived: Counter[int] = Counter()
        self._counts = Counts()

    def end(self, outcome: Outcome) -> Settled:
        """Decide on an outcome; return what becomes of its attempt."""
        job = self._jobs.get(outcome.id)
        if job is None:
            return Settled(outcome.id, False)
        if job.state != "running" or job.token != outcome.token:
            return self._again(job, outcome)
        if outcome.failure is not None and outcome.failure.kind == "timeout":
            self._tally_writer.note(job.queue_id, job.type, "timed_out")
        instead = bool(job.cancel) and outcome.kind in {"retrying", "released"}
        state = "cancelled" if instead else "queued" if outcome.kind == "released" else outcome.kind
        self._jobs[job.id] = job._replace(state=state, last_outcome=outcome.kind)
        if job.keeps_counts:
            self._counts.move(job.queue_id, job.priority, running=-1, waiting=state in {"queued", "retrying"})
        return (SqliteSettlement._cancel_instead if instead else _ENDINGS[outcome.kind])(self, job, outcome)

    def _again(self, job: RunningRow, outcome: Outcome) -> Settled:
        """Answer to an outcome of an attempt that is over, perhaps ended by the same outcome."""
        if job.token == outcome.token:
            last_outcome = job.last_outcome
        else:
            rows = self._transaction.rows("settle/outcome_of", (job.number, outcome.token))
            last_outcome = rows[0][0] if rows else None
        if last_outcome != outcome.kind:
            return Settled(outcome.id, False)
        # One that an operator has cancelled as it waited, after that end, has no worker.
        ended_so = job.token == outcome.token and job.state == "cancelled" and job.worker is not None
        return Settled(outcome.id, True, cancelled=ended_so and last_outcome != "cancelled")

    def _complete(self, job: RunningRow, outcome: Outcome) -> Settled:
        self._measure(job, outcome, "completed")
        unblocked = () if job.key is None else self._release_key(job, job.key)
        self._write(job, "settle/complete", (self._now, outcome.result, job.number))
        return Settled(job.id, True, unblocked=unblocked)

    def _cancel(self, job: RunningRow, outcome: Outcome) -> Settled:
        self._measure(job, outcome, "cancelled")
        failure = outcome.failure if outcome.kind in {"retrying", "released"} else None
        unblocked = () if job.key is None else self._release_key(job, job.key)
        self._write(
            job,
            "settle/cancel",
            (self._now, outcome.kind, *failure_columns(failure), job.losses + _lost(failure), job.number),
        )
        return Settled(job.id, True, unblocked=unblocked)

    def _cancel_instead(self, job: RunningRow, outcome: Outcome) -> Settled:
        """Cancel a job whose request came too late for this attempt; it must not run another one."""
        if outcome.failure is not None:
            self._failures.note(job, outcome.failure, job.failed + 1, self._now)
        return self._cancel(job, outcome)._replace(cancelled=True)

    def _retry(self, job: RunningRow, outcome: Outcome) -> Settled:
        self._tally_writer.note(job.queue_id, job.type, "retried", run_us=outcome.run_us)
        if outcome.failure is not None:
            self._failures.note(job, outcome.failure, job.failed + 1, self._now)
        due = self._now + outcome.delay
        self._write(job, "settle/retry", (self._now, due, *failure_columns(outcome.failure), job.number))
        return Settled(job.id, True, due=due)

    def _bury(self, job: RunningRow, outcome: Outcome) -> Settled:
        self._measure(job, outcome, "dead")
        failure = outcome.failure
        if failure is not None:
            self._failures.note(job, failure, job.failed + 1, self._now)
            self._tally_writer.death(job.queue_id, failure.signature, job.release, job.started_at)
        crashes = job.crashes + (failure is not None and failure.kind == "poison")
        blocks = job.key is not None and rules_of(self._rules, job.queue).dead_blocks_key
        unblocked = () if blocks or job.key is None else self._release_key(job, job.key)
        self._write(
            job,
            "settle/bury",
            (self._now, "dead", *failure_columns(failure), crashes, job.losses + _lost(failure), job.number),
        )
        return Settled(job.id, True, unblocked=unblocked)

    def _release(self, job: RunningRow, outcome: Outcome) -> Settled:
        self._tally_writer.note(job.queue_id, job.type, "released", run_us=outcome.run_us)
        if outcome.to_back:
            return self._reschedule(job, outcome)
        failure = outcome.failure
        if failure is not None:
            self._failures.note(job, failure, job.failed + 1, self._now)
        self._write(job, "settle/release", (self._now, job.rank, job.number, _lost(failure), *failure_columns(failure)))
        self._arrived[job.queue_id] += 1
        return Settled(job.id, True, rank=job.rank)

    def _reschedule(self, job: RunningRow, outcome: Outcome) -> Settled:
        now = self._now
        seq = next_numbers(self._transaction, 1) + 1
        run_at = max(now, now + outcome.delay if outcome.run_at is None else outcome.run_at)
        aged_rank = self._arrivals.aged_rank(job.queue, job.queue_id, job.priority, run_at)
        unblocked = () if job.key is None else self._release_key(job, job.key)
        state, admitted, rank = "scheduled", None, None
        if run_at <= now:
            state, admitted = "queued", self._ordering_locks.admit(job.queue, job.queue_id, job.key)
            rank = None if admitted is False else rank_of(job.priority, seq, aged_rank)
        self._write(job, "settle/reschedule", (now, rank, state, seq, run_at, job.number, aged_rank, admitted))
        self._arrived[job.queue_id] += rank is not None
        return Settled(job.id, True, rank=rank, due=run_at if state == "scheduled" else None, unblocked=unblocked)

    def _release_key(self, job: RunningRow, key: str) -> tuple[Ready, ...]:
        """Release the job's ordering key; return the next jobs."""
        unblocked = self._ordering_locks.leave(job.number, job.queue, job.queue_id, key)
        self._arrived[job.queue_id] += len(unblocked)
        return unblocked

    def write(self) -> None:
        """Write what has gathered: the jobs of each statement, then what counts and wakes."""
        for statement, params in self._writes.items():
            self._transaction.run_many(statement, params)
        self._failures.write(self._transaction)
        notify_arrived(self._transaction, self._arrived)
        self._arrivals.write()
        self._counts.write(self._transaction)
        self._tally_writer.write(self._transaction)

    def _write(self, job: RunningRow, statement: str, params: tuple[Any, ...]) -> None:
        """Note what is to be written; at once where the next outcome may ask whose turn it is."""
        if job.key is None:
            self._writes[statement].append(params)
        else:
            self._transaction.run(statement, params)

    def _measure(self, job: RunningRow, outcome: Outcome, name: str) -> None:
        waited = max(0, round(((job.started_at or 0.0) - job.run_at) * 1_000_000))
        self._tally_writer.note(job.queue_id, job.type, name, wait_us=waited, run_us=outcome.run_us)
        self._tally_writer.count_run(job.type, job.release, name)


_ENDINGS: dict[str, Callable[[SqliteSettlement, RunningRow, Outcome], Settled]] = {
    "completed": SqliteSettlement._complete,
    "cancelled": SqliteSettlement._cancel,
    "retrying": SqliteSettlement._retry,
    "dead": SqliteSettlement._bury,
    "released": SqliteSettlement._release,
}


def failure_columns(failure: Failure | None) -> tuple[str | None, str | None, str | None]:
    """Return a row's values for its last failure: one line, signature and kind; None keeps the stored value."""
    return (None, None, None) if failure is None else (summary(failure), failure.signature, failure.kind)


def _lost(failure: Failure | None) -> bool:
    return failure is not None and failure.kind == "lost"


def results(transaction: Transaction, ids: Sequence[str], kept: float | None) -> list[JobResult]:
    """Return what is known about jobs; results are kept for so many seconds, or (None) as long as their jobs."""
    since = 0.0 if kept is None else transaction.now - kept
    rows = transaction.rows("settle/worker_results", {"ids": texts(ids), "since": since})
    return [result_of(row) for row in rows]


def reclaim(transaction: Transaction, limit: int, bound: int, rules: Rules) -> list[Reclaimed]:
    """Take jobs back whose lease expired."""
    keep_time(transaction)
    rows = transaction.rows("settle/expired", (transaction.now, max(limit, 0)))
    return SqliteReclaim(transaction, rules, bound).run([RunningRow._make(row) for row in rows])


class SqliteReclaim:
    """One batch of lost jobs."""

    def __init__(self, transaction: Transaction, rules: Rules, bound: int) -> None:
        self._transaction = transaction
        self._rules = rules
        self._bound = bound
        self._ordering_locks = SqliteOrderingLocks(transaction, rules)
        self._failures = Failures()
        self._tally_writer = TallyWriter()
        self._arrived: Counter[int] = Counter()
        self._counts = Counts()

    def run(self, jobs: list[RunningRow]) -> list[Reclaimed]:
        """Take them back one by one, each with what its end lets through."""
        taken = [self._take_back(job) if job.started else self._release_unstarted(job) for job in jobs]
        for job, back in zip(jobs, taken, strict=True):
            self._arrived[job.queue_id] += (back.rank is not None) + len(back.unblocked)
            if job.keeps_counts:
                self._counts.move(job.queue_id, job.priority, running=-1, waiting=back.rank is not None)
        self._failures.write(self._transaction)
        self._tally_writer.write(self._transaction)
        self._counts.write(self._transaction)
        notify_arrived(self._transaction, self._arrived)
        return taken

    def _take_back(self, job: RunningRow) -> Reclaimed:
        worker, now, losses = job.worker or "", self._transaction.now, job.losses + 1
        failure = failure_of_loss(worker, losses, self._bound)
        self._failures.note(job, failure, job.failed + 1, now)
        self._tally_writer.note(job.queue_id, job.type, "crashed")
        taken = Reclaimed(job.id, job.queue, job.type, job.token, worker, losses, None)
        if losses >= self._bound:
            self._tally_writer.note(job.queue_id, job.type, "dead")
            self._tally_writer.death(job.queue_id, failure.signature, job.release, job.started_at)
            self._tally_writer.count_run(job.type, job.release, "dead")
            unblocked = () if rules_of(self._rules, job.queue).dead_blocks_key else self._release_key(job)
            self._transaction.run(
                "settle/bury", (now, None, *failure_columns(failure), job.crashes, losses, job.number)
            )
            return taken._replace(unblocked=unblocked)
        if job.cancel:
            self._tally_writer.note(job.queue_id, job.type, "cancelled")
            unblocked = self._release_key(job)
            self._transaction.run("settle/cancel", (now, None, *failure_columns(failure), losses, job.number))
            return taken._replace(cancelled=True, unblocked=unblocked)
        self._transaction.run("settle/take_back", (now, job.rank, *failure_columns(failure), losses, job.number))
        return taken._replace(rank=job.rank)

    def _release_unstarted(self, job: RunningRow) -> Reclaimed:
        """Give a job back that was only waiting in its worker for a slot."""
        now, worker = self._transaction.now, job.worker or ""
        taken = Reclaimed(job.id, job.queue, job.type, job.token, worker, job.losses, None, started=False)
        if job.cancel:
            self._tally_writer.note(job.queue_id, job.type, "cancelled")
            unblocked = self._release_key(job)
            self._transaction.run("settle/cancel", (now, None, *failure_columns(None), job.losses, job.number))
            return taken._replace(cancelled=True, unblocked=unblocked)
        self._tally_writer.note(job.queue_id, job.type, "released")
        self._transaction.run("settle/take_back", (now, job.rank, *failure_columns(None), job.losses, job.number))
        return taken._replace(rank=job.rank)

    def _release_key(self, job: RunningRow) -> tuple[Ready, ...]:
        return () if job.key is None else self._ordering_locks.leave(job.number, job.queue, job.queue_id, job.key)
