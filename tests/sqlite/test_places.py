"""Files that cannot be used: one sentence each, of an error that says whether waiting may help."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from queue_core.errors import (
    ConfigurationError,
    QueueCoreError,
    SchemaError,
    SchemaMissing,
    SchemaNewer,
    StoreUnavailable,
)
from queue_core.model.settings import SqliteSettings
from queue_core.queue import JobQueue
from queue_core.stores.sqlite import file as places
from queue_core.stores.sqlite.file import file_system
from queue_core.stores.sqlite.migrate import KNOWN, migrate
from queue_core.stores.sqlite.read import SqliteInspector
from queue_core.stores.sqlite.session import SqliteFile
from queue_core.stores.sqlite.store import SqliteStore
from tests.conformance.making import new_job
from tests.sqlite.conftest import NewFile
from tests.sqlite.crashing import REQUEST
from tests.sqlite.processes import ROOT


def write(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def make(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


async def refused(path: Path, kind: type[QueueCoreError]) -> str:
    """Return the sentence with which every part of the mode refuses the file."""
    file = SqliteFile(SqliteSettings(path=str(path), timeout=1.0))
    store, inspector = SqliteStore(file), SqliteInspector(file)
    said = set()
    for call in (store.open, lambda: store.insert([new_job()]), store.queues, inspector.overview):
        with pytest.raises(kind) as caught:
            await call()
        said.add(str(caught.value))
        assert "\n" not in str(caught.value)
    with pytest.raises(kind):
        store.open_heartbeat().renew(REQUEST)  # type: ignore[arg-type]
    await file.close()
    (sentence,) = said
    return sentence


async def test_no_database(path: Path) -> None:
    for content in (b"not a database, but a text that is long enough to be one" * 10, b"\x00" * 600, b"short"):
        write(path, content)
        assert await refused(path, SchemaError) == f"{path} is not an SQLite database"
        assert path.read_bytes() == content  # noqa: ASYNC240


async def test_the_database_of_another_program(path: Path) -> None:
    make(path, "create table songs (title text)", "insert into songs values ('la')")
    before = os.stat(path)  # noqa: PTH116
    assert "is the database of another program" in await refused(path, SchemaError)
    assert os.stat(path).st_mtime_ns == before.st_mtime_ns  # noqa: PTH116
    make(path, "drop table songs")


@pytest.mark.parametrize("mark", ["application_id", "user_version"])
async def test_an_empty_one_that_is_marked_by_another_program(path: Path, mark: str) -> None:
    make(path, f"pragma {mark} = 77")
    assert "is the database of another program" in await refused(path, SchemaError)


async def test_an_empty_file_becomes_ours(path: Path) -> None:
    write(path, b"")
    async with JobQueue(sqlite=path) as jobs:
        await jobs.enqueue("task")
        assert (await jobs.inspector.facts())["schema"] == KNOWN


async def test_a_store_that_is_made_is_logged_once(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """One whose files were taken away is made anew by the next process that starts, which must show."""
    caplog.set_level("INFO", "queue_core.worker")
    logged = []
    for _ in range(2):
        file = SqliteFile(SqliteSettings(path=str(path)))
        await SqliteStore(file).queues()
        await file.close()
        logged.append([record.getMessage() for record in caplog.records])
        caplog.clear()
    assert logged == [[f"there was no store at {path}: a new one was made, with nothing in it"], []]


async def test_a_newer_schema(path: Path) -> None:
    async with JobQueue(sqlite=path) as jobs:
        await jobs.enqueue("task")
    make(path, f"pragma user_version = {KNOWN + 1}")
    assert f"newer than {KNOWN} known here; upgrade this program" in await refused(path, SchemaNewer)


async def test_an_older_schema(path: Path) -> None:
    async with JobQueue(sqlite=path) as jobs:
        await jobs.enqueue("task")
    make(path, "pragma user_version = 0")
    assert "the database has no schema; run 'jobconsole migrate'" in await refused(path, SchemaMissing)


async def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    sentence = await refused(tmp_path / "nowhere" / "jobs.db", StoreUnavailable)
    assert sentence == f"sqlite cannot be reached: the folder of {tmp_path}/nowhere/jobs.db does not exist"


async def test_a_folder_in_place_of_the_file(tmp_path: Path) -> None:
    assert await refused(tmp_path, StoreUnavailable) == f"sqlite cannot be reached: {tmp_path} is a folder"


READ_ONLY = """
import asyncio, os, sys
from pathlib import Path
from queue_core.errors import StoreUnavailable
from queue_core.queue import JobQueue

async def attempt(path):
    jobs = JobQueue(sqlite=path)
    try:
        async with jobs:
            await jobs.enqueue("task")
        print("worked")
    except StoreUnavailable as error:
        print(error)

folder = Path(sys.argv[1])
asyncio.run(attempt(folder / "jobs.db"))
(folder / "jobs.db").chmod(0o644)
folder.chmod(0o555)
if os.geteuid() == 0:
    # Whom no permission binds; everything needed is imported by now.
    os.setgid(65534)
    os.setuid(65534)
asyncio.run(attempt(folder / "jobs.db"))
asyncio.run(attempt(folder / "new.db"))
"""


def test_a_read_only_folder(tmp_path: Path) -> None:
    for folder in (tmp_path, *tmp_path.parents):
        if folder.owner() == Path.home().owner() and folder.name.startswith(("pytest-", "popen-", "test_")):
            folder.chmod(0o755)
    inner = tmp_path / "inner"
    inner.mkdir()
    answer = subprocess.run(
        [sys.executable, "-c", READ_ONLY, str(inner)], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    inner.chmod(0o755)
    said = "or its folder is read-only for this user, and SQLite writes into both"
    lines = [f"sqlite cannot be reached: {inner}/{name} {said}" for name in ("jobs.db", "new.db")]
    assert answer.stdout.splitlines() == ["worked", *lines], answer.stderr


async def test_a_full_disk(new_file: NewFile) -> None:
    file = new_file()
    store, inspector = SqliteStore(file), SqliteInspector(file)
    await store.insert([new_job() for _ in range(10)])
    claims = await store.claim(REQUEST)

    def limit(pages: int) -> object:
        return file.write(lambda transaction: transaction.records(f"pragma max_page_count = {pages}", ()))

    await limit(1)  # type: ignore[misc]
    big = new_job(payload='{"text": "' + "x" * 500_000 + '"}')
    with pytest.raises(StoreUnavailable, match=r"the disk that holds .* is full"):
        await store.insert([new_job(), big])
    assert (await inspector.conservation()).unfinished == 10
    await limit(1_000_000)  # type: ignore[misc]
    assert (await store.insert([big]))[0].created
    assert len(claims) == 10


async def test_a_damaged_file(path: Path, new_file: NewFile) -> None:
    file = new_file()
    store = SqliteStore(file)
    await store.insert([new_job(payload='{"text": "' + "x" * 10_000 + '"}') for _ in range(100)])
    await store.close()
    content = bytearray(path.read_bytes())  # noqa: ASYNC240
    content[4096:-4096] = b"\xff" * (len(content) - 8192)
    write(path, bytes(content))
    with pytest.raises(StoreUnavailable, match=r"is damaged .*; restore it from a backup"):
        await store.insert([new_job()])
    with pytest.raises(StoreUnavailable, match="is damaged"):
        await SqliteInspector(new_file()).overview()


async def test_a_lock_that_is_not_given_up(path: Path, new_file: NewFile) -> None:
    store = SqliteStore(new_file(timeout=0.3))
    await store.insert([new_job()])
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("begin immediate")
        start = time.monotonic()
        with pytest.raises(StoreUnavailable, match="is locked by another process"):
            await store.insert([new_job()])
        assert 0.25 < time.monotonic() - start < 10
        # Readers wait for nobody.
        assert await store.queues() == {"work": False}
        other.execute("rollback")
    assert (await store.insert([new_job()]))[0].created


async def test_a_lock_that_is_given_up_in_time(path: Path, new_file: NewFile) -> None:
    import asyncio

    store = SqliteStore(new_file())
    await store.insert([new_job()])
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("begin immediate")
        inserting = asyncio.create_task(store.insert([new_job()]))
        await asyncio.sleep(0.2)
        assert not inserting.done()
        other.execute("rollback")
        assert (await inserting)[0].created


def take_away(path: Path, names: str, folder: Path) -> None:
    """Move the files with such names beside the store into a folder."""
    folder.mkdir()
    for file in path.parent.glob(names):
        file.rename(folder / file.name)


def bring_back(path: Path, folder: Path) -> None:
    """Move all files of a folder to where the store was."""
    for file in folder.iterdir():
        file.rename(path.parent / file.name)


@pytest.mark.parametrize("names", ["jobs.db", "jobs.db*"])
async def test_a_file_that_is_taken_away_is_waited_for(
    path: Path, new_file: NewFile, names: str, tmp_path: Path
) -> None:
    """No process makes a new one in its place, with which the jobs of the old one would be lost."""
    store = SqliteStore(new_file())
    first, second = new_job(), new_job()
    await store.insert([first])
    watching = SqliteInspector(new_file())
    await watching.overview()
    take_away(path, names, tmp_path / "away")
    left = {one.name for one in path.parent.iterdir()}
    for call in (lambda: store.insert([new_job()]), store.queues, store.open, watching.overview):
        with pytest.raises(StoreUnavailable, match=f"sqlite cannot be reached: there is no file {path}"):
            await call()
    with pytest.raises(StoreUnavailable, match=f"there is no file {path}"):
        store.open_heartbeat().renew(REQUEST)  # type: ignore[arg-type]
    assert {one.name for one in path.parent.iterdir()} == left
    bring_back(path, tmp_path / "away")
    await store.insert([second])
    assert (await watching.conservation()).unfinished == 2
    assert {claim.id for claim in await SqliteStore(new_file()).claim(REQUEST)} == {first.id, second.id}


@pytest.mark.parametrize("content", ["nothing", "no tables", "tables of others"])
async def test_another_file_in_its_place_is_not_made_a_store(
    path: Path, new_file: NewFile, content: str, tmp_path: Path
) -> None:
    file = new_file()
    store, inspector = SqliteStore(file), SqliteInspector(file)
    await store.insert([new_job()])
    take_away(path, "jobs.db*", tmp_path / "away")
    path.touch()  # noqa: ASYNC240
    if content != "nothing":
        make(path, "create table songs (title text)", "drop table songs" if content == "no tables" else "select 1")
    sentence = {"nothing": "is empty", "no tables": "holds nothing", "tables of others": "of another program"}[content]
    for call in (lambda: store.insert([new_job()]), inspector.overview):
        with pytest.raises(QueueCoreError, match=sentence):
            await call()
    bring_back(path, tmp_path / "away")
    assert (await inspector.conservation()).unfinished == 1


async def test_a_log_without_its_file_is_kept(path: Path, new_file: NewFile, tmp_path: Path) -> None:
    """A process that starts while only the file is away makes none either: SQLite would remove the log."""
    before = new_file()
    await SqliteStore(before).insert([new_job()])
    take_away(path, "jobs.db", tmp_path / "away")
    for content in ("there is no file", "is empty"):
        with pytest.raises(StoreUnavailable, match=rf"{content}.*, but {path}-wal, which belongs to it"):
            await SqliteStore(new_file()).insert([new_job()])
        with pytest.raises(StoreUnavailable, match=rf"{content}.*, but {path}-wal, which belongs to it"):
            migrate(before.settings)
        path.touch()  # noqa: ASYNC240
    bring_back(path, tmp_path / "away")
    assert (await SqliteInspector(new_file()).conservation()).unfinished == 1


async def test_a_table_that_is_taken_away(path: Path, new_file: NewFile) -> None:
    store = SqliteStore(new_file())
    await store.insert([new_job()])
    make(path, "drop view job_list", "drop table payloads")
    with pytest.raises(SchemaError, match="was changed by somebody else: no such table"):
        await store.insert([new_job()])


MOUNTS = [
    "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw",
    "30 22 0:26 / /mnt/share rw,relatime shared:9 - nfs4 server:/export rw,vers=4.2",
    "31 30 8:3 / /mnt/share/local rw - xfs /dev/sdb1 rw",
    r"32 22 0:27 / /mnt/with\040space rw - cifs //server/share rw",
    "33 22 0:28 / /mnt/ssh rw - fuse.sshfs me@host: rw",
    "a line that says nothing",
]


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/var/lib/jobs.db", "ext4"),
        ("/mnt/share/jobs.db", "nfs4"),
        ("/mnt/share/deep/er/jobs.db", "nfs4"),
        ("/mnt/share/local/jobs.db", "xfs"),
        ("/mnt/sharework/jobs.db", "ext4"),
        ("/mnt/with space/jobs.db", "cifs"),
        ("/mnt/ssh/jobs.db", "fuse.sshfs"),
    ],
)
def test_which_file_system_a_path_is_on(path: str, kind: str) -> None:
    assert file_system(Path(path), MOUNTS) == kind
    assert file_system(Path(path), []) == ""


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "ceph"])
async def test_network_file_systems(path: Path, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounts = tmp_path / "mountinfo"
    write(mounts, f"30 22 0:26 / {tmp_path} rw - {kind} server:/export rw\n".encode())
    monkeypatch.setattr(places, "MOUNTS", mounts)
    assert await refused(path, ConfigurationError) == (
        f"{path} is on a network file system ({kind}), where SQLite loses data; choose a folder of this machine"
    )
    assert not path.exists()  # noqa: ASYNC240


@pytest.mark.parametrize("path", ["", ":memory:", "file:jobs.db?mode=memory", "a\0b"])
def test_paths_that_are_none(path: str) -> None:
    with pytest.raises(ConfigurationError, match="SQLite"):
        JobQueue(sqlite=path)


def test_one_store_at_a_time(path: Path) -> None:
    with pytest.raises(ConfigurationError, match="a store of its own"):
        JobQueue(sqlite=path, memory=True)
    with pytest.raises(ConfigurationError, match="sqlite=…"):
        JobQueue()
