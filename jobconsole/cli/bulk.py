"""The verbs on many jobs that `jobconsole job` and `jobconsole dlq` share."""

from __future__ import annotations

import argparse

from jobconsole.cli.failures import UsageError
from jobconsole.cli.operating import BulkVerb, add_bulk, operate
from jobconsole.cli.output import Output
from jobconsole.cli.pacing import add_pace, add_spread, add_target
from jobconsole.cli.parsing import Parser
from jobconsole.cli.selection import add_selection

RETRY = BulkVerb("retry", "retried", ("status:dead",))
CANCEL = BulkVerb("cancel", "cancelled", ("!status:completed", "!status:cancelled", "!status:dead"), destructive=True)
MOVE = BulkVerb("move", "moved", ("!status:completed", "!status:cancelled", "!status:running"))
DELETE = BulkVerb("delete", "deleted", ("status:dead",), destructive=True)
RESTORE = BulkVerb("restore", "restored", ("status:dead", "trash:yes"))


def add_change_of(verb: Parser, destructive: bool = False) -> None:
    """Declare what chooses jobs, and the options of a verb that changes them."""
    add_selection(verb)
    add_bulk(verb, destructive)


def add_retry(verb: Parser) -> None:
    """Declare the options of a retry."""
    add_change_of(verb)
    add_spread(verb)
    add_pace(verb)
    add_target(verb)


def add_move(verb: Parser) -> None:
    """Declare the options of a move."""
    add_change_of(verb)
    add_target(verb)


def move(options: argparse.Namespace, output: Output, verb: BulkVerb) -> int:
    """Move what the options choose.

    Raises:
        UsageError: neither a queue nor a priority is given.
    """
    if options.to_queue is None and options.priority is None:
        raise UsageError("where to? give --to-queue, --priority, or both")
    return operate(options, output, verb)
