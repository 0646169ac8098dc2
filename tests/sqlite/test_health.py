"""Health sees what reads do not show: a lock that others keep, and a full disk."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from queue_core import JobQueue
from queue_core.model.settings import settings_from
from queue_core.stores.sqlite import file as module
from tests.cli.running import Cli
from tests.faults.chaos.disks import Disk


@pytest.fixture
def disk() -> Iterator[Disk]:
    """A file system that can be filled."""
    disk = Disk(8)
    try:
        if not disk.can_be_filled:
            pytest.skip(f"no file system of its own: {disk.why_not}")
        yield disk
    finally:
        disk.close()


def cli(path: Path) -> Cli:
    """The command line on a file."""
    return Cli({"JOBS__SQLITE__PATH": str(path), "JOBS__SQLITE__TIMEOUT": "0.3s"})


def test_a_lock_that_is_not_given_up(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(path.parent)
    assert cli(path)("job", "enqueue", "task").code == 0
    assert cli(path)("health").code == 0
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("begin immediate")
        assert cli(path)("job", "enqueue", "task").code == 3
        answer = cli(path)("health", "--json")
        assert (answer.code, answer.body["status"], answer.body["pending"]) == (1, "failing", 1)
        assert answer.body["reason"] == f"sqlite cannot be reached: {path} is locked by another process"
        assert cli(path)("health").out.startswith("failing, mode sqlite\n1 pending, 0 running, 0 workers alive\n")
        other.execute("rollback")
    assert cli(path)("health").code == 0


def test_a_full_disk(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    path = disk.folder / "jobs.db"
    monkeypatch.chdir(disk.folder.parent)
    assert cli(path)("job", "enqueue", "task").code == 0
    # As beside a worker: what SQLite needs for reading is there.
    with closing(sqlite3.connect(path)) as other:
        other.execute("select count(*) from jobs").fetchall()
        disk.fill()
        assert cli(path)("job", "enqueue", "task").code == 3
        answer = cli(path)("health", "--json")
        assert (answer.code, answer.body["status"]) == (1, "failing")
        assert answer.body["reason"] == f"sqlite cannot be reached: the disk that holds {path} is full"
        disk.free()
        assert cli(path)("health").code == 0


async def test_nothing_of_it_stays(path: Path) -> None:
    async with JobQueue(settings=settings_from(sqlite=path)) as jobs:
        await jobs.enqueue("task")
        before = {one: one.read_bytes() for one in path.parent.iterdir() if not one.name.endswith("-shm")}
        assert (await jobs.health()).healthy
        after = {one: one.read_bytes() for one in path.parent.iterdir() if not one.name.endswith("-shm")}
        assert after == before


def test_a_folder_that_takes_no_new_files_is_no_full_disk(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(**_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(module.tempfile, "TemporaryFile", refused)
    module.check_room(path)
