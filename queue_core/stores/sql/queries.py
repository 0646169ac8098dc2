"""The SQL files of a store's package: statements in named blocks, and the fragments of filters."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from queue_core.blocks import blocks_of

_FRAGMENT = re.compile(r"-- \[(.+)\]")


@cache
def statement(package: str, name: str) -> str:
    """Return a statement by its name, such as `claim/by_ids`: that block of the file `claim.sql`, without comments.

    Raises:
        KeyError: no statement has this name.
    """
    file, _, block = name.partition("/")
    lines = _blocks(package, file)[block].splitlines()
    return "\n".join(line for line in lines if not line.lstrip().startswith("--")).strip()


@cache
def _blocks(package: str, file: str) -> dict[str, str]:
    return blocks_of(_text(package, file))


def _text(package: str, file: str) -> str:
    return _texts(package)[f"{file}.sql"]


@cache
def _texts(package: str) -> dict[str, str]:
    """Return all files of a package, read at once: later the process may have no file descriptors left."""
    return {file.name: file.read_text(encoding="utf-8") for file in files(package).joinpath("sql").iterdir()}


@cache
def fragments(package: str) -> Mapping[str, str]:
    """Return the pieces of `conditions.sql` by their names, each behind a line `-- [its name]`, without comments."""
    found: dict[str, list[str]] = {}
    name = ""
    for line in _text(package, "conditions").splitlines():
        if match := _FRAGMENT.fullmatch(line):
            name = match[1]
            found[name] = []
        elif name and line and not line.startswith("--"):
            found[name].append(line)
    return {name: "\n".join(lines) for name, lines in found.items()}
