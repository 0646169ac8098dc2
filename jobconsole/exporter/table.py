"""Every metric: its name, type, labels and help. docs/metrics.md has the same table; a test compares them."""

from __future__ import annotations

from typing import Literal, NamedTuple


class MetricSpec(NamedTuple):
    """One line of the table."""

    kind: Literal["gauge", "counter", "histogram"]
    labels: tuple[str, ...]
    help: str


TABLE: dict[str, MetricSpec] = {
    "queue_size": MetricSpec("gauge", ("queue",), "Jobs waiting: queued, scheduled and retrying."),
    "queue_processing": MetricSpec("gauge", ("queue",), "Jobs running: their handlers were started."),
    "queue_claimed_ahead": MetricSpec("gauge", ("queue",), "Jobs that wait in a worker for a slot."),
    "queue_processed_total": MetricSpec("counter", ("queue",), "Jobs completed."),
    "queue_failed_total": MetricSpec("counter", ("queue",), "Jobs that went to the DLQ."),
    "queue_executions_total": MetricSpec(
        "counter",
        ("queue", "outcome"),
        "Attempts by how they ended; timed_out ones are also counted under retried or dead.",
    ),
    "queue_wait_time_seconds": MetricSpec("histogram", ("queue",), "Time from due to start of jobs that ended."),
    "queue_process_time_seconds": MetricSpec("histogram", ("queue",), "Time from start to end of attempts."),
    "job_queue_depth": MetricSpec("gauge", ("queue", "priority"), "Jobs ready now, by priority band."),
    "jobs_processed_total": MetricSpec(
        "counter", ("type", "status"), "Jobs by type and what became of them; retried counts each time."
    ),
    "job_duration_seconds": MetricSpec("histogram", ("type",), "Run time of attempts."),
    "jobs_enqueued_total": MetricSpec("counter", ("queue", "type"), "Jobs accepted."),
    "jobs_scheduled": MetricSpec("gauge", ("queue",), "Jobs scheduled or retrying: waiting for their time."),
    "job_queue_oldest_enqueued_timestamp_seconds": MetricSpec(
        "gauge", ("queue",), "When the ready job that waits longest became due; absent without one."
    ),
    "job_dlq_size": MetricSpec("gauge", ("queue",), "Jobs in the DLQ."),
    "job_leases_expired_total": MetricSpec("counter", ("queue",), "Jobs recovered from lost workers."),
    "job_workers": MetricSpec("gauge", ("state",), "Worker processes that announced themselves."),
    "jobs_signatures": MetricSpec(
        "gauge", ("state",), "Error signatures of dead jobs by state: new, regressed, known, resolved, muted."
    ),
    "jobs_worker_info": MetricSpec("gauge", ("release",), "Live workers by the release that they announced."),
    "job_handlers_stuck": MetricSpec("gauge", (), "Handlers that live workers gave up and that still run."),
    "job_queue_paused": MetricSpec("gauge", ("queue",), "1 when the queue is paused."),
    "job_queue_closed": MetricSpec("gauge", ("queue",), "1 when the queue is closed: it takes no new jobs."),
    "jobconsole_up": MetricSpec("gauge", ("backend",), "1 when this scrape could read the back-end."),
    "jobconsole_scrape_duration_seconds": MetricSpec("gauge", ("backend",), "How long this scrape read the back-end."),
    "jobconsole_scrape_errors_total": MetricSpec("counter", ("backend",), "Failed reads since the exporter started."),
    "jobconsole_signatures_up": MetricSpec("gauge", (), "1 when this scrape could read the error signatures."),
    "jobconsole_build_info": MetricSpec("gauge", ("version",), "Always 1, with the version as its label."),
}

EXECUTIONS = ("completed", "retried", "dead", "cancelled", "released", "timed_out", "crashed")
STATUSES = ("completed", "retried", "dead", "cancelled")
WORKER_STATES = ("busy", "idle", "quiet", "lost")
