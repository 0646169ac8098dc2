"""Turns outcomes into the scripts that write them, and the answers back."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Any

from queue_core.inspection import HISTOGRAM_BOUNDS
from queue_core.job import Failure, Outcome, Settled
from queue_core.losses import summary
from queue_core.redis.scripts import Call
from queue_core.rules import QueueRules, Rules, rules_of
from queue_core.stores.redis.link import TOGETHER, Link, chunks, portions
from queue_core.stores.redis.records import failure_text
from queue_core.stores.redis.ruling import GATES, dead_holds, told

BOUNDS_US = [round(bound * 1_000_000) for bound in HISTOGRAM_BOUNDS]

_VERBS = {
    "completed": "finish",
    "cancelled": "finish",
    "retrying": "requeue",
    "released": "requeue",
    "dead": "bury",
}
_SETS = {
    "finish": (
        "running", "unfinished", "completed", "cancelled", "cancelling", "tallies", "minutes", *GATES, "pending",
    ),
    "requeue": (
        "running", "unfinished", "pending", "retrying", "cancelled", "cancelling", "types", "tallies", "minutes",
        "signatures", "seen", "scheduled", "seq", "depths", *GATES, "arrival",
    ),
    "bury": (
        "running", "unfinished", "dlq", "cancelling", "causes", "deaths", "tallies", "minutes", "signatures", "seen",
        *GATES, "pending",
    ),
}  # fmt: skip


async def settle(link: Link, rules: Rules, outcomes: Sequence[Outcome]) -> list[Settled]:
    """End attempts whose token still holds; answer in the same order."""
    groups: dict[tuple[str, str], list[int]] = {}
    for place, outcome in enumerate(outcomes):
        groups.setdefault((_VERBS[outcome.kind], outcome.queue), []).append(place)
    parts = [
        (verb, queue, part)
        for (verb, queue), places in groups.items()
        for part in portions(places, lambda place: _weight(outcomes[place]))
    ]
    answers: list[Settled] = [Settled(outcome.id, False) for outcome in outcomes]
    for some in chunks(parts, TOGETHER):
        calls = [
            _call(link, verb, queue, rules_of(rules, queue), [outcomes[place] for place in part])
            for verb, queue, part in some
        ]
        for (verb, _, part), found in zip(some, await link.run_many(calls), strict=True):
            for place, answer in zip(part, found, strict=True):
                answers[place] = _settled(outcomes[place], verb, answer)
    return answers


def _weight(outcome: Outcome) -> int:
    failure = outcome.failure
    return len(outcome.result or "") + (0 if failure is None else len(failure.traceback) + len(failure.message))


def _call(link: Link, verb: str, queue: str, rules: QueueRules, outcomes: Sequence[Outcome]) -> Call:
    keys = link.of(queue, _SETS[verb])
    hashes = link.keys.jobs(queue, (outcome.id for outcome in outcomes))
    if verb == "finish":
        keys += hashes
    else:
        start = link.keys.of(queue, "attempts:")
        for outcome, key in zip(outcomes, hashes, strict=True):
            keys += (key, start + outcome.id)
    arguments = _ARGUMENTS[verb]
    args = (part for outcome in outcomes for part in arguments(outcome))
    return Call(verb, keys, [*BOUNDS_US, *_of_queue(verb, rules), *args])


def _of_queue(verb: str, rules: QueueRules) -> tuple[int | str, ...]:
    if verb == "finish":
        return (rules.open_keys,)
    return rules.open_keys, dead_holds(rules) if verb == "bury" else rules.aging_us


def _common(outcome: Outcome) -> tuple[Any, ...]:
    run_us = max(0, outcome.run_us)
    return outcome.id, outcome.token, outcome.kind, run_us, bisect_left(BOUNDS_US, run_us)


def _of_finish(outcome: Outcome) -> tuple[Any, ...]:
    result = outcome.result if outcome.kind == "completed" else None
    return *_common(outcome), "" if result is None else f"+{result}"


def _of_bury(outcome: Outcome) -> tuple[Any, ...]:
    return *_common(outcome), *failure_arguments(outcome.failure)


def _of_requeue(outcome: Outcome) -> tuple[Any, ...]:
    return *_common(outcome), round(outcome.delay * 1e6), *_anew(outcome), *failure_arguments(outcome.failure)


def _anew(outcome: Outcome) -> tuple[str, str]:
    return "1" if outcome.anew else "", "" if outcome.run_at is None else str(round(outcome.run_at * 1e6))


_ARGUMENTS: dict[str, Callable[[Outcome], tuple[Any, ...]]] = {
    "finish": _of_finish,
    "requeue": _of_requeue,
    "bury": _of_bury,
}


def failure_arguments(failure: Failure | None) -> tuple[str, str, str, str, str]:
    """Return what scripts are told of a failure: its JSON, its line, its kind, its signature and its title."""
    if failure is None:
        return "", "", "", "", ""
    return failure_text(failure), summary(failure), failure.kind, failure.signature, failure.title


def _settled(outcome: Outcome, verb: str, answer: Any) -> Settled:
    answer, opened = told(outcome.queue, answer)
    if verb != "requeue":
        return Settled(outcome.id, answer > 0, opened=opened)
    what, number = answer[:1], answer[1:]
    return Settled(
        outcome.id,
        bool(what),
        rank=int(number) if what == "r" else None,
        due=int(number) / 1e6 if what == "d" else None,
        cancelled=what == "c",
        opened=opened,
    )
