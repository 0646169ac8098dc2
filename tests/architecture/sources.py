"""The sources as data: parsed files, what they import, what their functions look like."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from queue_core.blocks import blocks_of

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("queue_core", "jobconsole")

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Source:
    """One Python file of the two packages."""

    # Relative to the root, with slashes: how exceptions name it.
    name: str
    # The dotted name it is imported by.
    module: str
    text: str
    tree: ast.Module

    @property
    def lines(self) -> int:
        return len(self.text.splitlines())


@cache
def sources() -> tuple[Source, ...]:
    """Answer every Python file of the two packages."""
    return tuple(_parse(path) for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py")))


def _parse(path: Path) -> Source:
    relative = path.relative_to(ROOT)
    parts = relative.with_suffix("").parts
    module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    text = path.read_text(encoding="utf-8")
    return Source(relative.as_posix(), module, text, ast.parse(text, filename=str(path)))


def files(suffix: str) -> list[tuple[str, str]]:
    """Answer name and text of every other file with an ending."""
    found = (path for package in PACKAGES for path in sorted((ROOT / package).rglob(f"*{suffix}")))
    return [(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")) for path in found]


def blocks(suffix: str) -> list[tuple[str, str]]:
    """Answer "file:name" and text of every block of the files with an ending; a file without blocks is one."""
    found: list[tuple[str, str]] = []
    for name, text in files(suffix):
        parts = blocks_of(text)
        found += [(f"{name}:{block}", part) for block, part in parts.items()] or [(name, text)]
    return found


def functions(source: Source) -> Iterator[tuple[str, Function]]:
    """Answer each function with its name inside the file, such as "Worker.run"."""
    yield from _functions_in(source.tree, "")


def _functions_in(node: ast.AST, within: str) -> Iterator[tuple[str, Function]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Function | ast.ClassDef):
            name = f"{within}{child.name}"
            if not isinstance(child, ast.ClassDef):
                yield name, child
            yield from _functions_in(child, f"{name}.")
        else:
            yield from _functions_in(child, within)


def length_without_docstring(function: Function) -> int:
    """Answer the lines from `def` to the end, docstring left out."""
    length = (function.end_lineno or function.lineno) - function.lineno + 1
    first = function.body[0]
    if ast.get_docstring(function, clean=False) is not None:
        length -= (first.end_lineno or first.lineno) - first.lineno + 1
    return length


def parameters(function: Function) -> int:
    """Answer the parameters of a method, `self` left out."""
    given = function.args
    return len(given.posonlyargs) + len(given.args) + len(given.kwonlyargs) - 1


@cache
def imports() -> dict[str, frozenset[str]]:
    """Answer, for each module, the modules of the two packages that it names; also those imported late."""
    known = {source.module for source in sources()}
    return {source.module: frozenset(_imported(source, known) - {source.module}) for source in sources()}


def _imported(source: Source, known: set[str]) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(source, node)
            # `from package import module` names the module, `from module import thing` names where the thing is.
            found |= {f"{base}.{a.name}" if f"{base}.{a.name}" in known else base for a in node.names}
    return found & known


def _absolute(source: Source, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    package = source.module.split(".")
    up = node.level - 1 if source.name.endswith("__init__.py") else node.level
    return ".".join([*package[: len(package) - up], *([node.module] if node.module else [])])


def cycles(graph: dict[str, frozenset[str]]) -> list[set[str]]:
    """Answer the groups of modules that import each other, directly or around a corner."""

    def reachable(start: str) -> set[str]:
        found: set[str] = set()
        waiting = list(graph[start])
        while waiting:
            module = waiting.pop()
            if module not in found:
                found.add(module)
                waiting.extend(graph[module])
        return found

    beyond = {module: reachable(module) for module in graph}
    groups: list[set[str]] = []
    for module in sorted(graph):
        if module in beyond[module] and not any(module in group for group in groups):
            groups.append({other for other in beyond[module] if module in beyond[other]})
    return groups
