"""The tools that judge the sources find nothing."""

import subprocess
import sys
from collections.abc import Sequence

import pytest

from tests.architecture.sources import ROOT

# A first run of mypy, without its cache, on a slow machine.
PATIENCE_SECONDS = 540

LINT_IMPORTS = "import sys; from importlinter.cli import lint_imports_command; sys.exit(lint_imports_command())"


def assert_content(command: Sequence[str]) -> None:
    answer = subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert answer.returncode == 0, answer.stdout


def test_ruff_finds_nothing() -> None:
    assert_content(["-m", "ruff", "check", "."])


def test_everything_is_formatted() -> None:
    assert_content(["-m", "ruff", "format", "--check", "--diff", "."])


@pytest.mark.timeout(PATIENCE_SECONDS + 60)
def test_types_are_right() -> None:
    assert_content(["-m", "mypy"])
    assert_content(["-m", "mypy", *map(str, sorted(ROOT.glob("benchmarks/*.py")))])


@pytest.mark.timeout(PATIENCE_SECONDS + 60)
def test_imports_go_one_way() -> None:
    assert_content(["-c", LINT_IMPORTS])
