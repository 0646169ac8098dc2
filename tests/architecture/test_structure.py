"""Folders have few modules, modules are whole concepts, and all stores have the same ones."""

import ast
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from statistics import median

import pytest

from tests.architecture.sources import PACKAGES, ROOT, Source, blocks, sources

MODULES_IN_A_STORE = 18
MODULES_IN_A_FOLDER = 16
MODULES_AT_THE_ROOT = 9
MEDIAN_LEAST, MEDIAN_MOST = 150, 220
FEW_LINES = 60

STORES = "queue_core/stores"
CONCEPTS = frozenset(
    {
        "capacity", "change", "claim", "delivery", "insert", "logs", "migrate", "operations", "ordering", "read",
        "schedules", "search", "session", "settle", "statistics", "store", "upkeep",
    }
)  # fmt: skip
"""The modules of a store. One that needs no module of its own for a concept has it in `store`."""
OWN: Mapping[str, frozenset[str]] = {
    "memory": frozenset({"records", "state"}),
    "postgres": frozenset({"dialect", "scans"}),
    "redis": frozenset({"hints", "records"}),
    "sqlite": frozenset({"dialect", "file"}),
}
"""What a store has beside them, two at most."""

# "file" → why it may be short, where it is none of a folder of ports. One that is no longer needed fails the test too.
SHORT: Mapping[str, str] = {
    "jobconsole/bench/tasks.py": "the target that worker processes import by its name",
    "jobconsole/__main__.py": "a program",
    "jobconsole/demo/packer.py": "a program",
    "jobconsole/demo/workers.py": "a program",
    "jobconsole/exporter/table.py": "a registry: the metrics",
    "jobconsole/tui/base/messages.py": "a registry: the messages",
    "jobconsole/tui/base/stylesheet.py": "replaces a class of Textual's",
    "jobconsole/tui/widgets/jsonarea.py": "replaces a class of Textual's",
    "queue_core/blocks.py": "how SQL and Lua files are divided, for stores, scripts and tests",
    "queue_core/client/operating/guarded.py": "what the faces of operations, schedules, signatures and filters share",
    "queue_core/stores/postgres/statistics/releases.py": "a table of its own",
    "queue_core/stores/sqlite/statistics/releases.py": "a table of its own",
    "queue_core/stores/sql/queries.py": "the loader of both stores' statements",
}


def modules() -> Iterator[Source]:
    return (source for source in sources() if not source.name.endswith("__init__.py"))


def folder(source: Source) -> str:
    return source.name.rpartition("/")[0]


def stem(source: Source) -> str:
    return source.name.rpartition("/")[2].removesuffix(".py")


def limit(name: str) -> int:
    if name == "queue_core":
        return MODULES_AT_THE_ROOT
    return MODULES_IN_A_STORE if name.rpartition("/")[0] == STORES else MODULES_IN_A_FOLDER


def packages_in(name: str) -> list[str]:
    return sorted(path.parent.name for path in (ROOT / name).glob("*/__init__.py"))


def test_folders_have_few_modules() -> None:
    found = Counter(folder(source) for source in modules())
    for store in OWN:
        found[f"{STORES}/{store}"] += len(packages_in(f"{STORES}/{store}"))
    assert {name: count for name, count in found.items() if count > limit(name)} == {}


@pytest.mark.parametrize("package", PACKAGES)
def test_a_module_is_one_whole_concept(package: str) -> None:
    lines = median(source.lines for source in modules() if source.name.startswith(f"{package}/"))
    assert MEDIAN_LEAST <= lines <= MEDIAN_MOST


def test_no_module_is_a_fragment() -> None:
    found = {source.name for source in modules() if source.lines < FEW_LINES and "/ports/" not in source.name}
    assert sorted(found - set(SHORT)) == [], "put it where its concept is"
    assert sorted(set(SHORT) - found) == [], "these exceptions are not needed any more"


@pytest.mark.parametrize("store", OWN)
def test_stores_have_the_same_modules(store: str) -> None:
    name = f"{STORES}/{store}"
    found = {stem(source) for source in modules() if folder(source) == name} | set(packages_in(name))
    assert found - CONCEPTS == OWN[store]
    assert len(OWN[store]) <= 2


def loaded(source: Source, known: frozenset[str]) -> Iterator[str]:
    """Yield the statements that a module names, such as "claim/by_rank"."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in known:
            yield node.value


@pytest.mark.parametrize("store", [name for name in OWN if (ROOT / STORES / name / "sql").is_dir()])
def test_a_module_names_the_statements_of_its_own_file(store: str) -> None:
    name = f"{STORES}/{store}"
    matches = (re.fullmatch(rf"{name}/sql/(\w+)\.sql:(\w+)", block) for block, _ in blocks(".sql"))
    known = frozenset(f"{match[1]}/{match[2]}" for match in matches if match)
    assert known
    found = {
        (stem(source), statement)
        for source in modules()
        if source.name.startswith(f"{name}/")
        for statement in loaded(source, known)
    }
    assert sorted((module, statement) for module, statement in found if statement.partition("/")[0] != module) == []


@pytest.mark.parametrize("folder", ["postgres/sql", "sqlite/sql", "redis/lua"])
def test_each_file_of_statements_has_its_module(folder: str) -> None:
    store = ROOT / STORES / folder.partition("/")[0]
    stems = {path.stem for path in store.rglob("*.py")}
    files = {path.stem for path in (ROOT / STORES / folder).iterdir()}
    assert sorted(files - stems - {"conditions"}) == [], "fragments of filters are for `dialect`"
