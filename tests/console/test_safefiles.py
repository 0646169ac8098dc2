"""Files with text of jobs are for their owner, and nothing that stands there is touched."""

from __future__ import annotations

import errno
import os
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


@pytest.fixture(params=["without a name", "with a name", "without links"])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """What a file is until it is whole, by what the system and the file system can do."""
    if request.param != "without a name":
        monkeypatch.delattr(os, "O_TMPFILE", raising=False)
    if request.param == "without links":

        def link(*_: object, **__: object) -> None:
            raise OSError(errno.EPERM, os.strerror(errno.EPERM))

        monkeypatch.setattr(os, "link", link)
    return str(request.param)


def test_a_file_has_its_name_when_it_is_whole(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "e.jsonl"
    with export.create_whole(path) as stream:
        stream.write("x\r\n")
        stream.flush()
        assert not path.exists()
        named = [one.suffix for one in tmp_path.iterdir()]
        assert named in ([], [".part"]) if kind == "without a name" else named == [".part"]
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (b"x\r\n", 0o600)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("moment", ["before", "meanwhile"])
def test_what_has_the_name_keeps_it(tmp_path: Path, kind: str, moment: str) -> None:
    path = tmp_path / "e.jsonl"
    if moment == "before":
        path.write_text("mine")
    with pytest.raises(FileExistsError), export.create_whole(path) as stream:  # noqa: PT012 - the end of the block raises
        assert moment == "meanwhile", "nothing is written in vain"
        stream.write("x")
        path.write_text("mine")
    assert path.read_text() == "mine"
    assert list(tmp_path.iterdir()) == [path]


def test_an_error_leaves_no_file(tmp_path: Path, kind: str) -> None:
    def write() -> None:
        with export.create_whole(tmp_path / "e.jsonl") as stream:
            stream.write("x")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write()
    assert list(tmp_path.iterdir()) == []


def test_a_part_of_a_long_name_has_room(tmp_path: Path, kind: str) -> None:
    path = tmp_path / ("é" * 127)
    with export.create_whole(path) as stream:
        stream.write("x")
    assert path.read_text() == "x"


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
