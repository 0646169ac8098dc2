"""The sum at the end: the counts of the ledger, those of SQL, and whether both agree."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from jobconsole.demo.ledger import Findings
from jobconsole.format.humanize import plural
from queue_core.model.report import Conservation
from queue_core.model.text import safe
from queue_core.ports.inspector import Inspector


@dataclass(frozen=True, slots=True)
class Summary:
    """One run of the demo. `enqueued` and `lost` come from the ledger, the other counts from SQL."""

    enqueued: int
    completed: int
    # DLQ and trash
    dead: int
    cancelled: int
    unfinished: int
    retries: int
    # attempts that ended with their worker
    crashed: int
    lost: int
    stale_writes: int
    stale_refused: int
    # enqueued by others than the demo's producer; they are in `enqueued`
    others: int
    # enqueued == completed + dead + cancelled + unfinished
    conserved: bool
    # None: the exporter did not answer
    metrics_agree: bool | None
    # exception -> dead jobs
    failures: dict[str, int]
    seconds: float

    @property
    def exit_code(self) -> int:
        """0, or 1 when something was lost, was overwritten or does not add up."""
        return 0 if self.conserved and not self.lost and not self.stale_writes else 1

    def as_json(self) -> dict[str, Any]:
        """Return the object that --json prints."""
        return {"version": 1, **asdict(self)}

    def lines(self) -> Iterator[str]:
        """Return the summary for people."""
        yield f"enqueued {self.enqueued:,} = " + self._places()
        yield f"retries {self.retries:,}, crashed attempts {self.crashed:,}, in {self.seconds:.1f} s"
        yield f"lost {self.lost}, stale writes {self.stale_writes}, stale writes refused {self.stale_refused}"
        if self.others:
            yield f"enqueued by others than this demo: {self.others:,}"
        for exception, count in self.failures.items():
            yield f"dead: {count:>5,} × {safe(exception, limit=100)}"
        if self.metrics_agree is not None:
            yield "the metrics agree with SQL" if self.metrics_agree else "the metrics do not agree with SQL"
        if self.exit_code:
            yield f"This run failed: {'; '.join(self._problems())}."

    def _places(self) -> str:
        return (
            f"completed {self.completed:,} + dead {self.dead:,} + cancelled {self.cancelled:,} "
            f"+ unfinished {self.unfinished:,}{'' if self.conserved else ' does not add up'}"
        )

    def _problems(self) -> Iterator[str]:
        if self.lost:
            yield f"the store does not know {self.lost:,} of the jobs that were enqueued"
        if self.stale_writes:
            yield f"{plural(self.stale_writes, 'job')} ended by an outdated lease"
        if not self.conserved:
            counted = self.completed + self.dead + self.cancelled + self.unfinished
            yield f"{self.enqueued:,} were enqueued and {counted:,} are there"


@dataclass(frozen=True, slots=True)
class RunFacts:
    """The facts of the summary besides the counts that must add up."""

    crashed: int
    failures: dict[str, int]
    metrics_agree: bool | None
    seconds: float


def summarise(findings: Findings, counts: Conservation, tail: RunFacts) -> Summary:
    """Put the ledger's side and the store's side together."""
    total = counts.completed + counts.dead + counts.cancelled + counts.unfinished
    return Summary(
        enqueued=findings.enqueued,
        completed=counts.completed,
        dead=counts.dead,
        cancelled=counts.cancelled,
        unfinished=counts.unfinished,
        retries=counts.retries,
        crashed=tail.crashed,
        lost=len(findings.lost),
        stale_writes=len(findings.stale_writes),
        stale_refused=findings.stale_refused,
        others=findings.others,
        conserved=findings.enqueued == total,
        metrics_agree=tail.metrics_agree,
        failures=tail.failures,
        seconds=round(tail.seconds, 1),
    )


SECONDS = 5.0
_OUTCOMES = {"queue_processed_total": "completed", "queue_failed_total": "dead", "job_leases_expired_total": "crashed"}


async def expected(inspector: Inspector) -> dict[str, float]:
    """Return the sums over all queues that the metrics must show."""
    queues = (await inspector.overview()).queues
    outcomes: dict[str, float] = dict.fromkeys((*_OUTCOMES.values(), "enqueued"), 0)
    for tally in await inspector.tallies():
        outcomes[tally.outcome] = outcomes.get(tally.outcome, 0) + tally.count
    return {name: outcomes[outcome] for name, outcome in _OUTCOMES.items()} | {
        "queue_size": sum(queue.pending for queue in queues),
        "queue_processing": sum(queue.started for queue in queues),
        "job_dlq_size": sum(queue.dead for queue in queues),
        "jobs_enqueued_total": outcomes["enqueued"],
    }


def scraped(url: str) -> dict[str, float] | None:
    """Return the sums over all labels of each sample, or None when the exporter does not answer."""
    from prometheus_client.parser import text_string_to_metric_families

    try:
        with urllib.request.urlopen(url, timeout=SECONDS) as answer:
            text = answer.read().decode()
    except OSError:
        return None
    sums: dict[str, float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            sums[sample.name] = sums.get(sample.name, 0) + sample.value
    return sums


def agree(metrics: dict[str, float], sql: dict[str, float]) -> bool:
    """Return whether every expected sum is there."""
    return all(metrics.get(name, 0) == value for name, value in sql.items())
