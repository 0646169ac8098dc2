"""Settling: outcomes in groups, their parameters and statements, with and without ordering keys and rules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from queue_core.errors import TransactionError
from queue_core.model.job import MOST_LOSSES, Failure, Outcome, Ready, Reclaimed, Settled, summary
from queue_core.model.outcome import EXCEPTION, LOST_ONCE, lost_too_often
from queue_core.model.report import HISTOGRAM_BOUNDS
from queue_core.model.rules import Rules, rules_of
from queue_core.model.signature import sign
from queue_core.stores.postgres.capacity import limited
from queue_core.stores.postgres.dialect import plain_array, text_array
from queue_core.stores.postgres.ordering import (
    NO_ARRIVALS,
    NO_GATES,
    Arrivals,
    Gate,
    Gates,
    Opened,
    blocking,
    count_arrivals,
    each_arrival,
    lock_free_gates,
    lock_gates,
    lock_gates_soon,
    make_gates,
    note_gates,
    open_gates,
)
from queue_core.stores.postgres.scans import NOWHERE, WHOLE
from queue_core.stores.postgres.session.lane import Plan, Rows


def ready_again(outcomes: Sequence[Outcome], settled: Sequence[Settled]) -> list[Ready]:
    """Return the jobs that are ready after these attempts ended."""
    back = [
        Ready(one.id, outcome.queue, one.rank)
        for outcome, one in zip(outcomes, settled, strict=True)
        if one.rank is not None
    ]
    return back + [ready for one in settled for ready in one.unblocked]


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
    """Return the first outcome of each attempt: a later one cannot end it again."""
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


def group_parameters(
    statement: str,
    group: Sequence[Outcome],
    rules: Rules = NO_RULES,
    gates: Gates = NO_GATES,
    arrivals: Arrivals = NO_ARRIVALS,
) -> dict[str, Any]:
    """Return the parameters of one settle statement; jobs with an ordering key only end where its gate is locked.

    `arrivals` are the first arrivals of jobs that requeue in queues with aging.
    """
    common = {
        "id": plain_array(outcome.id for outcome in group),
        "token": plain_array(outcome.token for outcome in group),
        "run_us": plain_array(outcome.run_us for outcome in group),
        "bounds": BOUNDS_US,
        "locks": gates.accepted(),
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
            "to_back": plain_array("t" if outcome.to_back else "f" for outcome in group),
            "run_at": plain_array("NULL" if outcome.run_at is None else outcome.run_at for outcome in group),
            "limited": limited(rules),
        }
    )


def _again(group: Sequence[Outcome], rules: Rules, arrivals: Arrivals) -> dict[str, Any]:
    # Values missing at an array's end are null.
    if not arrivals:
        return {"arrival_us": "{}", "aging_us": "{}"}
    anew = [outcome.queue if outcome.to_back else "" for outcome in group]
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
    """Convert a row of a settle statement."""
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
    """Return the parameters of `settle/reclaim`, which ends lost workers' attempts, of all jobs or of these.

    For all jobs the caller may name the part of the table that is scanned.
    """
    often = lost_too_often(bound)
    lost, title = sign(EXCEPTION, often)
    loss, _ = sign(EXCEPTION, LOST_ONCE)
    return {
        "limit": limit,
        "ids": None if ids is None else plain_array(ids),
        "locks": gates.accepted(),
        "blocking": blocking(rules),
        "limited": limited(rules),
        "bound": bound,
        "lost_text": often,
        "lost_signature": lost,
        "lost_title": title,
        "loss_text": LOST_ONCE,
        "loss_signature": loss,
        "exception": EXCEPTION,
        **(WHOLE if ids is None else NOWHERE),
    }


def is_ruled(outcome: Outcome, rules: Rules) -> bool:
    """Return whether an attempt's end takes more than one statement, as far as its worker knows."""
    return outcome.ordering_key is not None or (outcome.to_back and rules_of(rules, outcome.queue).aging > 0)


def settle_soon(outcomes: Sequence[Outcome], rules: Rules) -> Plan[dict[Key, Settled]]:
    """End attempts whose token still holds, and release the next jobs of their ordering keys.

    A key that an outcome does not name correctly is not released: such an outcome is not in the answer. Raises
    `LockHeld` when another transaction has a gate locked for long; then `settle_late` is to be used.
    """
    gates = yield from lock_gates_soon(_gates(outcomes))
    done = yield from _settle(outcomes, rules, gates)
    return _with_opened(outcomes, done, (yield from open_gates(gates, rules, whole=False)))


def settle_late(outcomes: Sequence[Outcome], rules: Rules) -> Plan[dict[Key, Settled]]:
    """Do the same, leaving the gates that other transactions have locked to the leader."""
    free, locked = yield from lock_free_gates(_gates(outcomes))
    done = yield from _settle(outcomes, rules, Gates(free.rows + locked.rows))
    yield from note_gates(locked)
    return _with_opened(outcomes, done, (yield from open_gates(free, rules, whole=False)))


def _gates(outcomes: Sequence[Outcome]) -> set[Gate]:
    return {_gate(outcome) for outcome in outcomes if outcome.ordering_key is not None}


def _settle(outcomes: Sequence[Outcome], rules: Rules, gates: Gates) -> Plan[dict[Key, Settled]]:
    arrivals = yield from count_arrivals((outcome.queue for outcome in outcomes if outcome.to_back), rules)
    done: dict[Key, Settled] = {}
    for statement, group in by_statement(outcomes).items():
        rows = yield statement, group_parameters(statement, group, rules, gates, arrivals)
        done.update(answer(row) for row in rows)
    instead = [
        outcome
        for outcome in outcomes
        if outcome.kind in ("retrying", "released") and (outcome.id, outcome.token) not in done
    ]
    if instead:
        rows = yield "settle/cancel_instead", group_parameters("settle/cancel_instead", instead, rules, gates)
        done |= {(job_id, token): Settled(job_id, True, cancelled=True) for job_id, token in rows}
    return done


def _gate(outcome: Outcome) -> Gate:
    return outcome.queue, str(outcome.ordering_key)


def _with_opened(
    outcomes: Sequence[Outcome], done: Mapping[Key, Settled], opened: Sequence[Opened]
) -> dict[Key, Settled]:
    """Add to each attempt the jobs that its end released: other jobs, or the job itself if it was requeued."""
    ranks = {one.ready.id: one.ready.rank for one in opened}
    through: dict[Gate, list[Ready]] = {}
    for one in opened:
        through.setdefault(one.gate, []).append(one.ready)
    found = {}
    for outcome in outcomes:
        key = (outcome.id, outcome.token)
        if key in done:
            settled = done[key]
            others = [ready for ready in through.pop(_gate(outcome), ()) if ready.id != outcome.id]
            found[key] = settled._replace(rank=ranks.get(outcome.id, settled.rank), unblocked=tuple(others))
    return found


def complete(outcome: Outcome, rules: Rules) -> Plan[Settled]:
    """Complete one attempt in a caller's transaction.

    Raises:
        TransactionError: the job has an ordering key, and the transaction does not see concurrent commits.
    """
    if outcome.ordering_key is None:
        rows = yield "settle/finish", group_parameters("settle/finish", [outcome], rules)
        if rows:
            return answer(rows[0])[1]
        named = with_keys([outcome], (yield "settle/keys_of_unfinished", {"ids": plain_array([outcome.id])}))
        if not named:
            return Settled(outcome.id, False)
        (outcome,) = named
    yield from read_committed("the end of a job with an ordering key")
    gates = yield from lock_gates(_gates([outcome]))
    done = yield from _settle([outcome], rules, gates)
    answers = _with_opened([outcome], done, (yield from open_gates(gates, rules, whole=False)))
    return answers.get((outcome.id, outcome.token), Settled(outcome.id, False))


def with_keys(outcomes: Sequence[Outcome], rows: Rows) -> list[Outcome]:
    """Return the outcomes that do not name their job's ordering key, with the key, by `settle/keys_of_unfinished`."""
    keys = {job_id: key for job_id, _, key in rows}
    return [
        outcome._replace(ordering_key=keys[outcome.id])
        for outcome in outcomes
        if keys.get(outcome.id) not in (None, outcome.ordering_key)
    ]


def read_committed(what: str) -> Plan[None]:
    """Check that each statement of a transaction sees all earlier commits.

    Raises:
        TransactionError: it does not.
    """
    ((level,),) = yield "settle/isolation", {}
    if level != "read committed":
        raise TransactionError(f"{what} needs a transaction with isolation level READ COMMITTED, not {level.upper()}")


def reclaim_gated(named: Sequence[tuple[Any, ...]], rules: Rules, bound: int = MOST_LOSSES) -> Plan[list[Reclaimed]]:
    """Reclaim the jobs that release their ordering keys, as named by `settle/reclaim`.

    A locked gate is opened in a later round: its jobs, if left, would come before all others.
    """
    free, locked = yield from lock_free_gates((row[1], row[-1]) for row in named)
    gates = Gates(free.rows + locked.rows)
    rows = yield "settle/reclaim", reclaim_parameters(len(named), rules, [row[0] for row in named], gates, bound)
    yield from note_gates(locked)
    through: dict[Gate, list[Ready]] = {}
    for one in (yield from open_gates(free, rules)):
        through.setdefault(one.gate, []).append(one.ready)
    return [
        Reclaimed(*row[:-1])._replace(unblocked=tuple(through.pop((row[1], row[-1]), ())))
        for row in rows
        if row[3] is not None
    ]


def promote_gated(named: Rows, rules: Rules, make: bool = True) -> Plan[tuple[list[Ready], bool]]:
    """Let due jobs arrive at the gates of their ordering keys, and open the noted gates, both named by `store/promote`.

    A locked gate is noted for a later round: its jobs, if left, would come before all others.
    Returns the jobs that became ready, and whether any gate was locked. With `make`, raises `LockHeld` when an
    open transaction has made one of the gates; without, such a gate counts as locked.
    """
    if make:
        yield from make_gates((queue, key) for _, queue, _, key in named)
    free, locked = yield from lock_free_gates((queue, key) for _, queue, _, key in named)
    due = {row[0]: (row[1], row[3]) for row in named if row[0] is not None}
    if due:
        yield "settle/promote_keyed", {"ids": plain_array(due), "locks": Gates(free.rows + locked.rows).accepted()}
    arrived = set(due.values())
    yield from note_gates(Gates([row for row in locked.rows if (row[0], row[2]) in arrived]))
    yield "settle/clear_pending", {"locks": free.accepted()}
    return [one.ready for one in (yield from open_gates(free, rules))], bool(locked.rows)
