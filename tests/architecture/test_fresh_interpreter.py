"""What an import loads, seen in an interpreter that has loaded nothing else."""

import subprocess
import sys
from importlib.util import find_spec

import pytest

from tests.architecture.sources import ROOT


def loaded_by(module: str) -> set[str]:
    """Answer the top-level packages that are loaded after an import."""
    code = f"import sys, {module}; print(*sorted({{name.partition('.')[0] for name in sys.modules}}))"
    answer = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    assert answer.returncode == 0, answer.stderr
    return set(answer.stdout.split())


def exists(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


@pytest.mark.parametrize("unwanted", ["textual", "rich", "prometheus_client", "jobconsole"])
def test_the_queue_loads_nothing_that_draws(unwanted: str) -> None:
    assert unwanted not in loaded_by("queue_core")


def test_the_worker_loads_nothing_that_draws() -> None:
    modules = [name for name in ("queue_core.queue", "queue_core.opening", "queue_core.worker.worker") if exists(name)]
    loaded = set().union(*(loaded_by(name) for name in modules))
    assert loaded & {"textual", "rich", "prometheus_client", "jobconsole"} == set()


def test_the_command_line_starts_without_textual() -> None:
    module = "jobconsole.cli.root"
    # Before that module is there, the package itself must not load it either.
    assert "textual" not in loaded_by(module if exists(module) else "jobconsole")


def test_the_console_core_draws_nothing() -> None:
    modules = [f"jobconsole.core.{path.stem}" for path in (ROOT / "jobconsole" / "core").glob("[a-z]*.py")]
    for module in modules:
        assert loaded_by(module) & {"textual", "prometheus_client"} == set(), module
