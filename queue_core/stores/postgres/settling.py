"""Turns outcomes into the three settle statements and their rows back into answers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from queue_core.inspection import HISTOGRAM_BOUNDS
from queue_core.job import Failure, Outcome, Settled
from queue_core.losses import summary
from queue_core.stores.postgres.sql import plain_array, text_array

BOUNDS_US = plain_array(round(bound * 1_000_000) for bound in HISTOGRAM_BOUNDS)
"""The histogram's bounds in microseconds. `width_bucket` counts from 0 for values below the first, so a bucket's
number is the index of the first bound that is greater than the value."""

_STATEMENT = {
    "completed": "settle/finish",
    "cancelled": "settle/finish",
    "retrying": "settle/requeue",
    "released": "settle/requeue",
    "dead": "settle/bury",
}

Key = tuple[str, int]


def once(outcomes: Sequence[Outcome]) -> dict[Key, Outcome]:
    """Return the first outcome of each attempt: what follows it cannot end the attempt again."""
    first: dict[Key, Outcome] = {}
    for outcome in outcomes:
        first.setdefault((outcome.id, outcome.token), outcome)
    return first


def by_statement(outcomes: Iterable[Outcome]) -> dict[str, list[Outcome]]:
    """Group outcomes by the statement that writes them."""
    groups: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        groups.setdefault(_STATEMENT[outcome.kind], []).append(outcome)
    return groups


def parameters(statement: str, group: Sequence[Outcome]) -> dict[str, Any]:
    """Return the parameters of one settle statement."""
    common = {
        "id": plain_array(outcome.id for outcome in group),
        "token": plain_array(outcome.token for outcome in group),
        "run_us": plain_array(outcome.run_us for outcome in group),
        "bounds": BOUNDS_US,
    }
    if statement == "settle/finish":
        return common | {
            "status": plain_array(outcome.kind for outcome in group),
            "result": text_array(outcome.result for outcome in group),
        }
    common |= _failures([outcome.failure for outcome in group])
    if statement != "settle/bury":
        common |= {
            "retry": plain_array("t" if outcome.kind == "retrying" else "f" for outcome in group),
            "delay": plain_array(outcome.delay for outcome in group),
            "anew": plain_array("t" if outcome.anew else "f" for outcome in group),
            "run_at": plain_array("NULL" if outcome.run_at is None else outcome.run_at for outcome in group),
        }
    return common


def _failures(failures: Sequence[Failure | None]) -> dict[str, Any]:
    return {
        "kind": text_array(f and f.kind for f in failures),
        "exception": text_array(f and f.exception for f in failures),
        "message": text_array(f and f.message for f in failures),
        "traceback": text_array(f and f.traceback for f in failures),
        "signature": text_array(f and f.signature for f in failures),
        "title": text_array(f and f.title for f in failures),
        "summary": text_array(f and summary(f) for f in failures),
    }


def answer(row: tuple[Any, ...]) -> tuple[Key, Settled]:
    """Return what a settle statement's row says."""
    job_id, token, *rest = row
    rank, due = rest or (None, None)
    return (job_id, token), Settled(job_id, True, rank, due)
