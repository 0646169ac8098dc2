"""SQL stands in .sql files and Lua in .lua files, each with its purpose on the first line; none in Python strings."""

import ast
import re
from collections.abc import Iterator, Mapping

import pytest

from tests.architecture.sources import Source, blocks, sources

# A statement's first words, all in small or all in capital letters: "Select a job from the list" is a sentence.
SQL_WORDS = (
    r"select\s+(?:[\w.]+\(|\*|\d|\{|distinct\b|exists\b|.*\bfrom\b)",
    r"insert\s+(?:or\s+\w+\s+)?into\s",
    r"update\s+\S+\s+set\s",
    r"delete\s+from\s",
    r"merge\s+into\s",
    r"with\s+(?:recursive\s+)?\w+\s+as\s+(?:(?:not\s+)?materialized\s+)?\(",
    r"(?:create|alter|drop)\s+(?:or\s+replace\s+|unique\s+|temp(?:orary)?\s+|unlogged\s+)*"
    r"(?:table|index|database|schema|type|view|materialized|function|procedure|trigger|sequence|extension|role)\b",
    r"truncate\s+(?:table\s+)?\w+$",
    r"(?:listen|unlisten|notify)\s+[\w{}\"*]+\s*(?:[;,]|$)",
    r"set\s+(?:local|session)\s",
    r"pragma\s+\w+",
    r"begin(?:\s+(?:immediate|exclusive|transaction)\b|;|$)",
    r"(?:commit|rollback)(?:;|$)",
    r"explain\s+(?:\(|analyze\b)",
)
SQL = re.compile("|".join(rf"^\s*(?:{words})" for words in SQL_WORDS), re.DOTALL)
SQL_CAPITALS = re.compile(
    "|".join(
        # Only the words become capitals; \s, \w and their like stay what they are.
        r"^\s*(?:" + re.sub(r"(\\.)|([a-z])", lambda m: m[1] or m[2].upper(), words) + ")"
        for words in SQL_WORDS
    ),
    re.DOTALL,
)
LUA = re.compile(r"\bredis\.p?call\s*\(")

# "file: the statement" → why it cannot stand in a file. One that is no longer needed fails the test too.
ALLOWED: Mapping[str, str] = {}


def is_statement(text: str) -> bool:
    return bool(SQL.search(text) or SQL_CAPITALS.search(text) or LUA.search(text))


def strings(source: Source) -> Iterator[str]:
    """Answer every string of a file, f-strings with "{}" where a value goes, docstrings left out."""
    left_out = {id(part) for part in ast.walk(source.tree) for part in _not_a_string_of_its_own(part)}
    for node in ast.walk(source.tree):
        if id(node) in left_out:
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)


def _not_a_string_of_its_own(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.JoinedStr):
        yield from node.values
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        yield node.value


@pytest.mark.parametrize(
    "text",
    [
        "select id from jobs",
        "SELECT 1",
        "select pg_try_advisory_lock(%s)",
        "\n    with due as (select 1) update jobs set x = 1",
        "WITH RECURSIVE t AS (SELECT 1)",
        "insert or ignore into jobs values (1)",
        "UPDATE jobs SET status = 'dead'",
        "delete from jobs",
        "CREATE UNIQUE INDEX x ON y (z)",
        "listen {}",
        "PRAGMA journal_mode",
        "begin immediate",
        "commit",
        "return redis.call('GET', KEYS[1])",
    ],
)
def test_statements_are_seen(text: str) -> None:
    assert is_statement(text)


@pytest.mark.parametrize(
    "text",
    [
        "Select a job from the list",
        "Update the set of tags",
        "Delete from the trash",
        "created",
        "commit_rows",
        "notify",
        "listen here (by default everywhere)",
    ],
)
def test_sentences_are_not_statements(text: str) -> None:
    assert not is_statement(text)


def test_no_sql_and_no_lua_in_python_strings() -> None:
    found = {f"{source.name}: {text}" for source in sources() for text in strings(source) if is_statement(text)}
    assert sorted(found - set(ALLOWED)) == []
    assert sorted(set(ALLOWED) - found) == [], "these exceptions are not needed any more"
    assert all(reason.strip() for reason in ALLOWED.values())


@pytest.mark.parametrize("name", [name for name, _ in (*blocks(".sql"), *blocks(".lua"))])
def test_the_first_line_tells_the_purpose(name: str) -> None:
    text = dict((*blocks(".sql"), *blocks(".lua")))[name]
    assert re.match(r"-- \S.*\S", text), f"{name} begins with a comment that says what it is for"
