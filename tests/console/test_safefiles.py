"""Files with text of jobs are for their owner, and nothing that stands there is touched."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from jobconsole.actions import export


def test_a_new_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    with export.create(tmp_path / "a") as stream:
        stream.write("x\r\n")
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o600
    assert (tmp_path / "a").read_bytes() == b"x\r\n"


@pytest.mark.parametrize("there", ["file", "link"])
def test_what_stands_there_is_left_alone(tmp_path: Path, there: str) -> None:
    target, path = tmp_path / "target", tmp_path / "a"
    if there == "file":
        path.write_text("mine")
    else:
        path.symlink_to(target)
    with pytest.raises(FileExistsError):
        export.create(path)
    assert not target.exists()


def test_a_text_takes_the_place_of_the_one_before(tmp_path: Path) -> None:
    path, target = tmp_path / "state" / "copied.txt", tmp_path / "target"
    target.write_text("mine")
    export.write_over(path, "one")
    path.unlink()
    path.symlink_to(target)
    export.write_over(path, "two")
    assert (path.read_text(), target.read_text(), path.is_symlink()) == ("two", "mine", False)
    assert [one.name for one in path.parent.iterdir()] == ["copied.txt"]


def test_the_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert export.state_folder() == tmp_path / "jobconsole"
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert export.state_folder() == tmp_path / ".local" / "state" / "jobconsole"
