"""The Grafana dashboard: made here, kept as dashboard.json beside it, printed by `exporter --print-dashboard`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

FILE = Path(__file__).with_name("dashboard.json")
RULES = Path(__file__).with_name("rules.yml")

_DATA = {"type": "prometheus", "uid": "${datasource}"}
_WIDTH = 24
"""Columns of Grafana's grid."""
_QUEUE = 'queue=~"$queue"'


class _Series(NamedTuple):
    """One expression of a panel and the name of its series."""

    expression: str
    legend: str = ""


class _Panel(NamedTuple):
    title: str
    description: str
    # of Grafana: short, s, ops, percentunit, …
    unit: str
    lines: Sequence[_Series]
    kind: str = "timeseries"
    width: int = 8
    height: int = 8
    # from where on a value is red; None: never
    red: float | None = None


def _quantiles(metric: str, labels: str, by: str) -> list[_Series]:
    return [
        _Series(
            f"histogram_quantile({q}, sum by (le, {by}) (rate({metric}_bucket{labels}[$__rate_interval])))",
            f"{{{{{by}}}}} p{round(q * 100)}",
        )
        for q in (0.5, 0.95)
    ]


def _rate(metric: str, by: str, labels: str = f"{{{_QUEUE}}}") -> str:
    return f"sum by ({by}) (rate({metric}{labels}[$__rate_interval]))"


_ROWS: Sequence[tuple[str, Sequence[_Panel]]] = (
    (
        "Now",
        (
            _Panel(
                "Waiting",
                "Jobs queued, scheduled and retrying.",
                "short",
                [_Series(f"sum(queue_size{{{_QUEUE}}})")],
                "stat",
                4,
                4,
            ),
            _Panel(
                "Running",
                "Jobs whose handlers run.",
                "short",
                [_Series(f"sum(queue_processing{{{_QUEUE}}})")],
                "stat",
                4,
                4,
            ),
            _Panel(
                "In the DLQ",
                "Jobs that failed for good and wait for an operator.",
                "short",
                [_Series(f"sum(job_dlq_size{{{_QUEUE}}})")],
                "stat",
                4,
                4,
                1,
            ),
            _Panel(
                "Workers alive",
                "Worker processes that are busy, idle or quiet.",
                "short",
                [_Series('sum(job_workers{state=~"busy|idle|quiet"})')],
                "stat",
                4,
                4,
            ),
            _Panel(
                "Longest wait",
                "How long the ready job that waits longest has waited.",
                "s",
                [_Series(f"max(time() - job_queue_oldest_enqueued_timestamp_seconds{{{_QUEUE}}}) or vector(0)")],
                "stat",
                4,
                4,
                300,
            ),
            _Panel(
                "Back-ends that cannot be read",
                "Servers that the exporter could not read at the last scrape.",
                "short",
                [_Series("count(jobconsole_up == 0) or vector(0)")],
                "stat",
                4,
                4,
                1,
            ),
        ),
    ),
    (
        "Queues",
        (
            _Panel(
                "Ready jobs by priority",
                "Jobs that a worker could take now.",
                "short",
                [_Series(f"sum by (queue, priority) (job_queue_depth{{{_QUEUE}}})", "{{queue}} {{priority}}")],
            ),
            _Panel(
                "Longest wait by queue",
                "Age of the ready job that waits longest; none where no job is ready.",
                "s",
                [
                    _Series(
                        f"time() - max by (queue) (job_queue_oldest_enqueued_timestamp_seconds{{{_QUEUE}}})",
                        "{{queue}}",
                    )
                ],
            ),
            _Panel(
                "Scheduled and retrying",
                "Jobs that wait for their time.",
                "short",
                [_Series(f"sum by (queue) (jobs_scheduled{{{_QUEUE}}})", "{{queue}}")],
            ),
            _Panel(
                "Enqueued",
                "Jobs accepted a second.",
                "ops",
                [_Series(_rate("jobs_enqueued_total", "queue"), "{{queue}}")],
            ),
            _Panel(
                "Completed",
                "Jobs completed a second.",
                "ops",
                [_Series(_rate("queue_processed_total", "queue"), "{{queue}}")],
            ),
            _Panel(
                "Into the DLQ",
                "Jobs that failed for good a second.",
                "ops",
                [_Series(_rate("queue_failed_total", "queue"), "{{queue}}")],
            ),
            _Panel(
                "Wait",
                "From due to start, of jobs that ended.",
                "s",
                _quantiles("queue_wait_time_seconds", f"{{{_QUEUE}}}", "queue"),
            ),
            _Panel(
                "Attempts by outcome",
                "Ended attempts a second.",
                "ops",
                [_Series(_rate("queue_executions_total", "outcome"), "{{outcome}}")],
            ),
            _Panel(
                "DLQ", "Jobs in the DLQ.", "short", [_Series(f"sum by (queue) (job_dlq_size{{{_QUEUE}}})", "{{queue}}")]
            ),
        ),
    ),
    (
        "Types",
        (
            _Panel("Run time", "Of attempts, by type.", "s", _quantiles("job_duration_seconds", "", "type"), width=12),
            _Panel(
                "What became of jobs",
                "Jobs a second, by type and status.",
                "ops",
                [_Series(_rate("jobs_processed_total", "type, status", ""), "{{type}} {{status}}")],
                width=12,
            ),
        ),
    ),
    (
        "Workers and servers",
        (
            _Panel(
                "Workers", "Worker processes by state.", "short", [_Series("sum by (state) (job_workers)", "{{state}}")]
            ),
            _Panel(
                "Releases",
                "Live workers by the release that they announced.",
                "short",
                [_Series("sum by (release) (jobs_worker_info)", "{{release}}")],
            ),
            _Panel(
                "Jobs taken back",
                "From workers that were lost, a second.",
                "ops",
                [_Series(_rate("job_leases_expired_total", "queue"), "{{queue}}")],
            ),
            _Panel(
                "Time of a scrape",
                "How long the exporter read each back-end.",
                "s",
                [_Series("max by (backend) (jobconsole_scrape_duration_seconds)", "{{backend}}")],
            ),
        ),
    ),
)


def dashboard() -> dict[str, Any]:
    """Return the dashboard as Grafana imports it."""
    panels: list[dict[str, Any]] = []
    top = 0
    for title, row in _ROWS:
        place = {"h": 1, "w": _WIDTH, "x": 0, "y": top}
        panels.append(
            {"id": len(panels) + 1, "type": "row", "title": title, "collapsed": False, "gridPos": place, "panels": []}
        )
        top, left, height = top + 1, 0, 0
        for panel in row:
            if left + panel.width > _WIDTH:
                top, left, height = top + height, 0, 0
            place = {"h": panel.height, "w": panel.width, "x": left, "y": top}
            panels.append({"id": len(panels) + 1, "gridPos": place, **_panel(panel)})
            left, height = left + panel.width, max(height, panel.height)
        top += height
    return {
        "title": "Job queues",
        "uid": "jobconsole",
        "tags": ["jobconsole"],
        "schemaVersion": 39,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {"list": [_DATASOURCE, _QUEUES]},
        "panels": panels,
    }


def _panel(panel: _Panel) -> dict[str, Any]:
    steps: list[dict[str, Any]] = [{"color": "green", "value": None}]
    steps += [] if panel.red is None else [{"color": "red", "value": panel.red}]
    targets = [
        {
            "refId": chr(ord("A") + number),
            "datasource": _DATA,
            "expr": line.expression,
            "legendFormat": line.legend or "__auto",
        }
        for number, line in enumerate(panel.lines)
    ]
    thresholds = {"mode": "absolute", "steps": steps}
    return {
        "type": panel.kind,
        "title": panel.title,
        "description": panel.description,
        "datasource": _DATA,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0, "thresholds": thresholds}, "overrides": []},
        "options": {"tooltip": {"mode": "multi"}} if panel.kind == "timeseries" else {},
        "targets": targets,
    }


_DATASOURCE = {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"}
_QUEUES = {
    "name": "queue",
    "label": "Queue",
    "type": "query",
    "datasource": _DATA,
    "query": {"query": "label_values(queue_size, queue)", "refId": "queue"},
    "refresh": 2,
    "sort": 1,
    "multi": True,
    "includeAll": True,
    "allValue": ".*",
    "current": {"text": "All", "value": "$__all"},
}


def text() -> str:
    """Return the dashboard as the file has it."""
    return json.dumps(dashboard(), indent=2) + "\n"


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
