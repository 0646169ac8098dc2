"""A server that is not needed: left alone when it fails, tried again with growing pauses, its loss said once."""

from __future__ import annotations

import pytest

from queue_core.redis.circuit import FIRST_PAUSE, MAX_PAUSE, SETTLED_SECONDS, CircuitBreaker
from queue_core.testing import FakeClock


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def circuit(clock: FakeClock) -> CircuitBreaker:
    return CircuitBreaker("redis", clock)


def said(caplog: pytest.LogCaptureFixture) -> tuple[int, int]:
    """Return how often the server was said to be lost, and to be back."""
    return caplog.text.count("redis lost"), caplog.text.count("redis is back")


def fail(circuit: CircuitBreaker, reason: str = "refused") -> None:
    """Let a call fail that begins now."""
    circuit.failed(reason, circuit.era)


def work(circuit: CircuitBreaker) -> None:
    """Let a call succeed that begins now."""
    circuit.worked(circuit.era)


def test_a_loss_is_short_and_said_once(
    circuit: CircuitBreaker, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    assert circuit.allows()
    fail(circuit)
    since = circuit.lost_since
    assert (since, circuit.reason) == (clock.now(), "refused")
    assert not circuit.allows()
    clock.advance(FIRST_PAUSE)
    assert circuit.allows()
    assert not circuit.allows(), "one tries, the others wait"
    work(circuit)
    assert circuit.allows()
    assert (circuit.lost_since, circuit.reason) == (None, "")
    assert said(caplog) == (1, 1)


def test_pauses_grow_to_their_bound(circuit: CircuitBreaker, clock: FakeClock) -> None:
    pauses = []
    for _ in range(10):
        fail(circuit)
        began = clock.monotonic()
        while not circuit.allows():
            clock.advance(FIRST_PAUSE / 2)
        pauses.append(clock.monotonic() - began)
    assert pauses[:3] == [FIRST_PAUSE, 2 * FIRST_PAUSE, 4 * FIRST_PAUSE]
    assert max(pauses) == pauses[-1] == MAX_PAUSE


def test_an_answer_that_was_on_its_way_closes_nothing(circuit: CircuitBreaker) -> None:
    """A reader of a full server waits for candidates while a writer is refused."""
    before = circuit.era
    fail(circuit, "OOM")
    circuit.worked(before)
    assert not circuit.allows()
    assert circuit.lost_since is not None


def test_an_answer_from_before_is_not_that_of_the_call_that_tries(circuit: CircuitBreaker, clock: FakeClock) -> None:
    before = circuit.era
    fail(circuit)
    clock.advance(FIRST_PAUSE)
    assert circuit.allows()
    circuit.worked(before)
    assert circuit.lost_since is not None
    work(circuit)
    assert circuit.lost_since is None


def test_failures_of_calls_that_began_before_the_loss_do_not_put_off_the_next_try(
    circuit: CircuitBreaker, clock: FakeClock
) -> None:
    """All that a worker waits for fails with its server."""
    before = circuit.era
    for _ in range(10):
        circuit.failed("closed", before)
    clock.advance(FIRST_PAUSE)
    assert circuit.allows()


def test_a_call_that_hangs_from_before_the_return_is_no_loss(
    circuit: CircuitBreaker, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    """The primary freezes, another one takes over: what waits on the old one fails seconds after the return."""
    hanging = circuit.era
    fail(circuit, "no answer in time")
    clock.advance(FIRST_PAUSE)
    assert circuit.allows()
    work(circuit)
    clock.advance(5)
    circuit.failed("no answer in time", hanging)
    assert circuit.allows()
    assert circuit.lost_since is None
    assert said(caplog) == (1, 1)


def test_a_flapping_server_is_lost_all_the_time(
    circuit: CircuitBreaker, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    """It is used whenever it works, but log and health go to and fro only once: from its second loss on it is known."""
    used = 0
    began = clock.now()
    since = set()
    while clock.now() - began < 600:
        if circuit.allows():
            used += 1
            work(circuit)
            clock.advance(0.1)
            fail(circuit, "again")
        since.add(circuit.lost_since)
        clock.advance(0.1)
    assert 600 / MAX_PAUSE - 10 < used < 600 / MAX_PAUSE + 10
    assert len(since) == 2
    assert said(caplog) == (2, 1)
    while not circuit.allows():
        clock.advance(0.1)
    work(circuit)
    clock.advance(SETTLED_SECONDS)
    work(circuit)
    assert said(caplog) == (2, 2)
    assert circuit.lost_since is None
