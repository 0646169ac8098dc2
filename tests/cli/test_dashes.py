"""Dashes: which words are values, options and arguments, in whatever order they come."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import suppress

import pytest

from jobconsole.cli.failures import UsageError
from jobconsole.cli.parser import Parser
from jobconsole.cli.root import parser_of
from tests.cli.running import Cli


def parsers(parser: Parser, path: str = "jobconsole") -> Iterator[tuple[str, Parser]]:
    """Yield a parser and those of its commands and verbs."""
    parser.declare()
    yield path, parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, sub in action.choices.items():
                yield from parsers(sub, f"{path} {name}")


def read(parser: Parser, action: argparse.Action) -> object:
    """Return what an option makes of two dashes; they themselves where it refuses them."""
    with suppress(UsageError, argparse.ArgumentError):
        return parser._get_values(action, ["--"])
    return "--"


def test_every_option_reads_two_dashes_as_its_value() -> None:
    found = 0
    for path, parser in parsers(parser_of()):
        for action in parser._actions:
            if action.option_strings and action.nargs is None:
                found += 1
                assert read(parser, action) in ("--", ("--",)), (path, action.option_strings)
    assert found > 200


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("job list --filter=--", 2),
        ("job list --tag=--", 0),
        ("job list --queue=--", 4),
        ("job list --signature=--", 2),
        ("job list --limit=--", 2),
        ("job list --older-than=--", 2),
        ("job list --cursor=--", 2),
        ("--context=-- job list", 2),
        ("dlq groups --window=--", 2),
        ("dlq retry --filter=-- --dry-run", 2),
        ("job enqueue t --tag=-- --dry-run", 0),
    ],
)
def test_two_dashes_are_no_fault_of_the_program(cli: Cli, line: str, code: int) -> None:
    answer = cli(*line.split())
    assert (answer.code, "internal error" in answer.err) == (code, False), answer.err


@pytest.mark.parametrize(
    ("between", "behind"),
    [
        ("job enqueue t --queue mail {} --dry-run", "job enqueue t {} --queue mail --dry-run"),
        ("job enqueue --dry-run t --queue=mail {}", "job enqueue t {} --dry-run --queue=mail"),
        ("job enqueue t --priority -5 -- {}", "job enqueue t {} --priority -5"),
        ("queue pause mail --dry-run images --why x bulk", "queue pause mail images bulk --dry-run --why x"),
        ("dlq retry --dry-run 0197b3c2 --why x 0197b3c3", "dlq retry 0197b3c2 0197b3c3 --dry-run --why x"),
        ("filter save mine --why x type:t", "filter save mine type:t --why x"),
        ("dlq note 9f31c2 --json seen", "dlq note 9f31c2 seen --json"),
        ("dlq note 9f31c2 --dry-run -- -seen", "dlq note --dry-run -- 9f31c2 -seen"),
    ],
)
def test_options_may_stand_between_arguments(between: str, behind: str) -> None:
    read = [vars(parser_of().parse_args(line.split())) for line in (between, behind)]
    for one in read:
        one.pop("run")
    assert read[0] == read[1]


@pytest.mark.parametrize("line", ["dlq note 9f31c2 seen --why", "dlq note 9f31c2 --why -- seen"])
def test_no_argument_becomes_the_value_of_an_option_without_one(line: str) -> None:
    with pytest.raises(UsageError, match="--why: expected one argument"):
        parser_of().parse_args(line.split())
