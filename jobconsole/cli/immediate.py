"""Changes that are made at once, to one thing after the other, each kept with who made it and why."""

from __future__ import annotations

import argparse
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from jobconsole.cli.failures import DONE, FAILED, fail
from jobconsole.cli.output import Output
from jobconsole.format.words import IMMEDIATE, Kind
from queue_core.model.text import safe

if TYPE_CHECKING:
    from queue_core.model.operation import OperationState, OperationVerb
    from queue_core.queue import JobQueue


K = TypeVar("K")
T = TypeVar("T")


def report_dry_run(output: Output, verb: str, names: Sequence[str]) -> int:
    """Report what a verb on things that have names would do."""
    if output.as_json:
        output.json({"dry_run": True, "verb": verb, "matched": len(names), "names": list(names)})
        return DONE
    for name in names:
        output.line(f"would {verb} {safe(name, 200)}")
    return DONE


async def record(
    jobs: JobQueue, options: argparse.Namespace, verb: OperationVerb, label: str, act: Callable[[], Awaitable[T]]
) -> T:
    """Do something at once and keep a note of who did it and why; a text that `act` returns becomes part of it.

    Raises:
        InvalidArgument, StoreUnavailable: nothing was done; otherwise, what `act` raises.
    """
    from queue_core.client.operations import this_author
    from queue_core.model.operation import OperationRequest

    return await jobs.operations.record(OperationRequest(verb, label, this_author(), options.why), act)


async def in_turn(names: Iterable[K], act: Callable[[K], Awaitable[T]]) -> tuple[dict[K, T], Exception | None]:
    """Call `act` on each name in order; return the results by name, and the error that ended it early.

    The caller reports what was done before it raises the error: a verb that fails must not hide what it has changed.
    """
    done: dict[K, T] = {}
    for name in names:
        try:
            done[name] = await act(name)
        except Exception as error:  # noqa: BLE001 - the caller raises it
            return done, error
    return done, None


def report_switched(output: Output, kind: Kind, verb: str, changed: Mapping[str, bool]) -> None:
    """Report which things that have names were changed, and which were so already."""
    past = IMMEDIATE[kind, verb].past
    if output.as_json:
        output.json({f"{kind}s": [{"name": name, "state": past, "changed": new} for name, new in changed.items()]})
        return
    for name, new in changed.items():
        output.line(f"{past} {safe(name, 200)}" if new else f"{safe(name, 200)} was {past} already")


async def switch(
    jobs: JobQueue, options: argparse.Namespace, kind: Kind, name: str, act: Callable[[], Awaitable[bool]]
) -> bool:
    """Do the verb of the options to something that may be so already, and keep a note; return whether it was not.

    Raises:
        InvalidArgument, StoreUnavailable: nothing was done; otherwise, what `act` raises.
    """

    async def run() -> str:
        return "" if await act() else f"it was {IMMEDIATE[kind, options.verb].past} already"

    return not await record(jobs, options, options.verb, f"{kind} {name}", run)


async def switch_each(
    jobs: JobQueue,
    options: argparse.Namespace,
    output: Output,
    kind: Kind,
    names: Sequence[str],
    act: Callable[[str], Awaitable[bool]],
) -> int:
    """Do the verb of the options to each of these things, which are known, and report; return the exit code.

    Raises:
        InvalidArgument, StoreUnavailable: what was done until then is reported.
    """
    if options.dry_run:
        return report_dry_run(output, options.verb, names)
    changed, error = await in_turn(names, lambda name: switch(jobs, options, kind, name, partial(act, name)))
    report_switched(output, kind, options.verb, changed)
    if error is not None:
        raise error
    return DONE


TARGETS: Mapping[str, OperationState] = {"pause": "paused", "resume": "running", "cancel": "cancelled"}
"""The state of an operation that each verb leads to."""


def can_change(verb: str, state: OperationState) -> bool:
    """Return whether a verb changes an operation in this state."""
    from queue_core.model.operation import MOVES

    # One that is preparing starts by itself, as soon as all its jobs are written down.
    return TARGETS[verb] in MOVES[state] and not (verb == "resume" and state == "preparing")


def report_unchanged(output: Output, verb: str, number: int, state: str) -> int:
    """Report an operation that a verb does not change, and return the exit code."""
    if state != TARGETS[verb]:
        fail(f"operation #{number} is {state}; it cannot be {IMMEDIATE['operation', verb].past}")
        return FAILED
    if not output.as_json:
        output.line(f"#{number} was {state} already")
    return DONE
