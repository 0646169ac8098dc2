"""The promises hold in every state of the model, and each rule of the store is needed for one of them."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import pytest

from tests.model.explore import explore
from tests.model.model import Jobs, Rules, Step
from tests.model.survey import survey

COUNTEREXAMPLES = Path(__file__).with_name("counterexamples.txt")
"""The shortest way to what breaks where a rule is left out."""
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


SURVEYED = {
    "faults": (Jobs(), 2, 0, 12_843),
    "fails": (ONE_FAILS, 1, 1, 11_034),
    "waits": (ONE_WAITS, 1, 1, 9_452),
}


@pytest.mark.parametrize(("jobs", "faults", "changes", "states"), SURVEYED.values(), ids=SURVEYED)
def test_every_promise_holds(jobs: Jobs, faults: int, changes: int, states: int) -> None:
    """With three faults it takes half an hour and more: python -m tests.model."""
    assert survey(jobs, faults, changes) == (states, "", None)


def test_a_survey_visits_what_exploring_visits() -> None:
    found = explore(ONE_FAILS, 1, 0)
    assert (found.states, found.broken) == survey(ONE_FAILS, 1, 0)[:2]


@pytest.mark.parametrize("rule", [field.name for field in fields(Rules)])
def test_a_survey_finds_what_is_broken(rule: str) -> None:
    jobs, faults, changes, _ = NEEDED[rule]
    assert survey(jobs, faults, changes, replace(Rules(), **{rule: False})).broken


@pytest.mark.parametrize("rule", [field.name for field in fields(Rules)])
def test_each_rule_is_needed(rule: str) -> None:
    jobs, faults, changes, broken = NEEDED[rule]
    found = explore(jobs, faults, changes, replace(Rules(), **{rule: False}))
    assert found.broken == broken
    assert kept()[rule] == [found.broken, *map(text_of, found.steps)]


def kept() -> dict[str, list[str]]:
    """Return the counterexamples by the rules that are left out: what breaks, and the steps to it."""
    found: dict[str, list[str]] = {}
    for block in COUNTEREXAMPLES.read_text(encoding="utf-8").strip().split("\n\n"):
        rule, _, broken = block.partition(": ")
        found[rule.removeprefix("without ")] = [line.strip() for line in broken.splitlines()]
    return found


def text_of(step: Step) -> str:
    """Return a step as one line: who does what to which job, and what comes of it."""
    parts = [
        f"worker {step.worker + 1}" if step.worker is not None else "",
        step.name,
        f"job {step.job + 1}" if step.job is not None else "",
        f"({step.what})" if step.what else "",
        f"attempt {step.attempt}" if step.attempt else "",
        {True: "accepted", False: "refused", None: ""}[step.accepted],
    ]
    return " ".join(filter(None, parts))
