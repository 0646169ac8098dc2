"""What all verbs that change something have in common: their options, their rehearsal, and the note of who did it."""

from __future__ import annotations

import argparse
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from jobconsole.cli.failures import DONE
from jobconsole.cli.output import Output
from jobconsole.cli.parsing import Parser
from queue_core.text import safe

if TYPE_CHECKING:
    from queue_core.queue import JobQueue

K = TypeVar("K")
T = TypeVar("T")


def add_change(verb: Parser, destructive: bool = False, why: bool = True) -> None:
    """Declare the options of a verb that changes something; `why`: it is kept among the operations."""
    verb.add_argument("--dry-run", action="store_true", help="only say what it would be")
    verb.add_argument("--yes", action="store_true", help="do not ask" if destructive else "accepted; it never asks")
    if why:
        verb.add_argument("--why", default="", metavar="TEXT", help="the reason, which is kept with the operation")


def rehearse(output: Output, verb: str, names: Sequence[str]) -> int:
    """Say what a verb on things that have names would do."""
    if output.as_json:
        output.json({"dry_run": True, "verb": verb, "matched": len(names), "names": list(names)})
        return DONE
    for name in names:
        output.line(f"would {verb} {safe(name, 200)}")
    return DONE


async def noted(
    jobs: JobQueue, options: argparse.Namespace, verb: str, label: str, act: Callable[[], Awaitable[T]]
) -> T:
    """Do something at once and keep a note of who did it and why; a text that `act` returns becomes part of it.

    Raises:
        InvalidArgument, StoreUnavailable: nothing was done; otherwise, what `act` raises.
    """
    from queue_core.operating import this_author
    from queue_core.operations import NewOperation

    return await jobs.operations.noted(NewOperation(verb, label, this_author(), options.why), act)


async def in_turn(names: Iterable[K], act: Callable[[K], Awaitable[T]]) -> tuple[dict[K, T], Exception | None]:
    """Do something to one after the other; return what came of those that it was done to, and what ended it early.

    The caller says what was done before it raises the error: a verb that fails must not hide what it has changed.
    """
    done: dict[K, T] = {}
    for name in names:
        try:
            done[name] = await act(name)
        except Exception as error:  # noqa: BLE001 - the caller raises it
            return done, error
    return done, None


def tell_switched(output: Output, kind: str, changed: Mapping[str, bool], past: str) -> None:
    """Say of things that have names whether they were changed, or were so already."""
    if output.as_json:
        output.json({kind: [{"name": name, "state": past, "changed": new} for name, new in changed.items()]})
        return
    for name, new in changed.items():
        output.line(f"{past} {safe(name, 200)}" if new else f"{safe(name, 200)} was {past} already")


async def switched(
    jobs: JobQueue, options: argparse.Namespace, label: str, act: Callable[[], Awaitable[bool]], past: str
) -> bool:
    """Do the verb of the options to something that may be so already, and keep a note; return whether it was not.

    Raises:
        InvalidArgument, StoreUnavailable: nothing was done; otherwise, what `act` raises.
    """

    async def said() -> str:
        return "" if await act() else f"it was {past} already"

    return not await noted(jobs, options, options.verb, label, said)
