"""The conformance suite calls each method of each port, and so in each mode."""

import ast
from collections.abc import Iterator

import pytest

from tests.architecture.sources import ROOT

# What the suite reaches through others alone: method → who calls it there.
THROUGH = {
    "JobStore.prepare_history": "each worker that starts",
    "OperationStore.abandon": "each round of an executor",
}
# Ports that some modes do not have: their tests are beside those stores.
PARTIAL = {
    "AnnouncingDispatcher",
    "NotifyingStore",
    "NotificationHealth",
    "JobParts",
    "JoiningStore",
    "LockingStore",
    "OfferingStore",
    "PartedStore",
    "ReplicatedStore",
    "RestoringStore",
    "StreamingStore",
    "TransactionalStore",
    "WritingDispatcher",
}


def methods_of_ports() -> Iterator[str]:
    for path in sorted((ROOT / "queue_core" / "ports").glob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if not isinstance(node, ast.ClassDef) or node.name in PARTIAL:
                continue
            if any("Protocol" in ast.unparse(base) for base in node.bases):
                for one in node.body:
                    if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef):
                        yield f"{node.name}.{one.name}"


def called() -> set[str]:
    return {
        node.attr
        for path in (ROOT / "tests" / "conformance").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute)
    }


@pytest.fixture(scope="module")
def names() -> set[str]:
    return called()


@pytest.mark.parametrize("method", list(methods_of_ports()))
def test_each_method_is_called(method: str, names: set[str]) -> None:
    assert (method.rpartition(".")[2] in names) != (method in THROUGH)
