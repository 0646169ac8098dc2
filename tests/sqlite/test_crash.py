"""A process that is killed within a transaction leaves nothing of it, and nobody waits for its lock."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from queue_core.model.report import Conservation
from queue_core.stores.sqlite.read import SqliteInspector
from queue_core.stores.sqlite.store import SqliteStore
from tests.conformance.making import new_job, outcome
from tests.sqlite.conftest import NewFile
from tests.sqlite.crashing import REQUEST
from tests.sqlite.processes import ROOT


def crash(path: Path, step: str) -> None:
    command = [sys.executable, "-m", "tests.sqlite.crashing", str(path), step]
    assert subprocess.run(command, cwd=ROOT, timeout=60, check=False).returncode == -signal.SIGKILL


@pytest.mark.parametrize("step", ["insert", "claim", "settle"])
async def test_nothing_of_it_is_left(path: Path, new_file: NewFile, step: str) -> None:
    file = new_file()
    store, inspector = SqliteStore(file), SqliteInspector(file)
    ids = [one.id for one in await store.insert([new_job() for _ in range(20)])]
    claims = await store.claim(REQUEST) if step == "settle" else []
    before = [await inspector.get(job_id) for job_id in ids]
    tallies = await inspector.tallies()
    # Once while others have the file open, once as the first to open it.
    crash(path, step)
    await file.close()
    crash(path, step)
    assert [await inspector.get(job_id) for job_id in ids] == before
    assert await inspector.tallies() == tallies
    assert await inspector.conservation() == Conservation(0, 0, 0, 20, 0)
    start = time.monotonic()
    await store.insert([new_job()])
    assert time.monotonic() - start < 5
    claims += await store.claim(REQUEST)
    answers = await store.settle([outcome(claim, "completed") for claim in claims])
    assert [answer.accepted for answer in answers] == [True] * 21
    assert (await inspector.conservation()).completed == 21


async def test_the_file_is_sound_afterwards(path: Path, new_file: NewFile) -> None:
    store = SqliteStore(new_file())
    await store.insert([new_job() for _ in range(50)])
    for step in ("insert", "claim", "insert"):
        crash(path, step)
    link = new_file().link()
    from queue_core.stores.sqlite.session import Mode

    found = link.transact(
        lambda transaction: transaction.records("pragma integrity_check", ()), Mode.READ, time.monotonic() + 10
    )
    assert [row[0] for row in found] == ["ok"]
    link.close()
