"""The console is made of parts that hold each other: no method or module only passes on, no class mixes others in."""

import ast
from collections.abc import Iterator, Mapping

from tests.architecture.sources import Source, sources

# "file:Class.method" → why it may hand on its own parameters. One that is no longer needed fails the test too.
PASSES_ON: Mapping[str, str] = {
    "jobconsole/bench/ground.py:PostgresUsage.close": "closes what it has opened",
    "jobconsole/bench/ground.py:RedisUsage.close": "closes what it has opened",
    "jobconsole/core/listing.py:Selection.expect_gone": "names what the change of a set means",
    "jobconsole/core/listing.py:Selection.expect_stay": "names what the change of a set means",
    "jobconsole/tui/app.py:ConsoleApp.on_unmount": "closes the connection when Textual says so",
    "jobconsole/tui/base/undo.py:Remembered.add": "names what the change of a list means",
    "jobconsole/tui/screens/events.py:EventsView.flush": "each view has other panes that follow events",
    "jobconsole/tui/screens/frame.py:Frame.forget_way": "names what the change of a list means",
    "jobconsole/tui/screens/view.py:View.do_filter": "the action of a key",
}
NO_PARENTS = frozenset({"Generic", "Protocol", "NamedTuple"})
"""Bases that bring no behaviour of another class."""


def console() -> list[Source]:
    return [source for source in sources() if source.name.startswith("jobconsole/")]


def classes(source: Source) -> Iterator[ast.ClassDef]:
    return (node for node in ast.walk(source.tree) if isinstance(node, ast.ClassDef))


def passes_on(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a method is one call on a part of its object, with exactly its own parameters."""
    body = [one for one in function.body if not (isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant))]
    if function.decorator_list or function.args.vararg or function.args.kwarg or len(body) != 1:
        return False
    call = body[0].value if isinstance(body[0], ast.Return | ast.Expr) else None
    call = call.value if isinstance(call, ast.Await) else call
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return False
    part = call.func.value
    if not (isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name) and part.value.id == "self"):
        return False
    own = [one.arg for one in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)][1:]
    return own == [ast.unparse(value) for value in (*call.args, *(keyword.value for keyword in call.keywords))]


def test_no_method_only_passes_on() -> None:
    found = {
        f"{source.name}:{owner.name}.{function.name}"
        for source in console()
        for owner in classes(source)
        for function in owner.body
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) and passes_on(function)
    }
    assert sorted(found - set(PASSES_ON)) == [], "call the part instead"
    assert sorted(set(PASSES_ON) - found) == [], "these exceptions are not needed any more"


def test_no_module_only_passes_on() -> None:
    found = [
        source.name
        for source in console()
        if not source.name.endswith("__init__.py")
        and all(isinstance(node, ast.Import | ast.ImportFrom | ast.Expr) for node in source.tree.body)
    ]
    assert found == []


def test_no_class_mixes_others_in() -> None:
    found = {
        f"{source.name}:{owner.name}": parents
        for source in console()
        for owner in classes(source)
        if len(parents := [base for base in map(name_of, owner.bases) if base not in NO_PARENTS]) > 1
    }
    assert found == {}


def name_of(base: ast.expr) -> str:
    return ast.unparse(base).partition("[")[0].rpartition(".")[2]
