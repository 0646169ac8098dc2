"""Whether the exporter says what SQL says, once nothing moves any more."""

from __future__ import annotations

import urllib.request

from queue_core.inspection import Inspector

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
        "queue_processing": sum(queue.begun for queue in queues),
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
    """Answer whether every expected sum is there."""
    return all(metrics.get(name, 0) == value for name, value in sql.items())
