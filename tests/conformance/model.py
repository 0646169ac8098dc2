"""What the store must know after any sequence of operations, in the fewest words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from queue_core.model.job import Job
from queue_core.model.report import Conservation

BOUND = 3


@dataclass
class Modelled:
    """One job. Time is a flag: whether it went on long enough for the lease to expire, or the job to be due."""

    id: str
    queue: str
    priority: int
    order: int
    status: str
    retries: int = 0
    losses: int = 0
    token: int = 0
    overdue: bool = False
    cancel: bool = False
    trashed: bool = False
    key: str | None = None
    # an operator's change has given it a token that is not known yet
    renewed: bool = False
    # it was let through by its ordering key and has not let go of it
    holds: bool = False

    def learn(self, token: int) -> None:
        """Take the token that an operator's change has given it, which is higher than the one before."""
        assert not self.renewed or token > self.token
        self.token, self.renewed = token if self.renewed else self.token, False

    def seen(self) -> tuple[str, str, int, int, int, bool, bool]:
        """Return what must agree with the store."""
        return self.status, self.queue, self.retries, self.losses, self.token, self.cancel, self.trashed


def seen(job: Job) -> tuple[str, str, int, int, int, bool, bool]:
    """Return what must agree with the model."""
    trashed = job.trashed_at is not None
    return str(job.status), job.queue, job.retry_count, job.losses, job.token, job.cancel_requested, trashed


@dataclass
class Model:
    """All jobs, and the totals."""

    jobs: dict[str, Modelled] = field(default_factory=dict)
    paused: set[str] = field(default_factory=set)
    totals: Counter[str] = field(default_factory=Counter)
    arrivals: int = 0

    def insert(self, job_id: str, queue: str, priority: int, delayed: bool, key: str | None = None) -> None:
        if job_id in self.jobs:
            return
        self.arrivals += 1
        status = "scheduled" if delayed else "queued"
        self.jobs[job_id] = Modelled(job_id, queue, priority, self.arrivals, status, key=key)
        self.totals["enqueued"] += 1
        self.let_through()

    def let_through(self) -> None:
        """Let the first of each ordering key through whose turn it is, by arrival."""
        taken = {(job.queue, job.key) for job in self.jobs.values() if job.holds}
        for job in sorted(self.jobs.values(), key=lambda job: job.order):
            if job.status == "queued" and job.key is not None and (job.queue, job.key) not in taken:
                job.holds = True
                taken.add((job.queue, job.key))

    def _end(self, job: Modelled) -> None:
        job.holds = job.holds and job.status in {"queued", "running", "retrying"}

    def claimable(self, queue: str) -> list[str]:
        """Return the ids that a claim must give, in order."""
        if queue in self.paused:
            return []
        ready = [
            job
            for job in self.jobs.values()
            if job.queue == queue and job.status == "queued" and (job.key is None or job.holds)
        ]
        return [job.id for job in sorted(ready, key=lambda job: (-job.priority, job.order))]

    def claim(self, job_id: str, token: int) -> None:
        job = self.jobs[job_id]
        assert token > max(one.token for one in self.jobs.values())
        job.status, job.token, job.overdue = "running", token, False

    def holds(self, job_id: str, token: int) -> bool:
        job = self.jobs.get(job_id)
        return job is not None and job.status == "running" and job.token == token

    def settle(self, job_id: str, kind: str) -> None:
        job = self.jobs[job_id]
        if job.cancel and kind in {"retrying", "released"}:
            kind = "cancelled"
        job.status = "queued" if kind == "released" else kind
        self._end(job)
        self.let_through()
        job.retries += kind == "retrying"
        job.overdue = job.cancel = False
        self.totals["retried" if kind == "retrying" else kind] += 1

    def pass_time(self) -> None:
        for job in self.jobs.values():
            job.overdue = job.status in {"scheduled", "retrying", "running"}

    def promote(self) -> set[str]:
        due = [job for job in self.jobs.values() if job.overdue and job.status in {"scheduled", "retrying"}]
        for job in due:
            job.status, job.overdue = "queued", False
        self.let_through()
        return {job.id for job in due if job.key is None or job.holds}

    def reclaim(self) -> set[str]:
        lost = [job for job in self.jobs.values() if job.overdue and job.status == "running"]
        for job in lost:
            job.losses += 1
            job.status = "dead" if job.losses >= BOUND else "cancelled" if job.cancel else "queued"
            job.overdue = job.cancel = False
            self.totals["crashed"] += 1
            self.totals[job.status] += job.status != "queued"
            self._end(job)
        self.let_through()
        return {job.id for job in lost}

    def retry(self, ids: Iterable[str]) -> set[str]:
        changed = [job for job in self._known(ids) if job.status in {"dead", "completed"}]
        for job in changed:
            self.arrivals += 1
            job.status, job.retries, job.losses, job.trashed, job.order = "queued", 0, 0, False, self.arrivals
            job.renewed = True
        self.let_through()
        self.totals["retried_by_operator"] += len(changed)
        return {job.id for job in changed}

    def retry_in(self, ids: Iterable[str], queue: str) -> set[str]:
        """Retry jobs in a queue; those that come from another one let go of their keys there."""
        for job in self._known(ids):
            if job.status in {"dead", "completed"}:
                job.queue = queue
        return self.retry(ids)

    def move(self, ids: Iterable[str], queue: str) -> set[str]:
        """Move waiting and dead jobs of other queues to this one."""
        states = {"scheduled", "queued", "retrying", "dead"}
        changed = [job for job in self._known(ids) if job.status in states and not job.trashed and job.queue != queue]
        for job in changed:
            self.arrivals += 1
            job.queue, job.holds, job.order, job.renewed = queue, False, self.arrivals, True
        self.let_through()
        return {job.id for job in changed}

    def trash(self, ids: Iterable[str], trashed: bool) -> set[str]:
        changed = [job for job in self._known(ids) if job.status == "dead" and job.trashed is not trashed]
        for job in changed:
            job.trashed, job.renewed = trashed, True
        return {job.id for job in changed}

    def purge(self, ids: Iterable[str]) -> set[str]:
        changed = {job.id for job in self._known(ids) if job.trashed}
        for job_id in changed:
            del self.jobs[job_id]
        self.totals["purged"] += len(changed)
        return changed

    def cancel(self, ids: Iterable[str]) -> set[str]:
        waiting = [job for job in self._known(ids) if job.status in {"scheduled", "queued", "retrying"}]
        running = [job for job in self._known(ids) if job.status == "running" and not job.cancel]
        for job in waiting:
            job.status, job.overdue = "cancelled", False
            self._end(job)
        self.let_through()
        for job in running:
            job.cancel = True
        self.totals["cancelled"] += len(waiting)
        return {job.id for job in waiting + running}

    def _known(self, ids: Iterable[str]) -> list[Modelled]:
        return [self.jobs[job_id] for job_id in dict.fromkeys(ids) if job_id in self.jobs]

    def conservation(self) -> Conservation:
        count = Counter(job.status for job in self.jobs.values())
        return Conservation(
            completed=count["completed"],
            dead=count["dead"] + self.totals["purged"],
            cancelled=count["cancelled"],
            unfinished=sum(count[status] for status in ("scheduled", "queued", "running", "retrying")),
            retries=self.totals["retried"],
        )
