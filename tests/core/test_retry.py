"""How long failed attempts wait, by the policy of their task, of single exceptions, or after a crash."""

from __future__ import annotations

from typing import Any

import pytest

from queue_core.errors import ConfigurationError
from queue_core.model.job import Claim, Failure
from queue_core.model.outcome import crashed
from queue_core.model.retry import Policy, Retry
from queue_core.model.settings import Defaults
from queue_core.model.validation import MAX_DELAY_SECONDS

CRASH = Failure("poison", "ProcessDied", "exit code 1", "", "0123456789ab", "ProcessDied: exit code 1")


def policy(**given: Any) -> Policy:
    fields = {"max_retries": 3, "delay": 10.0, "backoff": 2.0, "cap": 100.0, "jitter": 0.0}
    return Retry(**fields | given).resolved(Defaults())


def claim(retry_count: int) -> Claim:
    return Claim("a", 7, "work", "task", "{}", 5, 1, retry_count, 3, 0, 0.0, ())


def test_each_wait_is_a_multiple_of_the_one_before_up_to_the_cap() -> None:
    assert [policy().wait(number) for number in range(6)] == [10.0, 20.0, 40.0, 80.0, 100.0, 100.0]
    assert [policy(backoff=1.0).wait(number) for number in range(3)] == [10.0] * 3
    assert [policy(delay=0).wait(number) for number in range(3)] == [0.0] * 3


def test_a_wait_beyond_all_numbers_is_the_cap() -> None:
    assert policy().wait(100_000) == 100.0
    assert policy(backoff=3.5, cap=MAX_DELAY_SECONDS).wait(100_000) == MAX_DELAY_SECONDS


def test_chance_shortens_a_wait_by_its_part_at_most() -> None:
    waits = [policy(jitter=0.4).wait(1) for _ in range(500)]
    assert 12.0 <= min(waits) < 14.0
    assert 18.0 < max(waits) <= 20.0


def test_the_policy_of_an_exception_takes_what_it_leaves_open_from_its_task() -> None:
    own = policy(jitter=0.3, on={OSError: Retry(max_retries=7)}).of(ConnectionResetError())
    assert (own.max_retries, own.delay, own.factor, own.cap, own.jitter) == (7, 10.0, 2.0, 100.0, 0.3)
    given = Retry(delay=1.0, backoff=1.5, cap=5.0, jitter=0.1)
    own = policy(jitter=0.3, on={OSError: given}).of(OSError())
    assert (own.max_retries, own.delay, own.factor, own.cap, own.jitter) == (3, 1.0, 1.5, 5.0, 0.1)


@pytest.mark.parametrize("turned", [False, True])
def test_the_policy_of_the_nearest_class_counts_in_whatever_order_they_are_given(turned: bool) -> None:
    given = [(OSError, Retry(delay=1.0)), (ConnectionError, Retry(delay=2.0))]
    found = policy(on=dict(reversed(given) if turned else given))
    assert found.of(ConnectionResetError()).delay == 2.0
    assert found.of(FileNotFoundError()).delay == 1.0
    assert found.of(KeyError()) is found


@pytest.mark.parametrize("given", [{"backoff": 0.9}, {"jitter": 1.1}, {"jitter": -0.1}])
def test_what_is_out_of_its_range_is_refused(given: dict[str, float]) -> None:
    with pytest.raises(ConfigurationError, match="backoff is at least 1, jitter from 0 to 1"):
        policy(**given)


def test_a_crash_waits_as_a_failure_does_and_buries_with_the_last_retry() -> None:
    found = [crashed(claim(number), 5, CRASH, policy()) for number in range(5)]
    assert [(one.kind, one.delay) for one in found[:3]] == [("retrying", 10.0), ("retrying", 20.0), ("retrying", 40.0)]
    assert [one.kind for one in found[3:]] == ["dead", "dead"]
