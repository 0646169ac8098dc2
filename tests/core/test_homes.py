"""Users without a home folder, as those of containers: no HOME, and a user id that no entry of passwd has."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from jobconsole.actions import export
from jobconsole.tui.base.themes import keep_theme, kept_theme
from queue_core import ConfigurationError, JobQueue
from queue_core.configuration import load
from queue_core.model.settings import settings_from
from tests.cli.running import Cli


@pytest.fixture(autouse=True)
def homeless(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No variable and no entry gives a home folder."""

    def unknown(uid: int) -> pwd.struct_passwd:
        raise KeyError(f"getpwuid(): uid not found: {uid}")

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "JOBS_CONFIG", "JOBCONSOLE_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


def cli(**environ: str) -> Cli:
    return Cli({"XDG_CONFIG_HOME": ""} | environ)


def test_no_home_folder_is_no_file_there(tmp_path: Path) -> None:
    assert load(environ={}).source is None
    Path("jobs.yaml").write_text("jobs: {sqlite: {path: here.db}}")
    assert JobQueue.from_settings().settings.sqlite.path == "here.db"


@pytest.mark.parametrize("command", ["health", "doctor", "job list", "contexts", "job enqueue work"])
def test_every_command_runs_without_one(command: str) -> None:
    answer = cli(JOBS__SQLITE__PATH="jobs.db")(*command.split())
    assert (answer.code, answer.err) == (0, answer.err), answer.err
    assert "home" not in answer.err


@pytest.mark.parametrize("path", ["~/jobs.yaml", "~nobody-of-this-name/jobs.yaml"])
def test_a_file_in_a_home_folder_that_is_not_there_is_one_sentence(path: str) -> None:
    sentence = f"{path}: no home folder is known for its ~; give the whole path"
    with pytest.raises(ConfigurationError, match="no home folder is known") as wrong:
        load(path=path)
    assert str(wrong.value) == sentence
    with pytest.raises(ConfigurationError, match="no home folder is known"):
        load(environ={"JOBS_CONFIG": path})
    with pytest.raises(ConfigurationError, match="no home folder is known"):
        settings_from(sqlite=path)
    for answer in (cli()("--config", path, "health"), cli(JOBS__SQLITE__PATH=path)("health")):
        assert (answer.code, sentence in answer.err) == (2, True)


def test_the_console_keeps_nothing_and_goes_on() -> None:
    with pytest.raises(FileNotFoundError, match="no home folder"):
        export.state_folder()
    keep_theme("light")
    assert kept_theme()


def test_a_folder_that_is_another_users_is_no_file_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As in a container whose HOME is that of root."""
    folder = tmp_path / "home" / ".config"
    (folder / "jobs").mkdir(parents=True)
    (folder / "jobs" / "jobs.yaml").write_text("jobs: {sqlite: {path: theirs.db}}")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert load(environ={}).source is not None
    folder.chmod(0)
    before = os.geteuid()
    try:
        if before == 0:
            os.seteuid(65534)
        assert load(environ={}).source is None
    finally:
        os.seteuid(before)
        folder.chmod(0o700)
