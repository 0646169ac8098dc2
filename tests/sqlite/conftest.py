"""A file that is not there yet, and ways into it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from queue_core.model.settings import SqliteSettings
from queue_core.stores.sqlite.session import SqliteFile
from queue_core.stores.sqlite.store import SqliteStore
from tests.sqlite.processes import Spawn, spawning

NewFile = Callable[..., SqliteFile]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a file may be made."""
    return tmp_path / "jobs.db"


@pytest.fixture
async def new_file(path: Path) -> AsyncIterator[NewFile]:
    """Opens the file once more, as another process would; closed at the end."""
    files: list[SqliteFile] = []

    def opened(timeout: float = 10.0, **options: object) -> SqliteFile:
        files.append(SqliteFile(SqliteSettings(path=str(path), timeout=timeout), **options))  # type: ignore[arg-type]
        return files[-1]

    yield opened
    for file in files:
        await file.close()


@pytest.fixture
def store(new_file: NewFile) -> SqliteStore:
    """A store on the file."""
    return SqliteStore(new_file())


@pytest.fixture
def spawn(path: Path) -> Iterator[Spawn]:
    """Start programs that share the file; all are gone at the end."""
    with spawning(path) as start:
        yield start
