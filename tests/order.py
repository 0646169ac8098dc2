"""The order in which files of tests are begun: those that take longest first, so that none is left over alone."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

LONGEST = (
    "acceptance/test_demo.py",
    "conformance/test_conservation.py",
    "tui/test_overdue.py",
    "faults/test_frozen_processes.py",
    "postgres/idle/test_idle.py",
    "tui/test_fuzz.py",
    "tui/test_losing.py",
    "redis/store/test_idle_fleet.py",
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
    "postgres/frozen/test_frozen_migrate.py",
)
"""Files of few tests that wait for a minute or more. The others follow by the number of their tests."""


def longest_first(items: list[pytest.Item]) -> None:
    """Sort tests by their files; within a file they keep their order."""
    root = Path(__file__).parent
    places = {root / name: place for place, name in enumerate(LONGEST)}
    counts = Counter(item.path for item in items)
    items.sort(key=lambda item: (places.get(item.path, len(places)), -counts[item.path], str(item.path)))
