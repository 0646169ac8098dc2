"""The command line over real servers, and stores in which something has happened."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from queue_core.model.settings import SqliteSettings
from queue_core.stores.sqlite.operations import SqliteOperations
from queue_core.stores.sqlite.read import SqliteInspector
from queue_core.stores.sqlite.schedules import SqliteSchedules
from queue_core.stores.sqlite.session import SqliteFile
from queue_core.stores.sqlite.store import SqliteStore
from tests.cli.running import Answer, Cli
from tests.conformance.modes import postgres, redis
from tests.conformance.world import World
from tests.emptying import new_file

Scene = Callable[[World], Awaitable[None]]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current folder: no configuration file of this machine is found."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def alone() -> Cli:
    """The command line without any server."""
    return Cli({})


@pytest.fixture
def cli(postgres_url: str, redis_url: str, redis_prefix: str) -> Iterator[Cli]:
    """The command line with an empty database and an empty prefix."""
    cli = Cli(
        {
            "JOBS__POSTGRES__URL": postgres_url,
            "JOBS__REDIS__URL": redis_url,
            "JOBS__REDIS__PREFIX": redis_prefix,
        }
    )
    yield cli
    cli.close()


class Shop:
    """A store of some mode, looked at through the command line."""

    def __init__(self, mode: str, address: str) -> None:
        self.mode = mode
        self.address = address
        self.cli = Cli(_environ(mode, address))

    def __call__(self, *arguments: str, stdin: str = "", typed: str | None = None) -> Answer:
        """Run a command; see `Cli`."""
        return self.cli(*arguments, stdin=stdin, typed=typed)

    def play(self, scene: Scene) -> None:
        """Let something happen in the store."""
        open_world = {"postgres": postgres, "redis": redis}.get(self.mode, _sqlite)
        asyncio.run(_played(open_world(self.address), scene))


def _environ(mode: str, address: str) -> dict[str, str]:
    url, _, prefix = address.partition(" ")
    names = {"postgres": "POSTGRES__URL", "redis": "REDIS__URL", "sqlite": "SQLITE__PATH"}
    found = {"QUEUE_BACKEND": mode, names[mode]: url} | ({"REDIS__PREFIX": prefix} if prefix else {})
    return {f"JOBS__{name}": value for name, value in found.items()}


def _sqlite(path: str) -> Callable[[], Awaitable[World]]:
    """Return what opens a file; its clock is this machine's, as that of the commands."""
    if not Path(path).exists():
        new_file(Path(path))

    async def opened() -> World:
        file = SqliteFile(SqliteSettings(path=path))
        store = SqliteStore(file)
        await store.open()
        return World(store, SqliteInspector(file), asyncio.sleep, SqliteSchedules(file), SqliteOperations(file))

    return opened


async def _played(open_world: Callable[[], Awaitable[World]], scene: Scene) -> None:
    world = await open_world()
    try:
        # A leader raises the epoch that claims need.
        await world.store.acquire_leadership("upkeep", "leader", 60.0)
        await scene(world)
    finally:
        await world.close()


def _address(mode: str, request: pytest.FixtureRequest, folder: Path) -> str:
    if mode == "sqlite":
        return str(folder / "jobs.db")
    if mode == "postgres":
        return str(request.getfixturevalue("postgres_url"))
    return f"{request.getfixturevalue('redis_url')} {request.getfixturevalue('redis_prefix')}"


@pytest.fixture(params=["sqlite", "postgres", "redis"])
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shop]:
    """An empty store of each mode that a command can reach."""
    shop = Shop(request.param, _address(request.param, request, tmp_path))
    yield shop
    shop.cli.close()


@pytest.fixture
def file_shop(tmp_path: Path) -> Iterator[Shop]:
    """An empty file: for what the modes cannot differ in."""
    shop = Shop("sqlite", str(tmp_path / "jobs.db"))
    yield shop
    shop.cli.close()


@pytest.fixture
def play(postgres_url: str) -> Callable[[Scene], None]:
    """Let something happen in the store of `cli`."""

    return lambda scene: asyncio.run(_played(postgres(postgres_url), scene))
