"""Turns outcomes into the three settle statements and their rows back into answers; the parameters of a reclaim."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import MappingProxyType
from typing import Any

from queue_core.inspection import HISTOGRAM_BOUNDS
from queue_core.job import MOST_LOSSES, Failure, Outcome, Settled
from queue_core.losses import EXCEPTION, LOST_ONCE, lost_too_often, summary
from queue_core.rules import Rules, rules_of
from queue_core.signature import sign
from queue_core.stores.postgres.arrivals import NO_ARRIVALS, Arrivals, each_arrival
from queue_core.stores.postgres.gates import NO_GATES, Gates, blocking
from queue_core.stores.postgres.limiting import limited
from queue_core.stores.postgres.sql import plain_array, text_array
from queue_core.stores.postgres.walking import NOWHERE, WHOLE

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
NO_RULES: Rules = MappingProxyType({})


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


def parameters(
    statement: str,
    group: Sequence[Outcome],
    rules: Rules = NO_RULES,
    gates: Gates = NO_GATES,
    arrivals: Arrivals = NO_ARRIVALS,
) -> dict[str, Any]:
    """Return the parameters of one settle statement; jobs with an ordering key only end where its gate is locked.

    `arrivals` are the first ones of those that arrive anew in queues with aging.
    """
    common = {
        "id": plain_array(outcome.id for outcome in group),
        "token": plain_array(outcome.token for outcome in group),
        "run_us": plain_array(outcome.run_us for outcome in group),
        "bounds": BOUNDS_US,
        "gates": gates.accepted(),
    }
    if statement == "settle/finish":
        return common | {
            "status": plain_array(outcome.kind for outcome in group),
            "result": text_array(outcome.result for outcome in group),
        }
    common |= _failures([outcome.failure for outcome in group])
    if statement == "settle/bury":
        return common | {"blocking": blocking(rules)}
    return (
        common
        | _again(group, rules, arrivals)
        | {
            "retry": plain_array("t" if outcome.kind == "retrying" else "f" for outcome in group),
            "delay": plain_array(outcome.delay for outcome in group),
            "anew": plain_array("t" if outcome.anew else "f" for outcome in group),
            "run_at": plain_array("NULL" if outcome.run_at is None else outcome.run_at for outcome in group),
            "limited": limited(rules),
        }
    )


def _again(group: Sequence[Outcome], rules: Rules, arrivals: Arrivals) -> dict[str, Any]:
    # What an array lacks at its end is null.
    if not arrivals:
        return {"arrival_us": "{}", "aging_us": "{}"}
    anew = [outcome.queue if outcome.anew else "" for outcome in group]
    return {
        "arrival_us": plain_array(each_arrival(anew, arrivals)),
        "aging_us": plain_array([rules_of(rules, outcome.queue).aging_us for outcome in group]),
    }


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


def reclaim_parameters(
    limit: int,
    rules: Rules = NO_RULES,
    ids: Sequence[str] | None = None,
    gates: Gates = NO_GATES,
    bound: int = MOST_LOSSES,
) -> dict[str, Any]:
    """Return the parameters of `sweep/reclaim`, which ends the attempts of lost workers, of all or of these jobs.

    Where of all, the caller may name the part of the table that is scanned.
    """
    often = lost_too_often(bound)
    lost, title = sign(EXCEPTION, often)
    loss, _ = sign(EXCEPTION, LOST_ONCE)
    return {
        "limit": limit,
        "ids": None if ids is None else plain_array(ids),
        "gates": gates.accepted(),
        "blocking": blocking(rules),
        "limited": limited(rules),
        "bound": bound,
        "lost_said": often,
        "lost_signature": lost,
        "lost_title": title,
        "loss_said": LOST_ONCE,
        "loss_signature": loss,
        "exception": EXCEPTION,
        **(WHOLE if ids is None else NOWHERE),
    }
