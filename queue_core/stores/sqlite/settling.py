"""How attempts end by what their workers say; written in one transaction, a statement for each way to end."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from queue_core.job import Failure, Outcome, Settled
from queue_core.losses import summary
from queue_core.priorities import rank
from queue_core.stores.sqlite.attempts import Failures, Held
from queue_core.stores.sqlite.inserting import next_numbers, tell_arrived
from queue_core.stores.sqlite.link import Transaction
from queue_core.stores.sqlite.sql import texts
from queue_core.stores.sqlite.tallying import Tallying


def settle(transaction: Transaction, outcomes: Sequence[Outcome]) -> list[Settled]:
    """End attempts whose token still holds; say yes again to an outcome that was written before."""
    return Settling(transaction, outcomes).run()


class Settling:
    """One batch of outcomes."""

    def __init__(self, transaction: Transaction, outcomes: Sequence[Outcome]) -> None:
        self._transaction = transaction
        self._now = transaction.now
        self._outcomes = outcomes
        rows = transaction.rows("settle/held", (texts({outcome.id for outcome in outcomes}),))
        self._jobs = {job.id: job for job in map(Held._make, rows)}
        # statement -> its parameters
        self._writes: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
        self._failures = Failures()
        self._tallying = Tallying()
        self._arrived: Counter[int] = Counter()

    def run(self) -> list[Settled]:
        """Decide on every outcome, then write all ends."""
        answers = [self._settle(outcome) for outcome in self._outcomes]
        for statement, params in self._writes.items():
            self._transaction.run_many(statement, params)
        self._failures.write(self._transaction)
        tell_arrived(self._transaction, self._arrived)
        self._tallying.write(self._transaction)
        return answers

    def _settle(self, outcome: Outcome) -> Settled:
        job = self._jobs.get(outcome.id)
        if job is None:
            return Settled(outcome.id, False)
        if job.place != "running" or job.token != outcome.token:
            return self._again(job, outcome)
        if outcome.failure is not None and outcome.failure.kind == "timeout":
            self._tallying.note(job.queue_id, job.type, "timed_out")
        instead = bool(job.cancel) and outcome.kind in {"retrying", "released"}
        place = "cancelled" if instead else "queued" if outcome.kind == "released" else outcome.kind
        self._jobs[job.id] = job._replace(place=place, ended=outcome.kind)
        return (Settling._cancel_instead if instead else _ENDINGS[outcome.kind])(self, job, outcome)

    def _again(self, job: Held, outcome: Outcome) -> Settled:
        """Answer to an outcome of an attempt that is over, perhaps ended by the same outcome."""
        if job.token == outcome.token:
            ended = job.ended
        else:
            rows = self._transaction.rows("settle/earlier", (job.number, outcome.token))
            ended = rows[0][0] if rows else None
        if ended != outcome.kind:
            return Settled(outcome.id, False)
        cancelled = job.token == outcome.token and job.place == "cancelled" and ended != "cancelled"
        return Settled(outcome.id, True, cancelled=cancelled)

    def _complete(self, job: Held, outcome: Outcome) -> Settled:
        self._measure(job, outcome, "completed")
        self._writes["settle/complete"].append((self._now, outcome.result, job.number))
        return Settled(job.id, True)

    def _cancel(self, job: Held, outcome: Outcome) -> Settled:
        self._measure(job, outcome, "cancelled")
        failure = outcome.failure if outcome.kind in {"retrying", "released"} else None
        self._writes["settle/cancel"].append((self._now, outcome.kind, *said(failure), job.crashes, job.number))
        return Settled(job.id, True)

    def _cancel_instead(self, job: Held, outcome: Outcome) -> Settled:
        """The wish to cancel came too late for this attempt; it must not come too early for another one."""
        if outcome.failure is not None:
            self._failures.note(job, outcome.failure, job.retry_count + job.crashes + 1, self._now)
        return self._cancel(job, outcome)._replace(cancelled=True)

    def _retry(self, job: Held, outcome: Outcome) -> Settled:
        self._tallying.note(job.queue_id, job.type, "retried", run_us=outcome.run_us)
        if outcome.failure is not None:
            self._failures.note(job, outcome.failure, job.retry_count + job.crashes + 1, self._now)
        due = self._now + outcome.delay
        self._writes["settle/retry"].append((self._now, due, *said(outcome.failure), job.number))
        return Settled(job.id, True, due=due)

    def _bury(self, job: Held, outcome: Outcome) -> Settled:
        self._measure(job, outcome, "dead")
        failure = outcome.failure
        if failure is not None:
            self._failures.note(job, failure, job.retry_count + job.crashes + 1, self._now)
            self._tallying.death(job.queue_id, failure.signature)
        crashes = job.crashes + (failure is not None and failure.kind == "poison")
        self._writes["settle/bury"].append((self._now, "dead", *said(failure), crashes, job.number))
        return Settled(job.id, True)

    def _release(self, job: Held, outcome: Outcome) -> Settled:
        self._tallying.note(job.queue_id, job.type, "released", run_us=outcome.run_us)
        if outcome.anew:
            return self._reschedule(job, outcome)
        ready = rank(job.priority, job.seq)
        self._writes["settle/release"].append((self._now, ready, job.number))
        self._arrived[job.queue_id] += 1
        return Settled(job.id, True, rank=ready)

    def _reschedule(self, job: Held, outcome: Outcome) -> Settled:
        now = self._now
        seq = next_numbers(self._transaction, 1) + 1
        run_at = max(now, now + outcome.delay if outcome.run_at is None else outcome.run_at)
        ready = None if run_at > now else rank(job.priority, seq)
        place = "scheduled" if ready is None else "queued"
        self._writes["settle/reschedule"].append((now, ready, place, seq, run_at, job.number))
        self._arrived[job.queue_id] += ready is not None
        return Settled(job.id, True, rank=ready, due=run_at if ready is None else None)

    def _measure(self, job: Held, outcome: Outcome, name: str) -> None:
        waited = max(0, round(((job.started_at or 0.0) - job.run_at) * 1_000_000))
        self._tallying.note(job.queue_id, job.type, name, wait_us=waited, run_us=outcome.run_us)


_ENDINGS: dict[str, Callable[[Settling, Held, Outcome], Settled]] = {
    "completed": Settling._complete,
    "cancelled": Settling._cancel,
    "retrying": Settling._retry,
    "dead": Settling._bury,
    "released": Settling._release,
}


def said(failure: Failure | None) -> tuple[str | None, str | None, str | None]:
    """Return what a job's row tells of its last failure: one line, signature and kind; Nones leave what was there."""
    return (None, None, None) if failure is None else (summary(failure), failure.signature, failure.kind)
