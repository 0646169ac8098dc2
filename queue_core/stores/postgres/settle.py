"""Settle: outcomes in groups, their parameters, the rows of their statements, and the answers, in one pass."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

from queue_core.model.job import MAX_LOSSES, Failure, Outcome, Ready, Reclaimed, Settled, summary
from queue_core.model.outcome import EXCEPTION, LOST_ONCE, lost_too_often
from queue_core.model.report import HISTOGRAM_BOUNDS
from queue_core.model.rules import Rules, rules_of
from queue_core.model.signature import sign
from queue_core.ports.locks import LockHeld
from queue_core.stores.postgres.capacity import limited
from queue_core.stores.postgres.claim import ClaimBehind, Claimed
from queue_core.stores.postgres.dialect import Rows, plain_array, text_array
from queue_core.stores.postgres.ordering import (
    NO_ARRIVALS,
    NO_IDS,
    NO_KEYS,
    Arrivals,
    LockedKeys,
    OrderingKey,
    Unblocked,
    blocking,
    count_arrivals,
    each_arrival,
    goes_at_once,
    keys_of_unfinished,
    lock_free_keys,
    lock_keys,
    lock_keys_soon,
    note_at_once,
    note_pending,
    read_committed,
    unblock_at_once,
    unblock_next,
    unblocked_of,
    with_keys,
)
from queue_core.stores.postgres.scans.blocks import NOWHERE, WHOLE_TABLE, BlockScan
from queue_core.stores.postgres.session.plans import Ahead, Plan
from queue_core.stores.postgres.session.runner import SerialRunner

BOUNDS_US = plain_array(round(bound * 1_000_000) for bound in HISTOGRAM_BOUNDS)
"""The histogram's bounds in microseconds. `width_bucket` counts from 0 for values below the first, so a bucket's
number is the index of the first bound that is greater than the value."""

STATEMENT = {
    "completed": "settle/finish",
    "cancelled": "settle/finish",
    "retrying": "settle/requeue",
    "released": "settle/requeue",
    "dead": "settle/bury",
}

RUN_AGAIN = ("retrying", "released")
"""Outcomes of jobs that are to run again, unless they are cancelled instead."""
ENDS_IN_ONE_MESSAGE = 100
"""Ends up to which all of a transaction travels in one message: with more the statements take longer than the way, and
so may the next jobs of keys (`SlowKeys`), which is measured without the others."""

Key = tuple[str, int]
_Ended = tuple[Sequence[Rows], Mapping[Key, Settled]]
"""The rows of statements that end attempts; and what was cancelled instead."""


NO_RULES: Rules = MappingProxyType({})


class Settles:
    """Ends attempts, and claims in the transaction in which others end."""

    def __init__(
        self, runner: SerialRunner, keyed: SerialRunner, rules: Rules, queue_ids: Callable[[], Mapping[str, int]]
    ) -> None:
        """`keyed`: the runner of what locks ordering keys; `queue_ids`: returns those that are known."""
        self._runner = runner
        self._keyed = keyed
        self._rules = rules
        self._queue_ids = queue_ids

    async def settle(
        self, outcomes: Sequence[Outcome], behind: Sequence[ClaimBehind] = ()
    ) -> tuple[list[Settled], list[Claimed]]:
        """End attempts whose token still holds, refuse the others without changing anything; also what was claimed."""
        # Groups: of several outcomes of an attempt the first counts, for it has ended by then.
        first: dict[Key, Outcome] = {}
        plain: list[Outcome] = []
        with_rules: list[Outcome] = []
        claiming = {one.request.queue for one in behind}
        for outcome in outcomes:
            key = (outcome.id, outcome.token)
            if key not in first:
                first[key] = outcome
                several = (
                    outcome.ordering_key is not None
                    or outcome.queue in claiming
                    or (outcome.to_back and rules_of(self._rules, outcome.queue).aging > 0)
                )
                (with_rules if several else plain).append(outcome)
        # Parameters and rows: a statement for each group, a plan for those that take several.
        done: dict[Key, Settled] = {}
        claimed: list[Claimed] = []
        for statement, group in by_statement(plain).items():
            done |= accepted(await self._runner.run(statement, group_parameters(statement, group, self._rules)))
        if with_rules:
            ended, claimed = await self._settle_with_rules(with_rules, behind)
            done |= ended
        if len(done) < len(first):
            done |= await self._settle_refused([outcome for key, outcome in first.items() if key not in done])
        # Answers, in the order of the outcomes.
        settled = [
            done[key]
            if (key := (outcome.id, outcome.token)) in done and first[key].kind == outcome.kind
            else Settled(outcome.id, False)
            for outcome in outcomes
        ]
        return settled, claimed

    async def _settle_with_rules(
        self, outcomes: Sequence[Outcome], behind: Sequence[ClaimBehind] = ()
    ) -> tuple[dict[Key, Settled], list[Claimed]]:
        """End attempts in one transaction, with the ordering keys that this releases and the ranks by age."""
        weight, rules, ids = sum(len(outcome.result or "") for outcome in outcomes), self._rules, self._queue_ids()
        try:
            soon = partial(settle_soon, outcomes, rules, behind, ids)
            return await self._keyed.run_plan(soon, patient=False, weight=weight)
        except LockHeld:
            return await self._keyed.run_plan(lambda: settle_late(outcomes, rules), weight=weight), []

    async def _settle_refused(self, refused: Sequence[Outcome]) -> dict[Key, Settled]:
        """Return what becomes of outcomes that were refused.

        They did not name their ordering key, are to be cancelled instead, were written before (a lost reply), or stale.
        """
        done: dict[Key, Settled] = {}
        named = with_keys(refused, await self._runner.run(*keys_of_unfinished([one.id for one in refused])))
        if named:
            done |= (await self._settle_with_rules(named))[0]
        ends = [one for one in refused if one.kind in RUN_AGAIN and (one.id, one.token) not in done]
        if ends:
            rows = await self._runner.run("settle/cancel_instead", group_parameters("settle/cancel_instead", ends))
            done |= {(job_id, token): Settled(job_id, True, cancelled=True) for job_id, token in rows}
        left = [outcome for outcome in refused if (outcome.id, outcome.token) not in done]
        rows = await self._runner.run(
            "settle/settled_already",
            {
                "id": plain_array([outcome.id for outcome in left]),
                "token": plain_array([outcome.token for outcome in left]),
                "kind": plain_array([outcome.kind for outcome in left]),
            },
        )
        return done | {(job_id, token): Settled(job_id, True, cancelled=instead) for job_id, token, instead in rows}


def by_statement(outcomes: Iterable[Outcome]) -> dict[str, list[Outcome]]:
    """Group outcomes by the statement that writes them."""
    groups: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        groups.setdefault(STATEMENT[outcome.kind], []).append(outcome)
    return groups


def group_parameters(
    statement: str,
    group: Sequence[Outcome],
    rules: Rules = NO_RULES,
    locks: LockedKeys = NO_KEYS,
    arrivals: Arrivals = NO_ARRIVALS,
) -> dict[str, Any]:
    """Return the parameters of one settle statement; jobs with an ordering key only end where it is locked.

    `arrivals` are the first arrivals of jobs that requeue in queues with aging.
    """
    common = {
        "id": plain_array([outcome.id for outcome in group]),
        "token": plain_array([outcome.token for outcome in group]),
        "run_us": plain_array([outcome.run_us for outcome in group]),
        "bounds": BOUNDS_US,
        "locks": locks.accepted(),
    }
    if statement == "settle/finish":
        return common | {
            "status": plain_array([outcome.kind for outcome in group]),
            "result": text_array([outcome.result for outcome in group]),
        }
    common |= _failures([outcome.failure for outcome in group])
    if statement == "settle/bury":
        return common | {"blocking": blocking(rules)}
    return (
        common
        | _again(group, rules, arrivals)
        | {
            "retry": plain_array(["t" if outcome.kind == "retrying" else "f" for outcome in group]),
            "delay": plain_array([outcome.delay for outcome in group]),
            "to_back": plain_array(["t" if outcome.to_back else "f" for outcome in group]),
            "run_at": plain_array(["NULL" if outcome.run_at is None else outcome.run_at for outcome in group]),
            "limited": limited(rules),
        }
    )


def _again(group: Sequence[Outcome], rules: Rules, arrivals: Arrivals) -> dict[str, Any]:
    # Values missing at an array's end are null.
    if not arrivals:
        return {"arrival_us": "{}", "aging_us": "{}"}
    to_back = [outcome.queue if outcome.to_back else "" for outcome in group]
    return {
        "arrival_us": plain_array(each_arrival(to_back, arrivals)),
        "aging_us": plain_array([rules_of(rules, outcome.queue).aging_us for outcome in group]),
    }


def _failures(failures: Sequence[Failure | None]) -> dict[str, Any]:
    names = ("kind", "exception", "message", "traceback", "signature", "title")
    found = {name: text_array([f and getattr(f, name) for f in failures]) for name in names}
    return found | {"summary": text_array([f and summary(f) for f in failures])}


def accepted(rows: Rows) -> dict[Key, Settled]:
    """Return the attempts that a settle statement ended, by its rows: id, token, and of requeued jobs rank and due."""
    return {(row[0], row[1]): Settled(row[0], True, *row[2:]) for row in rows}


def settle_soon(
    outcomes: Sequence[Outcome],
    rules: Rules,
    behind: Sequence[ClaimBehind] = (),
    queue_ids: Mapping[str, int] = NO_IDS,
) -> Plan[tuple[dict[Key, Settled], list[Claimed]]]:
    """End attempts whose token still holds, release the next jobs of their ordering keys, and claim behind that.

    A key that an outcome does not name correctly is not released: such an outcome is not in the answer. Raises
    `LockHeld` when another transaction has a key locked for long; then `settle_late` is to be used. With the ids of
    the queues all of it is one message, where that may be.
    """
    keys, began = _ordering_keys(outcomes), time.monotonic()
    again = any(outcome.kind in RUN_AGAIN for outcome in outcomes)
    at_once = bool(queue_ids) and len(outcomes) <= ENDS_IN_ONE_MESSAGE and not again and goes_at_once(keys, queue_ids)
    locks = yield from lock_keys_soon(keys, queue_ids if at_once else NO_IDS)
    ended = yield from _settle(outcomes, rules, locks, at_once)
    if at_once:
        rows = yield from unblock_at_once(locks, rules, last=not behind)
    else:
        unblocked = yield from unblock_next(locks, rules, whole=False)
    claimed: list[Claimed] = []
    for place, one in enumerate(behind, start=1):
        ready = None if at_once else [each.ready for each in unblocked]
        claimed.append(Claimed(one, *(yield from one.plan(ready, last=place == len(behind)))))
    if at_once:
        note_at_once(locks, time.monotonic() - began)
        unblocked = unblocked_of(locks, rows)
    return _with_unblocked(outcomes, _done(*ended), unblocked), claimed


def settle_late(outcomes: Sequence[Outcome], rules: Rules) -> Plan[dict[Key, Settled]]:
    """Do the same, leaving the keys that other transactions have locked to the leader."""
    free, locked = yield from lock_free_keys(_ordering_keys(outcomes))
    ended = yield from _settle(outcomes, rules, LockedKeys(free.rows + locked.rows))
    yield from note_pending(locked)
    unblocked = yield from unblock_next(free, rules, whole=False)
    return _with_unblocked(outcomes, _done(*ended), unblocked)


def _ordering_keys(outcomes: Sequence[Outcome]) -> set[OrderingKey]:
    return {_ordering_key(outcome) for outcome in outcomes if outcome.ordering_key is not None}


def _settle(outcomes: Sequence[Outcome], rules: Rules, locks: LockedKeys, at_once: bool = False) -> Plan[_Ended]:
    """End attempts. `at_once`: none of them is to run again, and the rows are there only behind the next step."""
    arrivals = yield from count_arrivals((outcome.queue for outcome in outcomes if outcome.to_back), rules)
    ended: list[Rows] = []
    for statement, group in by_statement(outcomes).items():
        step = statement, group_parameters(statement, group, rules, locks, arrivals)
        ended.append((yield Ahead(*step) if at_once else step))
    again = [outcome for outcome in outcomes if outcome.kind in RUN_AGAIN]
    if not again:
        return ended, {}
    done = _done(ended, {})
    ends = [outcome for outcome in again if (outcome.id, outcome.token) not in done]
    rows = (
        (yield "settle/cancel_instead", group_parameters("settle/cancel_instead", ends, rules, locks)) if ends else []
    )
    return ended, {(job_id, token): Settled(job_id, True, cancelled=True) for job_id, token in rows}


def _done(ended: Iterable[Rows], instead: Mapping[Key, Settled]) -> dict[Key, Settled]:
    return {key: settled for rows in ended for key, settled in accepted(rows).items()} | {**instead}


def _ordering_key(outcome: Outcome) -> OrderingKey:
    return outcome.queue, str(outcome.ordering_key)


def _with_unblocked(
    outcomes: Sequence[Outcome], done: Mapping[Key, Settled], unblocked: Sequence[Unblocked]
) -> dict[Key, Settled]:
    """Add to each attempt the jobs that its end released: other jobs, or the job itself if it was requeued."""
    ranks = {one.ready.id: one.ready.rank for one in unblocked}
    through: dict[OrderingKey, list[Ready]] = {}
    for one in unblocked:
        through.setdefault(one.key, []).append(one.ready)
    found = {}
    for outcome in outcomes:
        key = (outcome.id, outcome.token)
        if key in done:
            settled = done[key]
            others = [ready for ready in through.pop(_ordering_key(outcome), ()) if ready.id != outcome.id]
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
            return accepted(rows)[outcome.id, outcome.token]
        named = with_keys([outcome], (yield keys_of_unfinished([outcome.id])))
        if not named:
            return Settled(outcome.id, False)
        (outcome,) = named
    yield from read_committed("the end of a job with an ordering key")
    locks = yield from lock_keys(_ordering_keys([outcome]))
    ended = yield from _settle([outcome], rules, locks)
    unblocked = yield from unblock_next(locks, rules, whole=False)
    answers = _with_unblocked([outcome], _done(*ended), unblocked)
    return answers.get((outcome.id, outcome.token), Settled(outcome.id, False))


async def reclaim(leases: BlockScan, keyed: SerialRunner, limit: int, bound: int, rules: Rules) -> list[Reclaimed]:
    """Move jobs whose lease expired to queued with one loss more, or to dead as lost where that makes `bound`."""
    rows = await leases.run(
        "settle/reclaim", reclaim_parameters(limit, rules, bound=bound), lambda rows: len(rows) >= limit
    )
    taken = [Reclaimed(*row[:-1]) for row in rows if row[3] is not None]
    named = [row for row in rows if row[3] is None]
    if named:
        taken += await keyed.run_plan(lambda: reclaim_with_keys(named, rules, bound))
    return taken


def reclaim_parameters(
    limit: int,
    rules: Rules = NO_RULES,
    ids: Sequence[str] | None = None,
    locks: LockedKeys = NO_KEYS,
    bound: int = MAX_LOSSES,
) -> dict[str, Any]:
    """Return the parameters of `settle/reclaim`, which ends lost workers' attempts, of all jobs or of these.

    For all jobs the caller may name the parts of the table that are scanned.
    """
    often = lost_too_often(bound)
    lost, title = sign(EXCEPTION, often)
    loss, _ = sign(EXCEPTION, LOST_ONCE)
    return {
        "limit": limit,
        "ids": None if ids is None else plain_array(ids),
        "locks": locks.accepted(),
        "blocking": blocking(rules),
        "limited": limited(rules),
        "bound": bound,
        "lost_text": often,
        "lost_signature": lost,
        "lost_title": title,
        "loss_text": LOST_ONCE,
        "loss_signature": loss,
        "exception": EXCEPTION,
        **(WHOLE_TABLE if ids is None else NOWHERE),
    }


def reclaim_with_keys(named: Sequence[tuple[Any, ...]], rules: Rules, bound: int = MAX_LOSSES) -> Plan[list[Reclaimed]]:
    """Reclaim the jobs that release their ordering keys, as named by `settle/reclaim`.

    The next jobs of a locked key are released in a later round: its lost jobs, if left, would come before all others.
    """
    free, locked = yield from lock_free_keys((row[1], row[-1]) for row in named)
    locks = LockedKeys(free.rows + locked.rows)
    rows = yield "settle/reclaim", reclaim_parameters(len(named), rules, [row[0] for row in named], locks, bound)
    yield from note_pending(locked)
    through: dict[OrderingKey, list[Ready]] = {}
    for one in (yield from unblock_next(free, rules)):
        through.setdefault(one.key, []).append(one.ready)
    return [
        Reclaimed(*row[:-1])._replace(unblocked=tuple(through.pop((row[1], row[-1]), ())))
        for row in rows
        if row[3] is not None
    ]
