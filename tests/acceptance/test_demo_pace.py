"""The producer's pace: hundreds waiting, drained within seconds, never a heap."""

import pytest

from jobconsole.demo.producer import LARGEST, PERIOD_SECONDS, SMALLEST, Order, Pace, shorten


def simulate(pace: Pace, throughput: float, seconds: float) -> tuple[list[tuple[float, int]], int]:
    """Run workers of so many jobs a second against a pace; return its waves and the most that ever waited."""
    queued, most, waves, now = 0.0, 0, [], 0.0
    while now < seconds:
        size = pace.wave(now, int(queued))
        if size:
            waves.append((now, size))
            queued += size
        most = max(most, int(queued))
        queued = max(0.0, queued - throughput * 0.5)
        now += 0.5
    return waves, most


@pytest.mark.parametrize("throughput", [5.0, 40.0, 150.0, 2000.0])
def test_waves_fit_the_machine(throughput: float) -> None:
    waves, most = simulate(Pace(), throughput, 300)
    sizes = [size for _, size in waves[-10:]]
    assert all(SMALLEST <= size <= LARGEST for size in sizes)
    assert max(sizes) <= max(SMALLEST, 6 * throughput)
    assert most <= LARGEST + LARGEST // 5


def test_the_first_wave_comes_at_once_and_the_next_after_a_period() -> None:
    waves, _ = simulate(Pace(), 1000, 10)
    assert waves[0][0] == 0
    assert waves[1][0] >= PERIOD_SECONDS


def test_nothing_comes_while_the_workers_are_behind() -> None:
    pace = Pace()
    assert pace.wave(0, 0)
    assert not any(pace.wave(second, 500) for second in range(1, 100))
    assert pace.wave(100, 0)


def test_a_rate_bounds_the_whole_run() -> None:
    pace, sent = Pace(10), 0
    for tick in range(200):
        allowed = max(0, pace.allowed(tick * 0.5))
        pace.sent(allowed)
        sent += allowed
    assert sent == int((99.5 + 1) * 10)


def test_orders_are_cut_to_what_is_allowed() -> None:
    orders = [Order("a", [{"n": 1}, {"n": 2}]), Order("b", [{"n": 3}, {"n": 4}]), Order("c", [{"n": 5}])]
    assert shorten(orders, 3) == [orders[0], Order("b", [{"n": 3}])]
    assert shorten(orders, 0) == []
    assert shorten(orders, 99) == orders
