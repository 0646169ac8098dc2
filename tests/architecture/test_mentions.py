"""Names in backticks exist: what a docstring or a comment mentions is found near it, or wherever it can be seen."""

import ast
import builtins
import io
import keyword
import re
import tokenize
from collections.abc import Iterator, Mapping
from functools import cache

from tests.architecture.sources import Source, imports, sources

MENTION = re.compile(r"`([A-Za-z_]\w*)`")
WORD = re.compile(r"\w+")
EVERYWHERE = ("queue_core.errors", "queue_core.ports.", "queue_core.model.events", "jobconsole.cli.commands.")
"""Modules whose names are known in all others: what is raised, the protocols, events, and commands by their modules."""

# What is defined outside of the Python files, and what it is.
ELSEWHERE: Mapping[str, str] = {
    "JOBS_CONFIG": "a variable of the environment",
    "JOBS__REDIS__URL": "a variable of the environment",
    "UUID": "a type of payloads",
    "__cause__": "an attribute of every exception",
    "claimed": "an event",
    "datetime": "a type of payloads",
    "err": "a short name in filters",
    "fail": "a part of scripts of Redis",
    "jobconsole_up": "a metric",
    "json_each": "a function of SQLite",
    "memory": "a mode",
    "migrate": "a command",
    "nohup": "a program",
    "poison": "a kind of failure",
    "postgres": "a mode",
    "redis": "a mode",
    "sig": "a short name in filters",
    "sqlite": "a mode",
    "top": "a command",
    "traceparent": "a header",
    "ui": "a command",
    "unnest": "a function of PostgreSQL",
    "width_bucket": "a function of PostgreSQL",
    "worker_results": "a statement",
}
KEYS = "queue_core/redis/keys.py"
"""Its docstring is the table of what Redis stores, whose names other files have."""


def test_what_is_mentioned_exists() -> None:
    found = {
        f"{source.name}: {name}"
        for source in sources()
        if source.name != KEYS
        for name in mentions(source) - visible(source)
        if name not in ELSEWHERE and not keyword.iskeyword(name) and not hasattr(builtins, name)
    }
    assert sorted(found) == [], "it was renamed, or it is another package's: then name it in ELSEWHERE"


def test_all_that_is_elsewhere_is_mentioned() -> None:
    every = set[str]().union(*(mentions(source) for source in sources()))
    assert sorted(set(ELSEWHERE) - every) == [], "these are not needed any more"


def mentions(source: Source) -> set[str]:
    """Return the single names in backticks of docstrings, also those of constants, and comments."""
    return {name for text in _prose(source) for name in MENTION.findall(text)}


def _prose(source: Source) -> Iterator[str]:
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value.value
    for token in tokenize.generate_tokens(io.StringIO(source.text).readline):
        if token.type == tokenize.COMMENT:
            yield token.string


@cache
def defined() -> dict[str, frozenset[str]]:
    """Return the names that each module defines: its own, classes, functions, parameters, variables and attributes."""
    return {source.module: frozenset(_defined(source)) for source in sources()}


def _defined(source: Source) -> Iterator[str]:
    yield from source.module.split(".")
    for node in ast.walk(source.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr


def visible(source: Source) -> set[str]:
    """Return what a module defines, uses or has in its strings, and what its folder and what it imports define."""
    folder = source.module.rpartition(".")[0]
    seen = set(_used(source))
    for module, names in defined().items():
        near = module in imports()[source.module] or module.rpartition(".")[0] == folder
        if near or module == source.module or module.startswith(EVERYWHERE):
            seen |= names
        else:
            # Classes and constants have names that are unique, or nearly so.
            seen |= {name for name in names if not name.islower()}
    return seen


def _used(source: Source) -> Iterator[str]:
    prose = {id(node.value) for node in ast.walk(source.tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.keyword) and node.arg:
            yield node.arg
        elif isinstance(node, ast.alias):
            yield from node.name.split(".")
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            yield from WORD.findall(node.value)
