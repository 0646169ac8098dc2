"""A worker sleeps beyond its lease: whoever has its job by then is the only one to say how it ended."""

from __future__ import annotations

import signal

import psycopg
import pytest

from tests.faults.plant import LONG, Plant
from tests.waiting import eventually

TRACES = """
select 'jobs', md5(t::text) from jobs t union all select 'leases', md5(t::text) from (
    select id, token, worker, started_at, progress, message, cancel from leases) t
union all select 'dead', md5(t::text) from jobs_dead t union all select 'history', md5(t::text) from job_history t
union all select 'attempts', md5(t::text) from job_attempts t order by 1, 2
"""


def bytes_of_everything(plant: Plant) -> list[tuple[str, str]]:
    """Return a digest of every row about jobs; when a lease ends is left out, since heartbeats renew it."""
    with psycopg.connect(plant.postgres_url) as connection:
        return connection.execute(TRACES).fetchall()  # type: ignore[return-value]


async def a_sleeper(plant: Plant, gate_of_attempt: int, without_fence: bool = False) -> int:
    """Return a worker that has run its job's first attempt to its end, and fell asleep before it could say so."""
    fence = {"FAULTS_WITHOUT_FENCE": "1"} if without_fence else {}
    (sleeper,) = plant.crew.start(1, environment=fence)
    plant.arm("before_settle", "SIGSTOP")
    await plant.enqueue(1, "waits_for", gate="second", of_attempt=gate_of_attempt)
    assert await plant.until_sprung("before_settle") == sleeper
    return sleeper


async def wake(plant: Plant, sleeper: int) -> None:
    """Let it go on, and wait until it has said how its attempt ended."""
    plant.crew.send(sleeper, signal.SIGCONT)
    assert await eventually(lambda: plant.ledger.refused or len(plant.ledger.ends) > 2), plant.crew.log()


@pytest.mark.parametrize("kind", ["finished", "still running"])
async def test_a_settle_after_the_lease_is_refused(plant: Plant, kind: str) -> None:
    """Not a byte changes, whether the other one has finished or is in the middle of it."""
    sleeper = await a_sleeper(plant, gate_of_attempt=2)
    plant.crew.start(1)
    await plant.until_started(2)
    if kind == "finished":
        plant.open_gate("second")
        await plant.until_quiet()
    before = bytes_of_everything(plant)
    await wake(plant, sleeper)
    assert bytes_of_everything(plant) == before
    plant.open_gate("second")
    await plant.until_quiet()
    found = await plant.findings(f"asleep, the other {kind}")
    assert found.problems == []
    assert (found.jobs, found.extra_runs, found.stale_refused) == (1, 1, 1)


async def test_can_fail(plant: Plant) -> None:
    """Without the fence, the sleeper ends the job under the hands of the one that runs it, and the checks see it."""
    sleeper = await a_sleeper(plant, gate_of_attempt=2, without_fence=True)
    plant.crew.start(1)
    await plant.until_started(2)
    before = bytes_of_everything(plant)
    plant.crew.send(sleeper, signal.SIGCONT)
    assert await eventually(lambda: bytes_of_everything(plant) != before)
    # The other one may have learned by now that its lease is gone; then its handler does not come to its end.
    plant.open_gate("second")
    await plant.until_quiet()
    found = await plant.findings("asleep, without the fence")
    assert len(found.stale_writes) == 1
    assert found.problems != []


async def test_asleep_in_the_middle_of_a_handler(plant: Plant) -> None:
    """Its heartbeat learns that the leases are over and stops what it runs; nothing of it is written."""
    (sleeper,) = plant.crew.start(1)
    await plant.enqueue(5, "waits_for", gate="first", of_attempt=1)
    await plant.until_started(5, sleeper)
    plant.crew.send(sleeper, signal.SIGSTOP)
    plant.crew.start(1)
    await plant.until_ended(5)
    await plant.until_quiet()
    before = bytes_of_everything(plant)
    plant.crew.send(sleeper, signal.SIGCONT)
    await plant.enqueue(20)
    await plant.until_ended(25)
    plant.open_gate("first")
    await plant.until_quiet()
    assert set(before) <= set(bytes_of_everything(plant))
    found = await plant.findings("asleep in its handlers")
    assert found.problems == []
    assert (found.jobs, found.extra_runs) == (25, 5)


async def test_alone_and_asleep(plant: Plant) -> None:
    """It wakes up, gets its own jobs again, and does not take one attempt for the other."""
    (sleeper,) = plant.crew.start(1)
    await plant.enqueue(5, "waits_for", gate="first", of_attempt=1)
    await plant.until_started(5)
    plant.crew.send(sleeper, signal.SIGSTOP)
    with psycopg.connect(plant.postgres_url, autocommit=True) as connection:
        connection.execute("update leases set expires_at = now() - interval '1 second'")
    await plant.take_back()
    plant.crew.send(sleeper, signal.SIGCONT)
    await plant.until_quiet()
    found = await plant.findings("alone and asleep")
    assert found.problems == []
    assert (found.jobs, found.extra_runs) == (5, 5)
    assert found.stale_refused == 0, "the earlier attempts were stopped when the next ones began"


async def test_asleep_under_load_again_and_again(plant: Plant) -> None:
    """One after the other of a crew, for longer than a lease each."""
    plant.crew.start(3)
    async with plant.load(longest_ms=400):
        for _ in range(10 if LONG else 2):
            sleeper = plant.random.choice(plant.crew.alive)
            await plant.until_started(plant.started(sleeper) + 20, sleeper)
            plant.crew.send(sleeper, signal.SIGSTOP)
            await plant.until_back(len(plant.ledger.back) + 1)
            plant.crew.send(sleeper, signal.SIGCONT)
    await plant.until_quiet()
    found = await plant.findings("asleep under load")
    assert found.problems == []
    assert found.extra_runs > 0
