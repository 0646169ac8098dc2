"""The order in which files of tests are begun: waiting ones among computing ones."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

WAITING = (
    "simulation/test_many.py",
    "acceptance/test_demo.py",
    "redis/store/test_idle_fleet.py",
    "model/test_replay.py",
    "postgres/rules/test_ordering_races.py",
    "postgres/frozen/test_frozen_migrate.py",
    "simulation/test_simulation.py",
    "postgres/test_settle_errors.py",
    "architecture/test_typing.py",
    "redis/store/test_scale.py",
    "acceptance/test_demo_releases.py",
    "worker/test_supervisor.py",
    "redis/test_idle.py",
    "conformance/test_conservation.py",
    "tui/test_overdue.py",
    "faults/test_frozen_processes.py",
    "postgres/idle/test_idle.py",
    "tui/test_fuzz.py",
    "tui/test_losing.py",
    "tui/test_newness.py",
    "tui/test_hostile.py",
    "postgres/frozen/test_frozen.py",
    "faults/test_redis.py",
    "sqlite/test_rules_processes.py",
    "tui/test_logs.py",
    "faults/test_jobs_that_kill.py",
    "faults/test_zombies.py",
    "worker/test_supervisor_ends.py",
    "redis/store/test_rules_at_once.py",
    "faults/test_postgres.py",
    "postgres/operations/test_steps_at_once.py",
    "redis/test_fallback.py",
    "tui/test_progress.py",
    "faults/test_joint_commits.py",
    "faults/test_away.py",
    "postgres/operations/test_locks.py",
    "redis/test_traps_spin.py",
    "faults/test_killed_workers.py",
    "sqlite/test_operations_processes.py",
    "worker/test_stubborn.py",
    "conformance/test_jobs_gone.py",
    "worker/test_gone.py",
)
"""Files of few tests that take long for their number, most of it without computing; the longest first. Others are
begun by the number of their tests."""


PART = 0.6
"""The part of all files among which those are spread: at once they are too much for a machine, at the end nothing else
is left beside them."""


def spread(items: list[pytest.Item]) -> None:
    """Sort tests by their files; within a file they keep their order."""
    root = Path(__file__).parent
    counts = Counter(item.path for item in items)
    others = sorted(counts.keys() - {root / name for name in WAITING}, key=lambda path: (-counts[path], str(path)))
    places = {path: float(place) for place, path in enumerate(others)}
    step = PART * len(others) / len(WAITING)
    places |= {root / name: place * step - 0.5 for place, name in enumerate(WAITING)}
    items.sort(key=lambda item: places[item.path])
