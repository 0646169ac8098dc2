"""The documentation names commands, options and metrics that are there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from jobconsole.cli.root import parser_of
from jobconsole.exporter.table import TABLE

DOCS = Path(__file__).parents[2] / "docs"


def blocks(name: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", (DOCS / name).read_text(), re.DOTALL | re.MULTILINE)


def commands() -> list[str]:
    """Return every command line of the documentation, pipes taken apart."""
    pages = ("commands.md", "metrics.md", "retrying.md")
    lines = [line for name in pages for block in blocks(name, "sh") for line in block.splitlines()]
    lines += re.findall(r"`(jobconsole exporter [^`]*)`", (DOCS / "metrics.md").read_text())
    found = []
    for line in lines:
        part: list[str] = []
        for word in [*shlex.split(line, comments=True), "|"]:
            if word != "|":
                part.append(word)
                continue
            if part and part[0] == "jobconsole":
                found.append(shlex.join(part))
            part = []
    return found


@pytest.mark.parametrize("line", commands())
def test_a_command_of_the_documentation_is_understood(line: str) -> None:
    words = shlex.split(line)[1:]
    options = parser_of().parse_args(words)
    assert callable(options.run) if words else not hasattr(options, "run"), "without a noun it is the console"


def test_every_verb_is_documented() -> None:
    documented = {tuple(word for word in shlex.split(line)[1:3] if re.fullmatch("[a-z]+", word)) for line in commands()}
    for noun, verbs in {
        "job": "list show compare logs stack enqueue edit retry move cancel delete restore",
        "dlq": "groups show compare list review retry move delete restore export purge",
        "op": "list show watch pause resume cancel undo run",
        "type": "list show",
        "queue": "list pause resume",
        "schedule": "list trigger pause resume remove",
        "worker": "list run quiet resume stop",
    }.items():
        for verb in verbs.split():
            assert (noun, verb) in documented
    alone = ("migrate", "doctor", "health", "events", "exporter", "demo", "top", "open")
    assert {(noun,) for noun in alone} <= documented
    assert ("completion", "bash") in documented


def test_the_table_of_metrics_is_the_one_that_is_served() -> None:
    table = (DOCS / "metrics.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| ([\w, ]+|–) \| (.*) \|$", table, re.MULTILINE)
    assert {name: (kind, tuple(re.findall(r"\w+", labels)), said) for name, kind, labels, said in rows} == {
        name: tuple(spec) for name, spec in TABLE.items()
    }
