"""The model against a storm of random events, some lost, doubled or late: at rest it says what the store says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from random import Random

import pytest

from jobconsole.core.events import KEPT
from jobconsole.core.model import Model
from jobconsole.core.running import ENDED_LIMIT
from jobconsole.core.snapshot import RUNNING, SnapshotNeeds, read_snapshot
from queue_core import JobQueue
from queue_core.model.filters import Filter, Term
from tests.console.storm import Channel, Shop
from tests.longer import LONG, SEED

EVENTS = 1_000_000 if LONG else 50_000
RESTS = 25
"""How often everything comes to rest and is compared."""
STEP_SECONDS = 0.005


class Watch:
    """The console's side: applies what arrives, reads a snapshot when the model asks for one, a second apart."""

    def __init__(self, jobs: JobQueue) -> None:
        self.jobs = jobs
        self.at = 1_000.0
        self.model = Model(lambda: self.at)
        self.heard = 0
        self._read_at = 0.0

    async def look(self) -> None:
        """Let a moment pass, and read a snapshot when it is time."""
        self.at += STEP_SECONDS
        if self.model.stale and self.at - self._read_at >= 1.0:
            await self.read()

    async def read(self) -> None:
        """Read a snapshot as the refresher does."""
        read = await read_snapshot(self.jobs.inspector, SnapshotNeeds())
        self.model.adopt(replace(read, began=self.at, taken=self.at))
        self._read_at = self.at


Told = dict[str, Mapping[str, object]]


async def told(jobs: JobQueue) -> Told:
    """Return what the store says, by other questions than the snapshot's."""
    inspector = jobs.inspector
    states = {
        state: await inspector.count(Filter((Term("status", "=", state),)), 10_000_000)
        for state in ("queued", "running", "scheduled", "retrying", "dead")
    }
    trashed = await inspector.count(Filter(trash=True), 10_000_000)
    running = {
        job.id: (job.token, job.progress, job.progress_message, job.type, job.queue)
        for job in (await inspector.jobs(RUNNING, 10_000)).jobs
    }
    dead = await inspector.ids(Filter((Term("status", "=", "dead"),)), 10_000_000)
    groups = Counter([str((await inspector.get(job_id)).signature) for job_id in dead])
    return {"states": states | {"trashed": trashed}, "running": running, "groups": dict(groups)}


def different(shown: Told, told: Told) -> list[tuple[str, str, object, object]]:
    """Return what the console shows otherwise than the store says it: where, what, both sayings."""
    return [
        (part, key, shown[part].get(key), told[part].get(key))
        for part in told
        for key in sorted({*shown[part], *told[part]})
        if shown[part].get(key) != told[part].get(key)
    ]


def shown(model: Model) -> Told:
    """Return what the console would show."""
    assert model.snapshot is not None
    totals = model.snapshot.totals
    named = ("queued", "running", "scheduled", "retrying", "dead", "trashed")
    states = {state: getattr(totals, state) for state in named}
    running = {
        job.id: (job.token, job.progress, job.message, job.type, job.queue) for job in model.running.live.values()
    }
    groups = {group.signature: group.count for group in model.snapshot.signatures}
    return {"states": states, "running": running, "groups": groups}


def assert_nothing_comes_back(model: Model, channel: Channel) -> None:
    """What ended stays ended, and what runs goes on, when old messages come once more."""
    before = {job.id: job.token for job in model.running.live.values()}
    progress = {job.id: (job.progress, job.message) for job in model.running.live.values()}
    for batch in reversed(channel.old):
        model.apply(batch._replace(events=[event for event in batch.events if event.event != "progress"]))
    assert {job.id: job.token for job in model.running.live.values()} == before
    assert {job.id: (job.progress, job.message) for job in model.running.live.values()} == progress


@pytest.mark.timeout(1_800 if LONG else 300)
async def test_at_rest_the_model_says_what_the_store_says(jobs: JobQueue) -> None:
    chance = Random(SEED)
    shop, channel, watch = Shop(jobs, chance), Channel(chance), Watch(jobs)
    happened = rests = 0
    while happened < EVENTS:
        events = await shop.step()
        resting = happened * RESTS // EVENTS > rests
        if resting:
            rests += 1
            events += await shop.calm_down()
        happened += len(events)
        for batch in [*channel.send(events), *(channel.rest() if resting else ())]:
            watch.model.apply(batch)
            watch.heard += len(batch.events)
        await watch.look()
        if resting:
            watch.at += 1.0
            await watch.read()
            assert_nothing_comes_back(watch.model, channel)
            assert different(shown(watch.model), await told(jobs)) == [], f"seed {SEED}, after {happened:,} events"
    assert rests == RESTS - 1 or rests == RESTS
    assert watch.heard != happened, "the channel lost and doubled nothing"
    assert len(watch.model.event_tail._events) <= KEPT
    assert len(watch.model.running._ended) <= ENDED_LIMIT
