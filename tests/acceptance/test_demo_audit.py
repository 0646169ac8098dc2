"""The sum at the end can fail: lost jobs, jobs from elsewhere and outdated writes are told apart."""

from pathlib import Path

import pytest

from jobconsole.demo.ledger import Findings, LedgerWriter, compare, read_ledger
from queue_core import JobQueue
from queue_core.model.job import Claim, Outcome
from queue_core.model.signature import failure_of
from queue_core.ports.store import ClaimRequest

UNKNOWN = "01900000-0000-7000-8000-000000000000"


class Scene:
    """A queue in memory and the ledger of those who use it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.jobs = JobQueue(memory=True)
        self.ledger = LedgerWriter(folder)

    async def enqueue(self, tag: str, count: int, told: bool = True) -> list[str]:
        self.ledger.batch(tag, count)
        handles = await self.jobs.enqueue_many("work", [{}] * count, tags=[tag])
        ids = [handle.id for handle in handles]
        if told:
            self.ledger.enqueued(tag, ids)
        return ids

    async def claim(self) -> Claim:
        request = ClaimRequest("default", "worker-1", ("work",), 1, 60.0)
        (claim,) = await self.jobs.store.claim(request)
        self.ledger.start(claim.id, claim.token, "worker-1")
        return claim

    async def finish(self, claim: Claim) -> None:
        await self.jobs.store.settle([Outcome(claim.id, claim.token, claim.queue, claim.type, "completed")])

    async def bury(self, claim: Claim) -> None:
        failure = failure_of(ValueError("no"), "error", 1000)
        outcome = Outcome(claim.id, claim.token, claim.queue, claim.type, "dead", failure=failure)
        await self.jobs.store.settle([outcome])

    async def findings(self) -> Findings:
        ledger = read_ledger(self.folder)
        return await compare(ledger, self.jobs.store, self.jobs.inspector, "demo-")


@pytest.fixture
async def scene(tmp_path: Path) -> Scene:
    scene = Scene(tmp_path)
    await scene.jobs.open()
    return scene


async def test_what_was_enqueued_is_there(scene: Scene) -> None:
    await scene.enqueue("demo-1", 700)
    await scene.finish(await scene.claim())
    assert await scene.findings() == Findings(enqueued=700)


async def test_a_committed_batch_whose_producer_was_killed_counts_and_is_not_lost(scene: Scene) -> None:
    await scene.enqueue("demo-1", 3)
    await scene.enqueue("demo-2", 2, told=False)
    assert await scene.findings() == Findings(enqueued=5)


async def test_a_batch_that_was_never_committed_is_nothing(scene: Scene) -> None:
    scene.ledger.batch("demo-1", 3)
    assert await scene.findings() == Findings()


async def test_an_id_that_the_store_does_not_know_is_lost(scene: Scene) -> None:
    scene.ledger.batch("demo-1", 1)
    scene.ledger.enqueued("demo-1", [UNKNOWN])
    assert await scene.findings() == Findings(enqueued=1, lost={UNKNOWN})


async def test_jobs_of_others_count_and_are_named(scene: Scene) -> None:
    await scene.enqueue("demo-1", 2)
    await scene.jobs.enqueue("work", {}, tags=["mine"])
    assert await scene.findings() == Findings(enqueued=3, others=1)


async def test_a_job_from_nowhere_makes_the_sum_fail(scene: Scene) -> None:
    await scene.enqueue("demo-1", 2)
    await scene.jobs.enqueue("work", {}, tags=["demo-1"])
    assert (await scene.findings()).enqueued == 2
    assert (await scene.jobs.inspector.conservation()).unfinished == 3


async def test_purged_jobs_are_not_lost(scene: Scene) -> None:
    await scene.enqueue("demo-1", 2)
    claim = await scene.claim()
    await scene.bury(claim)
    await scene.jobs.operations.change("delete", [claim.id])
    assert await scene.findings() == Findings(enqueued=2)
    await scene.jobs.operations.change("purge", [claim.id])
    assert await scene.findings() == Findings(enqueued=2)
    assert (await scene.jobs.inspector.conservation()).dead == 1


async def test_a_final_state_that_a_later_attempt_did_not_write_is_stale(scene: Scene) -> None:
    await scene.enqueue("demo-1", 1)
    claim = await scene.claim()
    scene.ledger.start(claim.id, claim.token + 1, "worker-2")
    await scene.finish(claim)
    assert await scene.findings() == Findings(enqueued=1, stale_writes={claim.id})


async def test_refused_outcomes_are_counted_apart(scene: Scene) -> None:
    await scene.enqueue("demo-1", 1)
    claim = await scene.claim()
    scene.ledger.refused(claim.id, claim.token - 1)
    await scene.finish(claim)
    assert await scene.findings() == Findings(enqueued=1, stale_refused=1)
