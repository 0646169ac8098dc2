"""The slow tests of a run of everything: a seeded selection, and the others in a run of their own."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests import slow

ROOT = Path(__file__).parents[1]


def collected() -> list[Any]:
    """Make tests of three files, one of them of no slow tests."""
    counts = {"faults/test_redis.py": 14, "redis/test_fallback.py": 1, "core/test_claims.py": 5}
    return [
        SimpleNamespace(nodeid=f"tests/{path}::test_it[{number}]", path=ROOT / path)
        for path, count in counts.items()
        for number in range(count)
    ]


def run(mode: str, seed: int = 1) -> set[str]:
    """Select; return the names of what is run."""
    left: list[Any] = []

    def leave(items: list[Any]) -> None:
        left.extend(items)

    option = SimpleNamespace(slow=mode, slow_seed=seed)
    config: Any = SimpleNamespace(option=option, hook=SimpleNamespace(pytest_deselected=leave))
    items = collected()
    slow.select(config, items)
    kept = {item.nodeid for item in items}
    assert kept.isdisjoint(item.nodeid for item in left)
    assert len(kept) + len(left) == 20
    return kept


def test_each_is_in_the_selection_or_among_the_others() -> None:
    some, rest = run("some"), run("rest")
    assert some | rest == run("all")
    assert not some & rest
    assert len(some) == 5 + 1 + 2
    assert some == run("some")
    assert len({frozenset(run("some", seed)) for seed in range(10)}) > 1


@pytest.mark.parametrize("option", ["file_or_dir", "markexpr", "keyword", "lf"])
def test_chosen_tests_are_all_run(option: str) -> None:
    options = {"slow": None, "file_or_dir": [], "markexpr": "", "keyword": "", "lf": False}
    config: Any = SimpleNamespace(option=SimpleNamespace(**options))
    slow.choose_mode(config)
    assert config.option.slow == "some"
    config = SimpleNamespace(option=SimpleNamespace(**options | {option: "x"}))
    slow.choose_mode(config)
    assert config.option.slow == "all"


def test_each_name_is_one_of_a_test() -> None:
    """A file that is renamed would be run whole, unseen."""
    assert [name for name in slow.SLOW if not (ROOT / name.partition("::")[0]).exists()] == []
