"""What `.ci/run` says behind the tests: which needed a second run, and which servers could not be had."""

from __future__ import annotations

import importlib
import json
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

FOLDER = Path(__file__).resolve().parents[2] / ".ci"


@pytest.fixture
def suite(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    """The program behind `.ci/run`, at home in an empty folder."""
    monkeypatch.syspath_prepend(str(FOLDER))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    for name in ("suite", "releases", "pythons"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    module = importlib.import_module("suite")
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "other_pythons", list)
    monkeypatch.setattr(module, "with_oldest_packages", lambda _: None)
    return module


def answers(monkeypatch: pytest.MonkeyPatch, suite: ModuleType, *codes: int) -> list[list[str]]:
    """Let runs of pytest end with these codes, each that fails with one failed test; return their commands."""
    commands: list[list[str]] = []

    def run(_self: Any, command: list[str]) -> int:
        cache = Path(command[command.index("-o") + 1].removeprefix("cache_dir=")) / "v" / "cache"
        cache.mkdir(parents=True, exist_ok=True)
        (cache / "lastfailed").write_text(json.dumps({"tests/test_a.py::test_b": True}))
        commands.append(command)
        return codes[len(commands) - 1]

    monkeypatch.setattr(suite.Suite, "_within_time", run)
    return commands


def test_what_needed_a_second_run_is_named_last(
    suite: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = answers(monkeypatch, suite, 1, 0), "--last-failed"
    assert suite.main(60.0, ["tests/x"]) == 0
    assert second not in first[0]
    assert second in first[1]
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == "Needed a second run: tests/test_a.py::test_b (the wheels)"


def test_a_run_that_broke_off_is_made_once_more(
    suite: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    commands = answers(monkeypatch, suite, 3, 1, 0)
    assert suite.main(60.0, ["tests/x"]) == 0
    assert commands[0] == commands[1]
    assert "--last-failed" in commands[2]
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == "Needed a second run: all of it (the wheels), tests/test_a.py::test_b (the wheels)"


def test_a_failed_slow_test_is_run_again(suite: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the few that failed a selection would be taken again, which can leave out the one that failed."""
    monkeypatch.setattr(suite, "OLDER", ())
    commands = answers(monkeypatch, suite, 0, 1, 0)
    assert suite.main(60.0, []) == 0
    chosen = commands[2].index("--slow=all")
    assert chosen > commands[2].index("--slow")
    assert "--last-failed" in commands[2]


def test_what_fails_twice_has_failed(suite: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(answers(monkeypatch, suite, 1, 1)) == 0
    assert suite.main(60.0, []) == 1


@pytest.mark.parametrize(("required", "code"), [(True, 1), (False, 0)])
def test_a_server_that_cannot_be_had_is_named_last(
    suite: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    required: bool,
    code: int,
) -> None:
    def find(release: int, _folder: Path) -> Any:
        raise suite.Missing(f"PostgreSQL {release}: not installed")

    monkeypatch.setattr(suite, "find_postgres", find)
    monkeypatch.setattr(suite, "is_required", lambda release: required and release == 16)
    commands = answers(monkeypatch, suite, 0, 0)
    assert suite.main(60.0, []) == code
    assert len(commands) == 2
    lines = capsys.readouterr().out.splitlines()
    assert lines[-3:] == [f"  PostgreSQL {release}: not installed" for release in (15, 16, 17)]


def test_each_release_runs_its_servers_parts(suite: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suite, "find_postgres", lambda release, _: suite_found(release))
    monkeypatch.setattr(suite, "find_redis", lambda release, _: suite_found(release))
    commands = answers(monkeypatch, suite, 0, 0, 0, 0, 0)
    assert suite.main(60.0, []) == 0
    marks = [command[command.index("-m", 3) + 1 :] for command in commands[2:]]
    assert marks == [
        ["on_postgres or on_redis or on_python", "--slow=some", "--postgres-bin=/pg15", "--redis-bin=/pg7"],
        ["on_postgres", "--slow=some", "--postgres-bin=/pg16", "--ignore=tests/postgres/frozen", "--parallel-plans"],
        ["on_postgres", "--slow=some", "--postgres-bin=/pg17", "--ignore=tests/postgres/frozen"],
    ]


def test_older_servers_are_met_in_other_releases_of_python(
    suite: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def environment(python: Any, _folder: Path) -> Path:
        if python.release == "3.12":
            raise suite.Unusable("no pip")
        return Path("/venv/python")

    monkeypatch.setattr(suite, "find_postgres", lambda release, _: suite_found(release))
    monkeypatch.setattr(suite, "find_redis", lambda release, _: suite_found(release))
    monkeypatch.setattr(suite, "environment", environment)
    monkeypatch.setattr(suite, "other_pythons", lambda: [suite.Python(Path(), "3.13"), suite.Python(Path(), "3.12")])
    commands = answers(monkeypatch, suite, 0, 0, 0, 0, 0)
    assert suite.main(60.0, []) == 0
    assert [command[0] for command in commands[2:]] == ["/venv/python", sys.executable, sys.executable]
    said = capsys.readouterr().out.splitlines()
    assert "The parts of these on PostgreSQL 15.1 and Redis 7.1 and Python 3.13:" in said
    assert said[-1] == "  Python 3.12: no pip"


def test_the_oldest_packages_meet_a_server_of_their_time(suite: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suite, "find_postgres", lambda release, _: suite_found(release))
    monkeypatch.setattr(suite, "find_redis", lambda release, _: suite_found(release))
    monkeypatch.setattr(suite, "environment", lambda python, _: Path(f"/{python.name}/python"))
    monkeypatch.setattr(suite, "with_oldest_packages", lambda _: suite.Python(Path(), "3.11", old=True))
    commands = answers(monkeypatch, suite, 0, 0, 0, 0, 0)
    assert suite.main(60.0, []) == 0
    assert [command[0] for command in commands[2:]] == [sys.executable, sys.executable, "/the oldest packages/python"]
    assert commands[4][-4] == "on_postgres or on_packages"


def test_the_oldest_packages_are_those_that_the_project_names(suite: ModuleType, tmp_path: Path) -> None:
    pythons = importlib.import_module("pythons")
    (tmp_path / "pyproject.toml").write_text(
        """
        [project]
        dependencies = ["redis[hiredis]>=5.2,!=7.2.0", "psycopg[binary]>=3.2.8", "tzdata; sys_platform == 'win32'"]
        [project.optional-dependencies]
        reload = ["watchfiles>=0.21; python_version < '3.12'"]
        dev = ["ruff>=0.9"]
        """
    )
    assert pythons.oldest(tmp_path) == [
        "redis==5.2.*", "psycopg==3.2.8.*", "psycopg-binary==3.2.8.*", "watchfiles==0.21.* ; python_version < '3.12'"
    ]  # fmt: skip


def test_a_pass_that_could_not_end_in_time_is_named_last(
    suite: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Cut short, it would end as if a test had failed."""
    monkeypatch.setattr(suite, "ENOUGH_FOR_SLOW", 1e9)
    monkeypatch.setattr(suite, "ENOUGH", dict.fromkeys(suite.OLDER, 1e9))
    commands = answers(monkeypatch, suite, 0)
    assert suite.main(60.0, []) == 0
    assert len(commands) == 1
    lines = capsys.readouterr().out.splitlines()
    left = ["the slow tests", *(f"PostgreSQL {release}" for release in (15, 16, 17))]
    assert lines[-4:] == [f"  {name}: no time was left for it" for name in left]


def test_each_test_is_in_one_of_its_passes(suite: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suite, "OLDER", ())
    commands = answers(monkeypatch, suite, 0, 0)
    assert suite.main(60.0, []) == 0
    assert "--slow" not in commands[0]
    assert commands[1][-2:] == ["--slow", "rest"]


def suite_found(release: int) -> Any:
    """Return a server that was found."""
    from releases import Found

    return Found(Path(f"/pg{release}"), f"{release}.1")


def test_no_time_is_left(suite: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit of the whole run holds for each pass."""
    started = time.monotonic()
    assert suite.main(0.0, []) == 2
    assert time.monotonic() - started < 30
