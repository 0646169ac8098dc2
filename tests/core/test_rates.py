"""What a rate lets be claimed: jobs may wait for slots of their worker, and no more start than it allows."""

from __future__ import annotations

from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st

from queue_core.model.rules import AHEAD_SECONDS, QueueRules, Room, allowance, parse_rate

RATE = 20.0
CLAIMS = st.lists(
    st.tuples(
        # seconds since the claim before, jobs, of which so many begin at once, seconds that the others wait
        st.floats(0.0, 1.5),
        st.integers(1, 40),
        st.integers(0, 40),
        st.floats(0.0, AHEAD_SECONDS),
    ),
    min_size=1,
    max_size=30,
)


@given(CLAIMS)
def test_no_more_start_in_any_time_than_a_rate_allows(claims: list[tuple[float, int, int, float]]) -> None:
    rules = QueueRules.model_validate({"rate": f"{RATE:g}/s"})
    tokens, starts = rules.burst(), list[float]()
    times = accumulate(passed for passed, *_ in claims)
    for now, (passed, most, starting, wait) in zip(times, claims, strict=True):
        allowed = allowance(rules, Room(most, starting), 0, tokens, passed)
        assert allowed.starting <= allowed.most
        starts += [now] * allowed.starting + [now + wait] * (allowed.most - allowed.starting)
        tokens = allowed.left(allowed.most)
    starts.sort()
    for first, began in enumerate(starts):
        for last in range(first, len(starts)):
            assert last - first + 1 <= rules.burst() + RATE * (starts[last] - began) + 1e-6


def test_a_rate_far_from_reached_costs_no_wait() -> None:
    rules = QueueRules.model_validate({"rate": "10000/s"})
    assert allowance(rules, Room(500, 10), 0, rules.burst(), 0.0).most == 500


def test_with_a_concurrency_all_of_a_claim_begins_at_once() -> None:
    rules = QueueRules.model_validate({"rate": "10000/s", "concurrency": 50})
    assert allowance(rules, Room(500, 10), 0, rules.burst(), 0.0)[:2] == (10, 10)
    assert allowance(rules, Room(500, 100), 45, rules.burst(), 0.0)[:2] == (5, 5)


def test_a_rate_is_in_starts_a_second() -> None:
    assert [parse_rate(text) for text in ("100/s", "90/m", "1800/h", "43200/d", 2.5)] == [100, 1.5, 0.5, 0.5, 2.5]


def test_a_key_is_that_of_a_shard_only_where_there_is_one_of_its_number() -> None:
    """A job that is made like another one hands in the key that this was stored with."""
    rules = QueueRules(shards=4)
    keys = {rules.key_of(f"customer-{number}") for number in range(100)}
    assert keys == {f"shard-{number}" for number in range(4)}
    assert {rules.key_of(key) for key in keys} == keys
    assert {rules.key_of(key) for key in ("shard-4", "shard-999", "shard-x", "shard-")} <= keys
    assert (QueueRules().key_of("shard-4"), rules.key_of(None)) == ("shard-4", None)
