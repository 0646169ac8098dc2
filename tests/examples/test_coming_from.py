"""docs/coming_from.md: all that its tables name on this side is there."""

from __future__ import annotations

import dataclasses
import re
import shlex

import pytest

import queue_core
from jobconsole.cli.root import parser_of
from queue_core import JobContext, JobHandle, JobQueue, Retry, Task
from queue_core.client.tasks import EnqueueArguments, TaskArguments
from queue_core.model.settings import JobsSettings
from tests.examples.blocks import DOCS

PAGE = (DOCS / "coming_from.md").read_text(encoding="utf-8")
ROWS = [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in PAGE.splitlines() if line.startswith("| ")]
HERE = [text for row in ROWS if row[0] != row[0].lower() or "`" in row[0] for text in re.findall(r"`([^`]+)`", row[1])]
SETTINGS = ("jobs.defaults", "jobs.retention")
OPTIONS = EnqueueArguments.__annotations__.keys() | TaskArguments.__annotations__.keys()
METHODS = {"jobs": JobQueue, "ctx": JobContext, "handle": JobHandle, "send": Task, "add": Task}


def test_each_system_has_a_table() -> None:
    names = [heading.split()[0] for heading in re.findall(r"^## (.*)", PAGE, re.MULTILINE)]
    assert names == ["Celery", "RQ", "SAQ", "Procrastinate", "dramatiq"]
    assert len(HERE) > 100
    assert all(len(row) <= 3 for row in ROWS)


@pytest.mark.parametrize("text", sorted({text for text in HERE if text.startswith("jobconsole")}))
def test_commands(text: str) -> None:
    """Each word of the page is a verb, an option that is spelled out, or the value that it gives."""
    _, *words = shlex.split(text)
    parsed = vars(parser_of().parse_args(words))
    assert not words or callable(parsed["run"])
    values = {str(one) for given in parsed.values() for one in (given if isinstance(given, list) else [given])}
    for word in words:
        option = word.removeprefix("--").replace("-", "_")
        assert word in values or (word.startswith("--") and parsed[option] not in (None, False)), word


@pytest.mark.parametrize("text", [text for text in SETTINGS])
def test_settings(text: str) -> None:
    block = JobsSettings.model_fields[text.partition(".")[2]].annotation
    named = {one.rpartition(".")[2] for one in HERE if one.startswith(text)}
    assert named
    assert named <= set(getattr(block, "model_fields", {}))


def test_names() -> None:
    """Of methods, options and classes."""
    jobs, unknown = JobQueue(memory=True), []
    for text in HERE:
        if text.startswith(("jobconsole", *SETTINGS)):
            continue
        for owner, name in re.findall(r"\b(jobs|ctx|handle|send|add)\.(\w+)", text):
            known = hasattr(METHODS[owner], name) or (owner == "jobs" and hasattr(jobs, name)) or name == "created"
            unknown += [] if known else [text]
        if "Retry(" in text or text in {"never=", "on="}:
            fields = {field.name for field in dataclasses.fields(Retry)}
            given = text if text.endswith("=") else text.partition("Retry(")[2]
            unknown += [text for name in re.findall(r"(\w+)=", given) if name not in fields]
        elif found := re.search(r"@jobs\.task\((.*)\)|\.options\((.*?)\)", text):
            unknown += [text for name in re.findall(r"(\w+)=", found[1] or found[2]) if name not in OPTIONS]
        elif re.fullmatch(r"[a-z_]+", text):
            unknown += [] if text in {*OPTIONS, *JobsSettings.model_fields} else [text]
        elif re.fullmatch(r"[A-Z]\w+", text):
            unknown += [] if hasattr(queue_core, text) or text == "CancelledError" else [text]
    assert unknown == []
