"""One operation and several processes: each member is changed once, whoever executes and whoever is killed."""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path

from queue_core.model.operation import Author, OperationRequest
from queue_core.stores.sqlite.operations import SqliteOperations
from queue_core.stores.sqlite.read import SqliteInspector
from queue_core.stores.sqlite.session import SqliteFile
from queue_core.stores.sqlite.store import SqliteStore
from tests.conformance.making import new_job, outcome
from tests.sqlite.conftest import NewFile
from tests.sqlite.crashing import REQUEST
from tests.sqlite.processes import PATIENCE, Spawn, entries, number, wait_until
from tests.sqlite.test_crash import crash

COUNT = 2000
STEP = 5


async def dead(file: SqliteFile, count: int) -> list[str]:
    store = SqliteStore(file)
    await store.insert([new_job() for _ in range(count)])
    claims = await store.claim(REQUEST._replace(limit=count))
    await store.settle([outcome(claim, "dead") for claim in claims])
    return [claim.id for claim in claims]


async def retrying(file: SqliteFile, count: int) -> tuple[int, list[str]]:
    """Return the number of a running operation that retries so many dead jobs, and their ids."""
    ids, operations = await dead(file, count), SqliteOperations(file)
    operation = await operations.create(OperationRequest("retry", "all", Author("ana", "bastion-1")))
    await operations.add(operation.number, ids)
    assert await operations.move(operation.number, "running")
    return operation.number, ids


async def check_all_done(file: SqliteFile, operation: int, ids: list[str]) -> None:
    """Check that every member was changed once, by what the file says."""
    found = await SqliteOperations(file).get(operation)
    assert (found.state, found.done, found.processed, found.skipped, found.errored) == ("done", COUNT, COUNT, 0, 0)
    assert [one.id for one in await SqliteOperations(file).list_members(operation, 0, COUNT)] == ids
    inspector = SqliteInspector(file)
    totals = {one.outcome: one.count for one in await inspector.tallies()}
    assert totals == {"enqueued": COUNT, "dead": COUNT, "retried_by_operator": COUNT}
    assert [(one.queued, one.dead) for one in (await inspector.overview()).queues] == [(COUNT, 0)]


def steps(path: Path, process: subprocess.Popen[bytes]) -> list[list[str]]:
    return [entry["ids"] for entry in entries(path) if entry["pid"] == process.pid]


async def test_two_processes_share_its_members(path: Path, new_file: NewFile, spawn: Spawn) -> None:
    file = new_file()
    operation, ids = await retrying(file, COUNT)
    # So that neither has done all before the other one has started.
    await SqliteOperations(file).move(operation, "paused")
    both = [spawn("tests.sqlite.executor", str(operation), str(STEP)) for _ in range(2)]
    wait_until(lambda: all(steps(path, one) for one in both), "the executors have not started")
    await SqliteOperations(file).move(operation, "running")
    assert [one.wait(PATIENCE) for one in both] == [0, 0]
    noted = Counter(job_id for entry in entries(path) for job_id in entry["ids"])
    assert noted == Counter(ids)
    assert all(any(steps(path, one)) for one in both), "they did not share the work"
    await check_all_done(file, operation, ids)


async def test_another_one_goes_on_where_one_was_killed(path: Path, new_file: NewFile, spawn: Spawn) -> None:
    file = new_file()
    operation, ids = await retrying(file, COUNT)
    victim = spawn("tests.sqlite.executor", str(operation), str(STEP))
    wait_until(lambda: len(steps(path, victim)) >= 3, "the victim has not begun")
    victim.kill()
    victim.wait()
    left = await SqliteOperations(file).get(operation)
    assert (left.state, left.done) == ("running", left.processed)
    assert number(path, "select count(*) from jobs where state = 'queued'") == left.processed
    # What it was killed in is done whole or not at all, and may only be unknown to whoever took its notes.
    assert 0 <= left.done - STEP * len(steps(path, victim)) <= STEP
    other = spawn("tests.sqlite.executor", str(operation), str(STEP))
    assert other.wait(PATIENCE) == 0
    assert [job_id for step in steps(path, other) for job_id in step] == ids[left.done :]
    await check_all_done(file, operation, ids)


async def test_a_step_that_is_killed_leaves_nothing(path: Path, new_file: NewFile) -> None:
    file = new_file()
    operation, ids = await retrying(file, 50)
    before = await SqliteOperations(file).get(operation)
    crash(path, "operate")
    assert await SqliteOperations(file).get(operation) == before
    assert await SqliteOperations(file).list_members(operation, 0, 100) == []
    assert number(path, "select count(*) from jobs where state = 'dead'") == 50
    step = await SqliteOperations(file).step(operation, 100)
    assert (step.changed.ids, step.operation.state) == (tuple(ids), "done")
