"""Random faults in small, and the names of those that have one; `python -m tests.faults` goes on for any time."""

from __future__ import annotations

import ast
import time

import pytest

from tests.architecture.sources import ROOT
from tests.faults.catalogue import CATALOGUE, find
from tests.faults.chaos.run import Plan, run
from tests.faults.chaos.strikes import EVERY, STRIKES
from tests.faults.chaos.table import lines_of
from tests.faults.chaos.verdict import Fault, judge, most_at_once
from tests.faults.ledger import Ledger, Run
from tests.faults.plant import LONG, SEED

SECONDS = 120.0 if LONG else 7.0


@pytest.mark.timeout(600)
@pytest.mark.parametrize("mode", ["postgres+redis", "sqlite"])
async def test_nothing_is_lost_and_every_further_run_is_explained(mode: str) -> None:
    plan = Plan(mode, minutes=SECONDS / 60, seed=SEED, baseline=2.0, small=True)
    outcome = await run(plan, lambda _: None)
    print("\n".join(lines_of(outcome)))  # noqa: T201  what faults cost is the result
    assert outcome.verdict.problems == []
    assert outcome.faults
    assert outcome.verdict.acknowledged > 50


def test_thirty_have_a_name() -> None:
    assert len(CATALOGUE) == 30
    assert len({known.name for known in CATALOGUE}) == 30
    assert find("30") is find("rules-under-faults")
    assert {strike for known in CATALOGUE for strike in known.strikes} == STRIKES.keys() - {"freeze producer"}


def test_each_name_has_tests_that_are_there() -> None:
    for test in {test for known in CATALOGUE for test in known.tests}:
        path, _, name = test.partition("::")
        tree = ast.parse((ROOT / "tests" / path).read_text(encoding="utf-8"))
        names = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
        assert name in names or not name, test


def further_run(fault: Fault | None) -> list[str]:
    """Judge a job that ran a second time on another worker; return what is not explained."""
    ledger = Ledger(units={1: "worker1", 2: "worker2"})
    ledger.starts += [Run("a", 1, 1, 100.0), Run("a", 2, 2, 104.0)]
    return judge(ledger, [], dict.fromkeys(("completed", "dead", "cancelled"), 0), [fault] if fault else []).unexplained


def test_a_further_run_needs_a_fault_that_hit_its_worker() -> None:
    assert len(further_run(None)) == 1
    assert further_run(Fault("kill", 101.0, 101.0, frozenset({"worker1"}))) == []
    assert further_run(Fault("kill", 101.0, 101.0, EVERY)) == []
    assert len(further_run(Fault("kill", 101.0, 101.0, frozenset({"worker2"})))) == 1
    assert len(further_run(Fault("kill", 60.0, 90.0, EVERY))) == 1, "it was over for more than a lease"
    assert len(further_run(Fault("kill", 105.0, 106.0, EVERY))) == 1, "it came later"


def test_what_is_lost_is_seen() -> None:
    ledger = Ledger(batches={"lone-1-1": (1, time.monotonic())}, enqueued={"lone-1-1": ["a"]})
    verdict = judge(ledger, [], dict.fromkeys(("completed", "dead", "cancelled"), 0), [])
    assert verdict.lost == {"a"}
    assert verdict.problems


def test_spans_that_overlap_are_counted() -> None:
    assert most_at_once([(0, 2), (1, 3), (2, 4)]) == 2
    assert most_at_once([]) == 0
