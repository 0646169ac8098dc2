"""The promises hold in every state of the model, and each rule of the store is needed for one of them."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from tests.model.explore import explore
from tests.model.model import Jobs, Rules

ONE_FAILS = Jobs(fails=(True, False))
ONE_WAITS = Jobs(waits=(True, False))

NEEDED = {
    "fence": (Jobs(), 1, 0, "a stale write landed"),
    "epoch": (Jobs(), 1, 0, "a stale write landed"),
    "audit": (Jobs(), 1, 0, "a job never ends"),
    "durable_insert": (Jobs(), 1, 0, "an acknowledged job is lost"),
    "durable_settle": (Jobs(), 1, 0, "a job that has ended runs again"),
    "asks": (Jobs(), 1, 0, "a job that has ended runs again"),
    "repeats": (Jobs(), 1, 0, "an outcome that landed is refused"),
    "waiting": (ONE_WAITS, 1, 0, "a job was blamed that had not begun"),
    "cancel_wins": (ONE_FAILS, 1, 1, "a job that was cancelled runs again"),
}
"""Rule: what it takes to show that without it something is broken, and what."""


EXPLORED = {"faults": (Jobs(), 2, 0), "fails": (ONE_FAILS, 1, 1), "waits": (ONE_WAITS, 1, 1)}


@pytest.mark.parametrize(("jobs", "faults", "changes"), EXPLORED.values(), ids=EXPLORED)
def test_every_promise_holds(jobs: Jobs, faults: int, changes: int) -> None:
    """With three faults it takes minutes to hours: python -m tests.model."""
    found = explore(jobs, faults, changes)
    assert found.broken == "", found.steps
    assert found.states > 5_000


@pytest.mark.parametrize("rule", [field.name for field in fields(Rules)])
def test_each_rule_is_needed(rule: str) -> None:
    jobs, faults, changes, broken = NEEDED[rule]
    found = explore(jobs, faults, changes, replace(Rules(), **{rule: False}))
    assert found.broken == broken
    assert found.steps
