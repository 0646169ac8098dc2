"""A process that is stopped at any moment holds the others up for a second at most, and loses and doubles nothing.

But in mode sqlite: who is stopped while it writes has the one lock of the file until it goes on or is killed.
"""

from __future__ import annotations

import asyncio
import json
import random
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from queue_core import JobQueue
from queue_core.model.filters import Filter
from queue_core.model.job import Job
from queue_core.model.settings import JobsSettings
from tests.faults.crew import LEASE, Crew
from tests.faults.ledger import Ledger, read
from tests.faults.plant import LONG, SEED
from tests.postgres.poolers.pooler import PGBOUNCER, pgbouncer
from tests.waiting import eventually

MODES = ("postgres", "postgres behind a pooler", "postgres+redis", "redis", "sqlite")
ROUNDS = 100 if LONG else 5
WITHIN = 12.0
"""Seconds within which others go on: two are promised, but a machine may be slow. Without bounds they never do."""
BATCHES, ENDS = 4, 20
"""What the others do meanwhile, so that it counts as going on."""


class Site:
    """Two producers and two workers, each of which may be stopped."""

    def __init__(self, folder: Path, settings: dict[str, Any]) -> None:
        self.folder = folder
        given = {"FREEZING_FOLDER": str(folder), "FREEZING_SETTINGS": json.dumps(settings)}
        self.crew = Crew(folder, given, "tests.faults.freezing_target:jobs")
        self.jobs = JobQueue(settings=JobsSettings.model_validate(settings))
        self.random = random.Random(SEED)
        self.producers: list[int] = []

    def start(self) -> list[int]:
        workers = self.crew.start(2, queues=("ordered", "narrow"))
        self.producers = [self.crew.start_beside("tests.faults.freezing_producer") for _ in range(2)]
        return workers + self.producers

    @property
    def ledger(self) -> Ledger:
        return read(self.folder)

    def done_without(self, pid: int) -> tuple[int, int]:
        """Return how many batches were written, and how many jobs ended, in all processes but one."""
        ledger = self.ledger
        batches = sum(f"-{pid}-" not in tag for tag in ledger.enqueued)
        return batches, sum(run.pid != pid for run in ledger.ends)

    async def stop_one(self, pid: int, within: float, longer: float) -> float | None:
        """Stop a process until the others have gone on, and some seconds longer; return how long they took."""
        self.crew.send(pid, signal.SIGSTOP)
        since, (batches, ends) = time.monotonic(), self.done_without(pid)

        def gone_on() -> bool:
            now = self.done_without(pid)
            return now[0] >= batches + BATCHES and now[1] >= ends + ENDS

        went_on = await eventually(gone_on, within)
        took = time.monotonic() - since
        await asyncio.sleep(longer)
        self.crew.send(pid, signal.SIGCONT)
        return took if went_on else None

    async def all_jobs(self) -> dict[str, Job]:
        found: dict[str, Job] = {}
        cursor = None
        while True:
            page = await self.jobs.inspector.jobs(Filter(), 1000, cursor)
            found |= {job.id: job for job in page.jobs}
            cursor = page.cursor
            if cursor is None:
                return found

    async def end(self) -> None:
        """Let the producers end, then the work."""
        (self.folder / "stop").touch()
        assert [self.crew.wait(pid) for pid in self.producers] == [0, 0]

        async def quiet() -> bool:
            return (await self.jobs.inspector.conservation()).unfinished == 0

        assert await eventually(quiet), self.crew.log()[-4000:]
        self.crew.drain()


@pytest.fixture(params=MODES)
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[dict[str, Any]]:
    def postgres(**more: Any) -> dict[str, Any]:
        return {"url": request.getfixturevalue("postgres_url")} | more

    def redis() -> dict[str, Any]:
        return {"url": request.getfixturevalue("redis_url"), "prefix": request.getfixturevalue("redis_prefix")}

    with ExitStack() as stack:
        if request.param == "postgres":
            yield {"queue_backend": "postgres", "postgres": postgres()}
        elif request.param == "postgres behind a pooler":
            if PGBOUNCER is None:
                pytest.skip("needs pgbouncer")
            direct = postgres()["url"]
            url = stack.enter_context(pgbouncer(direct))
            yield {"queue_backend": "postgres", "postgres": {"url": url, "prepare": False, "listen_url": direct}}
        elif request.param == "postgres+redis":
            yield {"queue_backend": "redis", "postgres": postgres(), "redis": redis()}
        elif request.param == "redis":
            yield {"queue_backend": "redis", "redis": redis()}
        else:
            yield {"queue_backend": "sqlite", "sqlite": {"path": str(tmp_path / "jobs.db")}}


@pytest.fixture
async def site(tmp_path: Path, settings: dict[str, Any]) -> AsyncIterator[Site]:
    site = Site(tmp_path, settings)
    async with site.jobs:
        yield site
    site.crew.close()


async def test_others_go_on_and_nothing_is_lost_or_doubled(site: Site, settings: dict[str, Any]) -> None:
    pids = site.start()
    assert await eventually(lambda: len(site.ledger.ends) > ENDS), site.crew.log()[-4000:]
    took: list[float | None] = []
    one_lock = settings["queue_backend"] == "sqlite"
    for round_ in range(ROUNDS):
        await asyncio.sleep(site.random.uniform(0.0, 0.3))
        longer = LEASE if round_ % 3 == 2 else 0.0
        took.append(await site.stop_one(site.random.choice(pids), 2.0 if one_lock else WITHIN, longer))
    await site.end()
    print(f"[faults, seed {SEED}] others went on after", [one and round(one, 2) for one in took])  # noqa: T201
    assert one_lock or None not in took, took
    lost, problems = await findings(site)
    assert lost == set()
    assert problems == []


async def findings(site: Site) -> tuple[set[str], list[str]]:
    """Return the jobs that were acknowledged and are not there, and whatever else is wrong."""
    ledger, jobs = site.ledger, await site.all_jobs()
    tokens, ends = ledger.tokens(), {(run.id, run.token) for run in ledger.ends}
    wrong = [f"{job.id} is {job.status}" for job in jobs.values() if job.status != "completed"]
    wrong += [
        f"{job.id} ended by {job.token} with {job.result}, started by {tokens[job.id]}"
        for job in jobs.values()
        if job.result != {"token": job.token} or job.token != max(tokens[job.id]) or (job.id, job.token) not in ends
    ]
    again = [key for key, count in Counter((run.id, run.token) for run in ledger.starts).items() if count > 1]
    wrong += [f"{key} was started twice" for key in again]
    tags = Counter(tag for job in jobs.values() for tag in job.tags)
    wrong += [f"{tags[tag]} of {tag} were written" for tag, n in ledger.open_batches.items() if tags[tag] not in {0, n}]
    total = (await site.jobs.inspector.conservation()).completed
    if total != len(jobs):
        wrong.append(f"{len(jobs)} jobs, but a total of {total}")
    return ledger.ids - jobs.keys(), wrong
