"""The clock that tests move."""

import time

import pytest

from queue_core.runtime import Clock, SystemClock
from queue_core.testing import FakeClock


def test_it_stands_still_until_it_is_moved() -> None:
    clock = FakeClock(1000.0)
    assert (clock.now(), clock.now(), clock.monotonic()) == (1000.0, 1000.0, 0.0)
    clock.advance(2.5)
    assert (clock.now(), clock.monotonic()) == (1002.5, 2.5)


def test_a_jump_of_the_time_of_day_does_not_touch_the_monotonic_one() -> None:
    clock = FakeClock(1000.0)
    clock.advance(10)
    clock.set_back(600)
    assert (clock.now(), clock.monotonic()) == (410.0, 10.0)


def test_time_does_not_pass_backwards() -> None:
    with pytest.raises(ValueError, match="set_back"):
        FakeClock().advance(-1)


def test_the_machines_clock() -> None:
    clock: Clock = SystemClock()
    assert abs(clock.now() - time.time()) < 60
    first = clock.monotonic()
    assert clock.monotonic() >= first
