"""Verdicts on retried jobs: when an operation goes on, waits or is stopped, at each bound and on both sides of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from queue_core.client.operating.verdict import MIN_OUTCOMES, judge, reason
from queue_core.model import operation
from queue_core.model.operation import Author, Operation, OperationRequest, Outcomes, Rollout

TOTAL = 100


def running(rollout: Rollout, done: int) -> Operation:
    """Return an operation in its first step, behind so many of its members."""
    asked = OperationRequest("retry", "all", Author("anna", "ops-1"), rollout=rollout)
    record = operation.add(operation.begin(1, asked, 0.0), TOTAL, 0.0)
    assert record is not None
    record = operation.move(record, "running", "", 0.0)
    assert record is not None
    return replace(record.view, done=done, processed=done)


@pytest.mark.parametrize(
    ("percent", "done", "outcomes", "verdict"),
    [
        (20.0, 10, Outcomes(looked=10, completed=8, dead=2, unfinished=0), "go"),
        (20.0, 10, Outcomes(looked=10, completed=7, dead=3, unfinished=0), "stop"),
        (20.0, 10, Outcomes(looked=10, completed=6, dead=2, unfinished=2), "wait"),
        (20.0, 10, Outcomes(looked=10, completed=8, dead=1, unfinished=1), "go"),
        (20.0, 5, Outcomes(looked=5, completed=3, dead=2, unfinished=0), "go"),
        (20.0, 5, Outcomes(looked=5, completed=2, dead=3, unfinished=0), "stop"),
        (None, 10, Outcomes(looked=10, completed=0, dead=10, unfinished=0), "go"),
        (None, 10, Outcomes(looked=10, completed=5, dead=0, unfinished=5), "wait"),
    ],
)
def test_of_a_canary_all_count(percent: float | None, done: int, outcomes: Outcomes, verdict: str) -> None:
    """Of one that is not done, so many may be changed in the end."""
    assert judge(running(Rollout(canary=10, stop_percent=percent), done), outcomes) == verdict


@pytest.mark.parametrize(
    ("percent", "outcomes", "verdict"),
    [
        (20.0, Outcomes(looked=0, completed=0, dead=0, unfinished=0), "stop"),
        (20.0, Outcomes(looked=10, completed=0, dead=0, unfinished=0), "stop"),
        (20.0, Outcomes(looked=10, completed=1, dead=0, unfinished=0), "go"),
        (20.0, Outcomes(looked=10, completed=4, dead=1, unfinished=0), "go"),
        (20.0, Outcomes(looked=10, completed=3, dead=1, unfinished=0), "stop"),
        (100.0, Outcomes(looked=10, completed=0, dead=0, unfinished=10), "wait"),
        (100.0, Outcomes(looked=10, completed=0, dead=1, unfinished=0), "go"),
        (None, Outcomes(looked=10, completed=0, dead=0, unfinished=0), "go"),
    ],
)
def test_of_a_canary_those_that_were_cancelled_or_are_gone_show_nothing(
    percent: float | None, outcomes: Outcomes, verdict: str
) -> None:
    assert judge(running(Rollout(canary=10, stop_percent=percent), 10), outcomes) == verdict


@pytest.mark.parametrize(
    ("outcomes", "sentence"),
    [
        (Outcomes(10, 0, 0, 0), "none of the 10 canary jobs completed or died: they were cancelled or are gone"),
        (Outcomes(10, 3, 1, 0), "1 of 4 canary jobs died again"),
    ],
)
def test_the_reason_counts_those_that_the_verdict_counts(outcomes: Outcomes, sentence: str) -> None:
    assert reason(running(Rollout(canary=10, stop_percent=20.0), 10), outcomes) == sentence


@pytest.mark.parametrize(
    ("percent", "outcomes", "verdict"),
    [
        (0.0, Outcomes(looked=10, completed=8, dead=0, unfinished=2, retrying=1), "stop"),
        (0.0, Outcomes(looked=10, completed=9, dead=0, unfinished=1, recovered=1), "stop"),
        (10.0, Outcomes(looked=10, completed=9, dead=0, unfinished=1, retrying=1), "go"),
        (None, Outcomes(looked=10, completed=5, dead=0, unfinished=5, retrying=5), "go"),
        (None, Outcomes(looked=10, completed=5, dead=0, unfinished=5, retrying=4), "wait"),
    ],
)
def test_of_first_attempts_each_that_failed_counts(percent: float | None, outcomes: Outcomes, verdict: str) -> None:
    rollout = Rollout(canary=10, stop_percent=percent, first_failure=True)
    assert judge(running(rollout, 10), outcomes) == verdict


@pytest.mark.parametrize(
    ("outcomes", "verdict"),
    [
        (Outcomes(looked=MIN_OUTCOMES - 1, completed=0, dead=MIN_OUTCOMES - 1, unfinished=0), "go"),
        (Outcomes(looked=MIN_OUTCOMES, completed=MIN_OUTCOMES - 3, dead=3, unfinished=0), "stop"),
        (Outcomes(looked=MIN_OUTCOMES, completed=MIN_OUTCOMES - 2, dead=2, unfinished=0), "go"),
        (Outcomes(looked=MIN_OUTCOMES + 10, completed=MIN_OUTCOMES - 3, dead=3, unfinished=10), "stop"),
        (Outcomes(looked=MIN_OUTCOMES + 10, completed=MIN_OUTCOMES - 4, dead=3, unfinished=11), "go"),
    ],
)
def test_behind_it_enough_have_to_be_known(outcomes: Outcomes, verdict: str) -> None:
    assert judge(running(Rollout(stop_percent=10.0), TOTAL // 2), outcomes) == verdict
