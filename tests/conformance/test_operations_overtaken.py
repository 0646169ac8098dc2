"""What was changed after an operation had chosen it is skipped by its step, to whatever state it was changed."""

from __future__ import annotations

import pytest

from queue_core.errors import JobNotFound
from queue_core.model.job import Job
from queue_core.model.operation import UNCHANGED, Author, ChangeOptions, MemberVerb, OperationRequest
from tests.conformance.making import LEASE, QUEUE, outcome
from tests.conformance.world import World

AUTHOR = Author("ana", "bastion-1")
VERBS: tuple[MemberVerb, ...] = ("retry", "delete", "restore", "purge", "cancel", "move")
CHANGES = (
    ("dead", "delete"),
    ("dead", "delete restore"),
    ("dead", "delete retry"),
    ("dead", "move"),
    ("dead", "move back"),
    ("dead", "retry"),
    ("trashed", "restore"),
    ("trashed", "restore delete"),
    ("trashed", "purge"),
    ("trashed", "retry"),
    ("completed", "retry"),
    ("completed", "retry complete"),
    ("dead", "retry bury"),
    ("queued", "release"),
    ("running", "reclaim claim"),
    ("queued", "move"),
    ("queued", "move back"),
    ("scheduled", "move"),
    ("retrying", "move"),
    ("queued", "cancel"),
    ("scheduled", "cancel"),
    ("retrying", "cancel"),
    ("running", "cancel"),
)
"""States that jobs are chosen in, and what others do to them before the step."""
ATTEMPTS = {"complete": "completed", "bury": "dead", "release": "released", "claim": "", "reclaim": ""}
"""How a further attempt of them ends, by its name."""


async def begun(world: World, verb: MemberVerb, job_id: str, way: ChangeOptions) -> int:
    """Return a running operation that has chosen a job as it is now."""
    number = (await world.operations.create(OperationRequest(verb, "a job", AUTHOR, options=way))).number
    await world.operations.add(number, [job_id])
    assert await world.operations.move(number, "running")
    return number


async def changed(world: World, verb: str, ids: list[str]) -> None:
    """Change jobs as somebody else does: at once, by an operation where they are moved, or as workers that run them."""
    if verb in ATTEMPTS:
        await attempted(world, verb, ids)
        return
    if verb not in {"move", "back"}:
        assert set((await world.change(verb, ids)).ids) == set(ids)
        return
    asked = OperationRequest("move", "jobs", AUTHOR, options=ChangeOptions(queue="other" if verb == "move" else QUEUE))
    number = (await world.operations.create(asked)).number
    await world.operations.add(number, ids)
    await world.operations.move(number, "running")
    assert (await world.operations.step(number, 100)).operation.processed == len(ids)


async def attempted(world: World, verb: str, ids: list[str]) -> None:
    """Run jobs again, up to the end that is named; "claim": up to no end; "reclaim": their worker is lost."""
    if verb == "reclaim":
        await world.advance(LEASE + 1)
        assert {job.id for job in await world.store.reclaim(100)} >= set(ids)
        return
    claims = await world.claim(ids=ids)
    assert {claim.id for claim in claims} == set(ids)
    if kind := ATTEMPTS[verb]:
        assert all(await world.settle_all([outcome(claim, kind) for claim in claims]))


@pytest.mark.parametrize(("state", "changes"), CHANGES)
async def test_a_job_that_was_changed_since_it_was_chosen_is_skipped(world: World, state: str, changes: str) -> None:
    ids = [await world.job_in(state) for _ in VERBS]
    ways = [ChangeOptions(queue="third") if verb == "move" else UNCHANGED for verb in VERBS]
    numbers = [await begun(world, *each) for each in zip(VERBS, ids, ways, strict=True)]
    for change in changes.split():
        await changed(world, change, ids)
    before = [await found(world, job_id) for job_id in ids]
    for verb, number in zip(VERBS, numbers, strict=True):
        step = await world.operations.step(number, 100)
        assert (step.operation.processed, step.operation.skipped) == (0, 1), verb
        assert (step.operation.state, step.changed.ids) == ("done", ()), verb
    assert [await found(world, job_id) for job_id in ids] == before


async def found(world: World, job_id: str) -> Job | None:
    """Return a job, or None where it was purged."""
    try:
        return await world.job(job_id)
    except JobNotFound:
        return None


@pytest.mark.parametrize("change", ["retry complete", "retry bury", "delete", "retry", "retry claim"])
async def test_what_was_changed_between_its_choice_and_its_writing_is_skipped(world: World, change: str) -> None:
    """A sheet is open for minutes: what has completed meanwhile by another's retry would run once more."""
    same, other = await world.job_in("dead"), await world.job_in("dead")
    await world.advance(60)
    chosen = await world.inspector.now()
    for one in change.split():
        await changed(world, one, [other])
    number = (await world.operations.create(OperationRequest("retry", "two jobs", AUTHOR))).number
    await world.operations.add(number, [same, other], chosen)
    if change == "retry claim":
        claimed = await world.job(other)
        assert claimed.status == "running"
    assert await world.operations.move(number, "running")
    before = await world.job(other)
    step = await world.operations.step(number, 100)
    assert (step.changed.ids, step.operation.skipped) == ((same,), 1)
    assert await world.job(other) == before
