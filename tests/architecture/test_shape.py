"""Objects are made of parts that they hold: no method or module only passes on, no class mixes others in."""

import ast
import builtins
from collections.abc import Iterator, Mapping

from tests.architecture.sources import Source, sources

# "file:Class.method" → why it may hand on its own parameters. One that is no longer needed fails the test too.
PASSES_ON: Mapping[str, str] = {
    "jobconsole/tui/base/cursor.py:TableCursor.expect_gone": "names what the change of a set means",
    "jobconsole/tui/base/cursor.py:TableCursor.expect_stay": "names what the change of a set means",
    "jobconsole/tui/screens/events.py:EventsView.flush": "each view has other panes that follow events",
    "jobconsole/tui/screens/frame.py:ViewFrame.forget_visited": "names what the change of a list means",
    "jobconsole/tui/screens/view.py:View.do_filter": "the action of a key",
    "queue_core/client/operations.py:Operations.get": "the public face of operations",
    "queue_core/client/operations.py:Operations.outcomes": "the public face of operations",
    "queue_core/delivery/redis_events.py:RedisEventBus.watch": "one connection watches for all waiters",
    "queue_core/integrations/pytest_plugin.py:InlineJobs.advance": "the public face of tests",
    "queue_core/integrations/pytest_plugin.py:InlineJobs.run_due": "the public face of tests",
    "queue_core/ports/backend.py:Backend.open": "names the one part that is opened; all are closed",
    "queue_core/delivery/redis_events.py:RedisEventBus.report_gap": "the part keeps them until the server is there",
    "queue_core/stores/postgres/session/queue_ids.py:QueueIds.remember": "names what the change of a dictionary means",
    "queue_core/stores/postgres/session/listening.py:Notifications.on_gap": "names what the change of a list means",
    "queue_core/stores/postgres/store.py:PostgresStore.committed": "the part keeps what was notified between calls",
    "queue_core/stores/postgres/store.py:PostgresStore.prepare": "the part keeps the queues' numbers between calls",
    "queue_core/stores/postgres/store.py:PostgresStore.prepare_history": "the part keeps its rounds between calls",
    "queue_core/stores/postgres/store.py:PostgresStore.transaction": "the part keeps connections between calls",
    "queue_core/stores/postgres/store.py:PostgresStore.upkeep": "the part keeps its rounds between calls",
    "queue_core/stores/redis/operations/store.py:RedisOperations.step": "the part keeps hints between calls",
    "queue_core/stores/redis/store.py:RedisStore.part_of": "the part knows the nodes of a cluster",
    "queue_core/stores/redis/store.py:RedisStore.claim": "the part keeps unanswered claims between calls",
    "queue_core/stores/redis/store.py:RedisStore.filter_claimable": "the part of claims",
    "queue_core/stores/redis/store.py:RedisStore.list_claimable": "the part of claims",
    "queue_core/stores/redis/store.py:RedisStore.hears": "the part keeps when messages arrived between calls",
    "queue_core/stores/redis/store.py:RedisStore.acquire_leadership": "the part keeps who leads between calls",
    "queue_core/stores/redis/store.py:RedisStore.next_work": "the part keeps what hints say between calls",
    "queue_core/stores/redis/store.py:RedisStore.offers": "the part keeps the names of queues between calls",
    "queue_core/stores/redis/store.py:RedisStore.open": "checks what is stored",
    "queue_core/stores/redis/store.py:RedisStore.queues": "the part keeps which queues are paused between calls",
    "queue_core/stores/redis/store.py:RedisStore.ready_queues": "the part keeps which queues are ready between calls",
    "queue_core/stores/sqlite/session.py:SqliteFile.close_inspections": "closes one of its connections",
    "queue_core/stores/sqlite/store.py:SqliteStore.open": "checks what is stored",
    "queue_core/stores/sqlite/store.py:SqliteStore.upkeep": "the part keeps its rounds between calls",
    "queue_core/worker/attempt.py:Watchdog.stop": "names what the change of an event means",
    "queue_core/worker/children/child.py:ReportingAttempt.log": "the attempt that a handler sees",
    "queue_core/worker/fetcher.py:Fetcher.pause_claims": "names what the change of an event means",
    "queue_core/worker/fetcher.py:Fetcher.resume": "names what the change of an event means",
    "queue_core/worker/heartbeat.py:Heartbeat.hand_back": "names what the change of an event means",
    "queue_core/worker/worker.py:Worker.drop": "the worker listens to its heartbeat",
    "queue_core/worker/worker.py:Worker.release": "the worker listens to its heartbeat",
    "queue_core/worker/worker.py:Worker.stop_jobs": "the worker listens to its heartbeat",
}
EXEMPT = frozenset({"JobQueue"})
"""The public face: it names its parts' methods."""
MIXES: Mapping[str, str] = {
    "jobconsole/tui/sheets/move.py:MoveSheet": "asks for a queue, as a drain does, and has a plan, as a drain has not",
    "queue_core/queue.py:JobQueue": "beside its `list` no annotation can name the built-in one",
    "queue_core/redis/client.py:_FollowingTcp": "one behaviour for each kind of connection that the driver has",
    "queue_core/redis/client.py:_FollowingTls": "one behaviour for each kind of connection that the driver has",
    "queue_core/redis/client.py:_Tcp": "one behaviour for each kind of connection that the driver has",
    "queue_core/redis/client.py:_Tls": "one behaviour for each kind of connection that the driver has",
    "queue_core/redis/client.py:_Unix": "one behaviour for each kind of connection that the driver has",
}
"""Classes with several parents, and why."""
NO_PARENTS = frozenset({"Generic", "Protocol", "NamedTuple"})
"""Bases that bring no behaviour of another class."""


def classes(source: Source) -> Iterator[ast.ClassDef]:
    return (node for node in ast.walk(source.tree) if isinstance(node, ast.ClassDef))


def passes_on(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a method is one call on a part of its object, with exactly its own parameters. To close it is none."""
    if function.name == "close":
        return False
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
        for source in sources()
        for owner in classes(source)
        for function in owner.body
        if owner.name not in EXEMPT
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) and passes_on(function)
    }
    assert sorted(found - set(PASSES_ON)) == [], "call the part instead"
    assert sorted(set(PASSES_ON) - found) == [], "these exceptions are not needed any more"


def test_no_module_only_passes_on() -> None:
    found = [
        source.name
        for source in sources()
        if not source.name.endswith("__init__.py")
        and all(isinstance(node, ast.Import | ast.ImportFrom | ast.Expr) for node in source.tree.body)
    ]
    assert found == []


def test_no_class_mixes_others_in() -> None:
    found = {
        f"{source.name}:{owner.name}"
        for source in sources()
        for owner in classes(source)
        if len([base for base in map(name_of, owner.bases) if base not in NO_PARENTS and not is_error(base)]) > 1
    }
    assert sorted(found - set(MIXES)) == [], "hold a part instead"
    assert sorted(set(MIXES) - found) == [], "these exceptions are not needed any more"


def is_error(name: str) -> bool:
    """Whether a name is a built-in exception, which an error of ours may be as well."""
    known = getattr(builtins, name, None)
    return isinstance(known, type) and issubclass(known, Exception)


def name_of(base: ast.expr) -> str:
    return ast.unparse(base).partition("[")[0].rpartition(".")[2]


def test_implementations_repeat_no_docstring_of_their_protocol() -> None:
    described: dict[str, list[set[str]]] = {}
    for source, _, method, docstring in methods():
        if source.name.startswith("queue_core/ports/"):
            described.setdefault(method, []).append(set(docstring.splitlines()))
    found = [
        f"{source.name}:{owner}.{method}"
        for source, owner, method, docstring in methods()
        if source.name.startswith(("queue_core/stores/", "queue_core/delivery/"))
        if any(set(docstring.splitlines()) <= lines for lines in described.get(method, ()))
    ]
    assert found == [], "the protocol describes what a method does"


def methods() -> Iterator[tuple[Source, str, str, str]]:
    """Yield each method that has a docstring: its file, class, name, and docstring."""
    for source in sources():
        for owner in classes(source):
            for function in owner.body:
                if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                    continue
                if docstring := ast.get_docstring(function):
                    yield source, owner.name, function.name, docstring
