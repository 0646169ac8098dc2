"""A file of jobs in every state, and a notebook's connection to it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobconsole.notebook import NotebookConsole, connect
from queue_core import JobQueue
from tests.conformance.making import failure
from tests.conformance.world import STATES, World

HOSTILE = "\x1b[2J<script>alert(1)</script>\u202e"
"""Text of a job that neither a terminal nor a browser may obey."""


async def _nothing(seconds: float) -> None:
    raise NotImplementedError("the file has its own clock")


async def fill(path: Path) -> dict[str, str]:
    """Return the id of a job in each state, and of one more dead job, whose text is hostile."""
    async with JobQueue(sqlite=path) as jobs:
        await jobs.store.acquire_leadership("upkeep", "leader", 60.0)
        world = World(jobs.store, jobs.inspector, _nothing, operations=jobs._backend.operations)
        ids = {state: await world.job_in(state) for state in STATES}
        died = failure(HOSTILE, signature="ab12cd34ef56", title=f"OSError: {HOSTILE}", traceback=f"OSError: {HOSTILE}")
        ids["hostile"] = (await world.ended("dead", {"failure": died}, type="mail", payload='{"to": "<b>"}')).id
    return ids


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the jobs are."""
    return tmp_path / "jobs.db"


@pytest.fixture
def ids(path: Path) -> dict[str, str]:
    """The id of a job in each state; `hostile`: a dead one with hostile text."""
    return asyncio.run(fill(path))


@pytest.fixture
def console(path: Path, ids: dict[str, str]) -> Iterator[NotebookConsole]:
    """A notebook's connection to them."""
    with connect(sqlite=path) as console:
        yield console
