"""Files, functions and imports stay within their budgets; an exception is named here, with its reason."""

from collections.abc import Mapping

from tests.architecture.sources import (
    blocks,
    cycles,
    functions,
    imports,
    length_without_docstring,
    parameters,
    sources,
)

LINES_IN_A_FILE = 400
LINES_IN_A_FUNCTION = 50
PARAMETERS_OF_A_CONSTRUCTOR = 8
LINES_IN_A_LUA_FILE = 80
INTERNAL_IMPORTS = 15

# What may be longer, and why: "file" or "file:function" → reason. One that is no longer needed fails the test too.
LONG_FILES: Mapping[str, str] = {
    "queue_core/queue.py": "the public face: one class, whose methods are short and documented",
}
LONG_FUNCTIONS: Mapping[str, str] = {}
WIDE_CONSTRUCTORS: Mapping[str, str] = {}
LONG_LUA_FILES: Mapping[str, str] = {}
MANY_IMPORTS: Mapping[str, str] = {
    "jobconsole.cli.commands.edit": "several small modules in one, each with its own imports",
    "jobconsole.notebook.session": "the face of a notebook: it names every part, each with its records",
    "jobconsole.cli.commands.worker": "four verbs on workers and the one that runs them, which loads what it starts",
    "queue_core.stores.redis.store": "the face of the hot path: it names each part of it",
    "queue_core.stores.redis.read": "the face of all reads: it names each part, with its records",
    "jobconsole.tui.app": "it composes what the console shows",
    "jobconsole.tui.base.refresher": "several small modules in one, each with its own imports",
    "jobconsole.tui.screens.row_actions": "several small modules in one, each with its own imports",
    "jobconsole.tui.screens.triage": "it composes the panes and actions of signatures, jobs and queues",
    "jobconsole.tui.screens.view": "several small modules in one, each with its own imports",
    "jobconsole.tui.widgets.live": "several small modules in one, each with its own imports",
    "queue_core": "the table of public names",
    "queue_core.backends": "the one place that names every part of every mode, each imported on demand",
    "queue_core.integrations.pytest_plugin": "the face of tests on any store; it loads each part when a test needs it",
    "queue_core.testing": "a worker in small: it claims, runs and ends the jobs of a store in memory",
    "queue_core.queue": "the public face: it composes every seam and shows each under its type",
    "jobconsole.cli.commands.dlq": "it names the verbs that several modules declare",
    "jobconsole.cli.commands.queue": "two nouns in one, queues and types, each with its own imports",
    "jobconsole.cli.commands.op": "several small modules in one, each with its own imports",
    "queue_core.stores.postgres.operations": "it names the part that does each method of the port",
    "queue_core.stores.sqlite.read": "it names the part that does each method of the port",
    "queue_core.stores.postgres.read": "it names the part that does each method of the port",
    "queue_core.stores.postgres.store": "it opens the runners, and names the part that does each method of the port",
    "queue_core.worker.manual": "a worker in small: it claims, ends and offers the jobs that a program runs by itself",
}

DEFERRED = {
    ("queue_core.queue", "queue_core.blocking.client"),
    ("queue_core.queue", "queue_core.testing"),
    ("queue_core.client.verbs", "queue_core.worker.manual"),
}
"""Imports that lead upward, inside of functions: `JobQueue.blocking`, `JobQueue.testing` and `JobQueue.claim_next`."""


def assert_within(found: Mapping[str, int], limit: int, exceptions: Mapping[str, str]) -> None:
    over = {name: size for name, size in found.items() if size > limit}
    assert {name: size for name, size in over.items() if name not in exceptions} == {}, f"the limit is {limit}"
    assert sorted(set(exceptions) - set(over)) == [], "these exceptions are not needed any more"
    assert all(reason.strip() for reason in exceptions.values()), "an exception carries its reason"


def test_files_are_short() -> None:
    assert_within({source.name: source.lines for source in sources()}, LINES_IN_A_FILE, LONG_FILES)


def test_functions_are_short() -> None:
    found = {
        f"{source.name}:{name}": length_without_docstring(function)
        for source in sources()
        for name, function in functions(source)
    }
    assert_within(found, LINES_IN_A_FUNCTION, LONG_FUNCTIONS)


def test_constructors_take_few_parameters() -> None:
    found = {
        f"{source.name}:{name}": parameters(function)
        for source in sources()
        for name, function in functions(source)
        if name.endswith(".__init__")
    }
    assert_within(found, PARAMETERS_OF_A_CONSTRUCTOR, WIDE_CONSTRUCTORS)


def test_lua_files_are_short() -> None:
    found = {name: len(text.splitlines()) for name, text in blocks(".lua")}
    assert_within(found, LINES_IN_A_LUA_FILE, LONG_LUA_FILES)


def test_modules_import_few_others() -> None:
    found = {module: len(named) for module, named in imports().items()}
    assert_within(found, INTERNAL_IMPORTS, MANY_IMPORTS)


def test_no_modules_import_each_other() -> None:
    graph = {module: frozenset(n for n in named if (module, n) not in DEFERRED) for module, named in imports().items()}
    assert [sorted(group) for group in cycles(graph)] == []
    assert all(above in imports()[below] for below, above in DEFERRED), "these exceptions are not needed any more"


def test_a_cycle_would_be_seen() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}, "e": set[str]()}
    assert cycles({module: frozenset(named) for module, named in graph.items()}) == [{"a", "b", "c"}]
