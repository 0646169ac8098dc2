"""Nothing grows while jobs go through: twenty seconds here, any time with `python -m tests.leaks`."""

from __future__ import annotations

import pytest

from tests.faults.plant import LONG
from tests.leaks.measure import Series, lines_of, measure

SECONDS = 300.0 if LONG else 15.0


@pytest.mark.timeout(600)
async def test_what_processes_and_servers_hold_is_level() -> None:
    series = await measure("postgres+redis", SECONDS, 100.0, 1, lambda _: None)
    print("\n".join(lines_of(series)))  # noqa: T201  what is held is the result
    assert [f"{one.what} of {one.of}" for one in series if one.grows] == []
    assert {one.what for one in series} >= {
        "memory",
        "tasks",
        "threads",
        "descriptors",
        "connections",
        "keys",
        "tables",
    }


@pytest.mark.parametrize(("step", "grows"), [(0.0, False), (1.0, True)])
def test_growth_is_seen(step: float, grows: bool) -> None:
    assert Series("tasks", "a worker", [50 + step * number for number in range(90)]).grows is grows
