"""A ring of seconds counts what a plain list would, in the same memory for ever."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from jobconsole.format.glyphs import EIGHTHS, Ring, columns, resample, spark

LENGTH = 20


@given(st.lists(st.tuples(st.integers(0, 200), st.integers(1, 9)), max_size=60))
def test_a_ring_agrees_with_a_dictionary(steps: list[tuple[int, int]]) -> None:
    ring, plain, at = Ring(LENGTH), dict[int, int](), 0
    for step, number in steps:
        at += step % 7 if step < 150 else step
        ring.add(at + 0.5, number)
        plain[at] = plain.get(at, 0) + number
    expected = [plain.get(second, 0) for second in range(at - LENGTH + 1, at)]
    assert ring.tail(at, LENGTH - 1) == expected


def test_what_came_late_counts_in_its_own_second() -> None:
    ring = Ring(LENGTH)
    ring.add(100)
    ring.add(95, 3)
    assert ring.tail(101, 6) == [3, 0, 0, 0, 0, 1]


def test_what_is_older_than_the_ring_is_forgotten() -> None:
    ring = Ring(LENGTH)
    ring.add(100)
    ring.add(100 - LENGTH, 5)
    assert sum(ring.tail(101, LENGTH - 1)) == 1


def test_a_rate_leaves_the_running_second_out() -> None:
    ring = Ring(LENGTH)
    for second in range(100, 105):
        ring.add(second, 10)
    ring.add(105, 1)
    assert ring.rate(105.9, 5) == 10


def test_a_long_silence_empties_the_ring() -> None:
    ring = Ring(LENGTH)
    ring.add(100, 7)
    assert sum(ring.tail(100 + 5 * LENGTH, LENGTH - 1)) == 0


def test_resampling_keeps_the_mean() -> None:
    assert resample([1, 3, 5, 7], 2) == [2, 6]
    assert resample([4], 3) == [0, 0, 4]


def test_what_is_above_zero_is_seen() -> None:
    assert spark([0, 1, 1000], 3) == " ▁█"


@given(st.lists(st.floats(0, 1e6), max_size=50), st.integers(1, 40), st.integers(1, 8))
def test_a_chart_has_its_size(values: list[float], width: int, height: int) -> None:
    lines = columns(values, width, height)
    assert [len(line) for line in lines] == [width] * height
    assert set("".join(lines)) <= set(EIGHTHS)
