"""Words that have no place in the sources."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT, files

# What names the console nevertheless, and why: file → the words themselves and the reason.
OF_THE_CONSOLE: Mapping[str, tuple[str, str]] = {
    "queue_core/integrations/sentry.py": ('LINK = "jobconsole://"', "a report links to the job in the console"),
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


def test_plain_english() -> None:
    """In docstrings, comments, names, SQL, Lua and documents."""
    found = {
        path.relative_to(ROOT).as_posix(): sorted(words)
        for path, text in _texts()
        if (words := {one.group() for one in FORBIDDEN.finditer(text)})
    }
    assert found == {}, "name what acts and what is stored instead"


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
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value.value
    yield from _names(tree)


def _names(tree: ast.AST) -> Iterator[str]:
    """Yield the names that a file defines: functions, classes, parameters, variables and attributes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr


# Modules whose names end like a gerund all the same, and why; all others are nouns, or verbs of the ports.
GERUNDS: Mapping[str, str] = {
    "jobconsole/core/listing.py": "a listing is a thing: the jobs of a filter",
    "jobconsole/core/running.py": "the running jobs: an adjective of the field",
    "jobconsole/exporter/reading.py": "a reading is a thing: what was read for one scrape",
    "queue_core/delivery/pairing.py": "a pairing is a thing: a Redis and the database that it belongs to",
    "queue_core/stores/postgres/ordering.py": "ordering keys: a word of the field",
    "queue_core/stores/postgres/session/listening.py": "LISTEN: the server's own word",
    "queue_core/stores/sqlite/ordering.py": "ordering keys: a word of the field",
    "queue_core/testing.py": "a documented name",
}


def test_no_module_is_a_gerund() -> None:
    found = {name for name, _ in files(".py") if name.endswith("ing.py") and name.startswith(PACKAGES)}
    assert found == set(GERUNDS)


PACKAGES = ("queue_core/", "jobconsole/")

# Names that were given up, and the names that replaced them.
RETIRED: Mapping[str, str] = {
    "AS_IT_WAS": "UNCHANGED",
    "Announcer": "EventPublisher",
    "AtOnce": "ImmediateActions",
    "Audit": "DeliveryAudit, OperationPages",
    "Beat": "LeaseRenewal",
    "BeatReply": "HeartbeatReply",
    "Board": "StableRows",
    "Claiming": "PostgresClaims, RedisClaims",
    "Enqueueing": "Enqueuer",
    "Final": "JobResult",
    "Forgetting": "LogRemoval, OperationRemoval",
    "Found": "TargetRow",
    "Frame": "FrameName, StackFrame, ViewFrame",
    "Gate": "OrderingLock, OrderingKey",
    "GateKeeper": "StalledKeys",
    "Gates": "MemoryOrderingLocks, LockedKeys, SqliteOrderingLocks",
    "Heart": "StoreHeartbeat",
    "Held": "RunningRow",
    "Hints": "QueueHints, DueHints",
    "Inserting": "RedisInserts, SqliteInserts",
    "Kept": "PairingRecord, StoredOperation",
    "Lane": "SerialRunner, SqliteThread",
    "Loaded": "LoadedSettings, ConsoleConfiguration, DetailData",
    "Moment": "RenderContext",
    "NewOperation": "OperationRequest",
    "News": "PostgresSignals, RedisSignals, FileChanges",
    "Numbers": "QueueIds",
    "Opened": "Unblocked",
    "Pair": "RowChange",
    "Part": "QueueBatch",
    "Placed": "InsertRow",
    "Pool": "ConnectionPool",
    "Producing": "PostgresInserts",
    "Rates": "RateMeter",
    "Record": "QueueHistory, DeliveryRecord",
    "Seen": "JobState, WatchState",
    "Selection": "JobSelection, TableCursor",
    "Sieve": "FilterScan",
    "Sight": "DetailState",
    "Standing": "Availability",
    "Step": "StepResult",
    "Stepping": "OperationSteps",
    "Stream": "SetCursor",
    "Subject": "DetailSubject",
    "Surroundings": "ExecutionContext, ContextInfo",
    "Tail": "EventTail, RunFacts",
    "Taken": "Nomination, DueQueues",
    "Tallying": "TallyWriter",
    "Telling": "CreationEffects",
    "Totals": "SnapshotTotals, MemoryTallies",
    "Turn": "Position",
    "Turns": "Positions",
    "Underway": "ActiveOperations",
    "Wanted": "KeyRequest, RoomRequest, SnapshotNeeds, ServerNeeds",
    "Way": "ChangeOptions",
    "Wish": "ExportOptions",
    "WorkerBeat": "HeartbeatRequest",
    "claimable": "filter_claimable",
    "default_pace": "default_rollout",
    "err": "fail_member",
    "finals": "results",
    "lacking": "missing",
    "let_go": "release_key",
    "make_room": "prepare_history",
    "minutes_tell": "counts_by_minute",
    "open_gates": "unblock_next",
    "rehearse": "dry_run",
    "standing": "rank_of, availability",
    "thrifty": "compress_styles",
}

# Words that were given up in names of any kind, also as a part of them, and what is meant.
RETIRED_WORDS: Mapping[str, str] = {
    "announcer": "publisher",
    "asking": "claiming, check, request",
    "beat": "heartbeat, renewal, request",
    "beating": "renewing",
    "beats": "renewals",
    "begun": "started",
    "enqueueing": "enqueuer",
    "gate": "key, lock",
    "gated": "limited, blocked, with_keys",
    "gates": "keys, locks",
    "heart": "heartbeat",
    "lane": "runner, thread",
    "lanes": "runners, threads",
    "look": "poll, scan, read, check, show",
    "looks": "polls, scans, reads, checks",
    "news": "notifications, signals",
    "noting": "recording",
    "producing": "inserter",
    "sieve": "scan",
    "standing": "availability, rank_of",
    "surroundings": "context",
    "thrift": "compression",
    "unbegun": "unstarted",
    "underway": "active",
    "untold": "unreported",
    "way": "options, route",
    "wish": "options",
}


def test_retired_words_do_not_come_back() -> None:
    """In names of modules, functions, classes, parameters, variables and attributes."""
    found = {
        f"{path}: {name}": {word: RETIRED_WORDS[word] for word in words}
        for path, text in files(".py")
        if path.startswith(PACKAGES)
        for name in (Path(path).stem, *_names(ast.parse(text)))
        if (words := RETIRED_WORDS.keys() & set(name.lower().split("_")))
    }
    assert found == {}, "a better word is known"


def _definitions(node: ast.AST, outer: str = "") -> Iterator[tuple[str, ast.AST]]:
    """Yield each class and function with its name, behind those of the classes that it is in."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef):
            yield outer + child.name, child
            yield from _definitions(child, f"{outer}{child.name}.")
        else:
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                yield outer + child.name, child
            yield from _definitions(child, outer)


def test_class_names_are_unique() -> None:
    """A class is known by its name alone, in both packages; one inside another by both names."""
    homes: dict[str, list[str]] = {}
    for path, text in files(".py"):
        for name, node in _definitions(ast.parse(text)) if path.startswith(PACKAGES) else ():
            if isinstance(node, ast.ClassDef):
                homes.setdefault(name, []).append(path)
    assert {name: where for name, where in homes.items() if len(where) > 1} == {}


def test_retired_names_do_not_come_back() -> None:
    found = {
        f"{path}: {name}": RETIRED[name.rpartition(".")[2]]
        for path, text in files(".py")
        if path.startswith(PACKAGES)
        for name, _ in _definitions(ast.parse(text))
        if name.rpartition(".")[2] in RETIRED
    }
    assert found == {}, "a better name is known"


@pytest.mark.parametrize(("text", "count"), [
    ("def tell(): ...", 1), ("whom_it_told = 1", 1), ('"Says it."', 1), ("x = 'said'", 0), ("# standing", 0),
    ("self._told = 1", 1), ("a.says: int = 1", 1), ("print(a.says)", 0),
])  # fmt: skip
def test_what_counts(text: str, count: int) -> None:
    assert len(FORBIDDEN.findall("\n".join(_words(text + "\n")))) == count
