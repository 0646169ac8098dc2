"""Words that have no place in the sources."""

import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT, files

# What names the console nevertheless, and why: file → the words themselves and the reason.
OF_THE_CONSOLE: Mapping[str, tuple[str, str]] = {
    "queue_core/errors.py": ("'jobconsole migrate'", "the sentence names the command that repairs a schema"),
    "queue_core/model/settings.py": ('SCHEMA = "jobconsole"', "the schema of a queue that names none"),
    "queue_core/worker/heartbeat.py": ('version("jobconsole")', "the name of the distribution that both packages are"),
}


def test_the_queue_does_not_know_its_console() -> None:
    """Neither in code nor in sentences, docstrings and comments: its settings have names of their own."""
    wrong = {}
    for name, text in (found for suffix in (".py", ".sql", ".lua") for found in files(suffix)):
        if not name.startswith("queue_core/"):
            continue
        allowed, _ = OF_THE_CONSOLE.get(name, ("", ""))
        lines = [line for line in text.splitlines() if "jobconsole" in line.lower()]
        if unknown := [line for line in lines if not allowed or allowed not in line]:
            wrong[name] = unknown
        assert not allowed or lines, f"{name}: this exception is not needed any more"
    assert wrong == {}


FORBIDDEN = re.compile(
    r"(?<![a-z])(somebody|nobody|whoever|anew|stands?|tells?|told|says?|said)(?![a-z])", re.IGNORECASE
)
"""People in place of callers, speech in place of data, and "stands" where something is stored."""
ROOTS = ("queue_core", "jobconsole", "benchmarks", "docs", ".ci")
# How often they are left in docstrings, comments, names, SQL, Lua and documents, by folder. Only ever lowered.
LEFT: Mapping[str, int] = {
    ".ci": 1,
    "benchmarks": 10,
    "docs": 1,
    "jobconsole/actions": 9,
    "jobconsole/bench": 4,
    "jobconsole/cli": 9,
    "jobconsole/cli/commands": 12,
    "jobconsole/core": 28,
    "jobconsole/demo": 6,
    "jobconsole/embedded": 1,
    "jobconsole/present": 4,
    "jobconsole/tui": 5,
    "jobconsole/tui/base": 9,
    "jobconsole/tui/screens": 11,
    "jobconsole/tui/sheets": 8,
    "jobconsole/tui/widgets": 10,
    "queue_core": 2,
    "queue_core/client": 5,
    "queue_core/delivery": 3,
    "queue_core/model": 2,
    "queue_core/ports": 1,
    "queue_core/stores/postgres": 7,
    "queue_core/stores/redis": 11,
    "queue_core/stores/sqlite": 5,
    "queue_core/worker": 12,
}


def test_plain_english() -> None:
    found = Counter(dict.fromkeys(LEFT, 0))
    for path, text in _texts():
        folder = path.parent.relative_to(ROOT)
        found["/".join(folder.parts[:3])] += sum(1 for _ in FORBIDDEN.finditer(text))
    worse = {folder: count for folder, count in found.items() if count > LEFT.get(folder, 0)}
    assert worse == {}, (
        f"name what acts and what is stored instead; allowed are {[LEFT.get(name, 0) for name in worse]}"
    )


def _texts() -> Iterator[tuple[Path, str]]:
    for root in ROOTS:
        for path in sorted((ROOT / root).rglob("*")):
            if path.suffix == ".py":
                yield path, "\n".join(_words(path.read_text(encoding="utf-8")))
            elif path.suffix in {".sql", ".lua", ".md"}:
                yield path, path.read_text(encoding="utf-8")


def _words(text: str) -> Iterator[str]:
    """Yield the comments, the docstrings (also those of constants) and the names that a file defines."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.string
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value.value
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


@pytest.mark.parametrize(("text", "count"), [
    ("def tell(): ...", 1), ("whom_it_told = 1", 1), ('"Says it."', 1), ("x = 'said'", 0), ("# standing", 0),
])  # fmt: skip
def test_what_counts(text: str, count: int) -> None:
    assert len(FORBIDDEN.findall("\n".join(_words(text + "\n")))) == count
