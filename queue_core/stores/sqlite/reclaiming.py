"""How jobs are taken back from workers that were lost."""

from __future__ import annotations

from collections import Counter

from queue_core.job import Ready, Reclaimed
from queue_core.losses import failure_of_loss
from queue_core.rules import Rules, rules_of
from queue_core.stores.sqlite.arriving import tell_arrived
from queue_core.stores.sqlite.attempts import Failures, Held
from queue_core.stores.sqlite.counting import Counts
from queue_core.stores.sqlite.gates import Gates
from queue_core.stores.sqlite.link import Transaction
from queue_core.stores.sqlite.settling import said
from queue_core.stores.sqlite.tallying import Tallying
from queue_core.stores.sqlite.timekeeping import keep_time


def reclaim(transaction: Transaction, limit: int, bound: int, rules: Rules) -> list[Reclaimed]:
    """Take jobs back whose lease expired."""
    keep_time(transaction)
    rows = transaction.rows("sweep/expired", (transaction.now, max(limit, 0)))
    return Reclaiming(transaction, rules, bound).run([Held._make(row) for row in rows])


class Reclaiming:
    """One batch of lost jobs."""

    def __init__(self, transaction: Transaction, rules: Rules, bound: int) -> None:
        self._transaction = transaction
        self._rules = rules
        self._bound = bound
        self._gates = Gates(transaction, rules)
        self._failures = Failures()
        self._tallying = Tallying()
        self._arrived: Counter[int] = Counter()
        self._counts = Counts()

    def run(self, jobs: list[Held]) -> list[Reclaimed]:
        """Take them back one by one, each with what its end lets through."""
        taken = [self._take_back(job) if job.begun else self._release_unbegun(job) for job in jobs]
        for job, back in zip(jobs, taken, strict=True):
            self._arrived[job.queue_id] += (back.rank is not None) + len(back.opened)
            if job.counted:
                self._counts.move(job.queue_id, job.priority, running=-1, waiting=back.rank is not None)
        self._failures.write(self._transaction)
        self._tallying.write(self._transaction)
        self._counts.write(self._transaction)
        tell_arrived(self._transaction, self._arrived)
        return taken

    def _take_back(self, job: Held) -> Reclaimed:
        worker, now, losses = job.worker or "", self._transaction.now, job.losses + 1
        failure = failure_of_loss(worker, losses, self._bound)
        self._failures.note(job, failure, job.failed + 1, now)
        self._tallying.note(job.queue_id, job.type, "crashed")
        taken = Reclaimed(job.id, job.queue, job.type, job.token, worker, losses, None)
        if losses >= self._bound:
            self._tallying.note(job.queue_id, job.type, "dead")
            self._tallying.death(job.queue_id, failure.signature)
            opened = () if rules_of(self._rules, job.queue).dead_blocks_key else self._let_go(job)
            self._transaction.run("settle/bury", (now, None, *said(failure), job.crashes, losses, job.number))
            return taken._replace(opened=opened)
        if job.cancel:
            self._tallying.note(job.queue_id, job.type, "cancelled")
            opened = self._let_go(job)
            self._transaction.run("settle/cancel", (now, None, *said(failure), losses, job.number))
            return taken._replace(cancelled=True, opened=opened)
        self._transaction.run("sweep/take_back", (now, job.rank, *said(failure), losses, job.number))
        return taken._replace(rank=job.rank)

    def _release_unbegun(self, job: Held) -> Reclaimed:
        """Give a job back that was only waiting in its worker for a slot."""
        now, worker = self._transaction.now, job.worker or ""
        taken = Reclaimed(job.id, job.queue, job.type, job.token, worker, job.losses, None, begun=False)
        if job.cancel:
            self._tallying.note(job.queue_id, job.type, "cancelled")
            opened = self._let_go(job)
            self._transaction.run("settle/cancel", (now, None, *said(None), job.losses, job.number))
            return taken._replace(cancelled=True, opened=opened)
        self._tallying.note(job.queue_id, job.type, "released")
        self._transaction.run("sweep/take_back", (now, job.rank, *said(None), job.losses, job.number))
        return taken._replace(rank=job.rank)

    def _let_go(self, job: Held) -> tuple[Ready, ...]:
        return () if job.key is None else self._gates.leave(job.number, job.queue, job.queue_id, job.key)
