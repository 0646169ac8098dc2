"""The tests that kill, freeze, race, search and wait: a run of everything takes a seeded selection of them.

They are a twentieth of all tests and nearly half of the time. `.ci/run` runs the others behind the selection
(`--slow rest`), and where a run is about chosen tests (a path, `-m`, `-k`, `--last-failed`) all of them are in it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest

SLOW = (
    "acceptance/test_demo.py",
    "architecture/test_typing.py",
    "benchmarks/test_compare.py::test_quick",
    "benchmarks/test_growth.py::test_it_prints_the_ratios_beside",
    "cli/test_bench.py",
    "cli/test_careful.py::TestInterrupted",
    "cli/test_process.py",
    "conformance/test_conservation.py",
    "conformance/test_jobs_cron.py::test_one_job_a_tick",
    "conformance/test_jobs_gone.py",
    "conformance/test_jobs_loop_ends.py",
    "console/test_storm.py",
    "embedded/",
    "faults/",
    "fleet/",
    "leaks/test_leaks.py::test_what_processes",
    "model/test_replay.py",
    "mutations/test_mutations.py::test_some_are_seen",
    "postgres/frozen/",
    "postgres/idle/",
    "postgres/operations/test_locks.py",
    "postgres/operations/test_steps.py::test_a_step_looks_at_its_members_only",
    "postgres/operations/test_steps_at_once.py",
    "postgres/rules/test_ordering_races.py",
    "postgres/schema/test_earlier.py",
    "postgres/test_session.py::test_a_worker_keeps_at_most_four_connections",
    "redis/store/test_idle_fleet.py",
    "redis/store/test_rules_at_once.py",
    "redis/store/test_scale.py",
    "redis/test_fallback.py",
    "redis/test_rights.py::test_no_job_is_acknowledged",
    "redis/test_rights.py::test_what_a_script_has_left",
    "redis_topology/",
    "simulation/test_many.py",
    "sqlite/test_operations_processes.py",
    "sqlite/test_processes.py",
    "sqlite/test_rules_processes.py",
    "tui/test_fuzz.py",
    "tui/test_hostile.py",
    "tui/test_losing.py",
    "tui/test_overdue.py",
    "worker/",
)
"""How the names of these tests begin."""
SMALL_FORM = (
    "acceptance/test_demo.py",
    "architecture/test_typing.py",
    "leaks/",
    "mutations/",
    "redis/store/test_scale.py",
    "simulation/test_many.py",
)
"""Files of which the selection has none: tests that are not slow do the same in small."""
SHARE = 8
"""One in so many is in the selection, and at least one of each file."""
CHOICES = ("some", "rest", "all")
"""Values of `--slow`: the selection, what it leaves out and nothing else, or no difference."""


def add_options(parser: pytest.Parser) -> None:
    """Add the options that choose."""
    parser.addoption(
        "--slow", choices=CHOICES, help="of the tests that kill, freeze, race and wait: " + ", ".join(CHOICES)
    )
    parser.addoption("--slow-seed", type=int, default=1, help="decides which of them are the selection")


def choose_mode(config: pytest.Config) -> None:
    """Decide, in the process that hands its options to those that run the tests, what a run without `--slow` means."""
    option = config.option
    if option.slow is None:
        chosen = option.file_or_dir or option.markexpr or option.keyword or getattr(option, "lf", False)
        option.slow = "all" if chosen else "some"


def select(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Take out of `items` what this run does not run."""
    mode: str = config.option.slow
    if mode == "all":
        return
    selection = _selection([item for item in items if _is_slow(item)], config.option.slow_seed)
    if mode == "rest":
        kept = [item for item in items if _is_slow(item) and item.nodeid not in selection]
    else:
        kept = [item for item in items if not _is_slow(item) or item.nodeid in selection]
    if len(kept) < len(items):
        remaining = {item.nodeid for item in kept}
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in remaining])
        items[:] = kept


def _selection(slow: Sequence[pytest.Item], seed: int) -> set[str]:
    files: dict[Path, list[str]] = defaultdict(list)
    for item in slow:
        if not _name(item).startswith(SMALL_FORM):
            files[item.path].append(item.nodeid)
    # A generator for each file: what another file has changes nothing here.
    return {
        name
        for path, names in files.items()
        for name in Random(f"{seed} {path.name}").sample(sorted(names), -(-len(names) // SHARE))
    }


def _is_slow(item: pytest.Item) -> bool:
    return _name(item).startswith(SLOW)


def _name(item: pytest.Item) -> str:
    return item.nodeid.removeprefix("tests/")
