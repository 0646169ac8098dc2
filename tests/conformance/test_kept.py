"""What a job was given stays with it, whatever becomes of it and however often it goes from place to place."""

from __future__ import annotations

import pytest

from tests.conformance.making import LEASE
from tests.conformance.world import World

GIVEN = {
    "payload": '{"a": 1}', "tags": ("x", "y"), "headers": {"trace": "t-1"}, "priority": 7, "max_retries": 9,
    "ordering_key": "k", "unique_key": "u",
}  # fmt: skip
KEPT = ("queue", "type", "created_at", *GIVEN)
ENDS = ("completed", "cancelled", "dead", "retrying", "released", "rescheduled")
LOSSES = {"lost": 3, "lost for good": 1, "lost before it began": 3, "lost and cancelled": 3}
"""With the number of losses that bury a job."""
LATER = ("retrying", "rescheduled")
"""It is due at another time then."""


@pytest.mark.parametrize("way", [*ENDS, *LOSSES, "cancelled as it fails", "cancelled as it is released"])
async def test_an_attempt_leaves_all_that_its_job_was_given(world: World, way: str) -> None:
    job_id = await world.insert(**GIVEN)
    claim = await world.claim_job(job_id, start_count=0 if way == "lost before it began" else 1)
    if "cancelled " in way or way == "lost and cancelled":
        await world.change("cancel", [job_id])
    await world.advance(LEASE + 1 if way in LOSSES else 5)
    before = await world.job(job_id)
    if way in LOSSES:
        assert len(await world.store.reclaim(10, LOSSES[way])) == 1
    elif way == "rescheduled":
        await world.settle(claim, "released", to_back=True, delay=60.0)
    else:
        kind = {"cancelled as it fails": "retrying", "cancelled as it is released": "released"}.get(way, way)
        assert (await world.settle(claim, kind)).accepted
    job = await world.job(job_id)
    assert job.status != "running"
    assert {name: getattr(job, name) for name in KEPT} == {name: getattr(before, name) for name in KEPT}
    assert job.run_at == before.run_at or way in LATER


@pytest.mark.parametrize("verbs", ["cancel", "delete", "delete restore", "retry", "delete retry"])
@pytest.mark.parametrize("state", ["queued", "scheduled", "retrying", "completed", "dead"])
async def test_an_operator_leaves_all_that_a_job_was_given(world: World, state: str, verbs: str) -> None:
    job_id = await world.job_in(state, **GIVEN)
    await world.advance(5)
    before = await world.job(job_id)
    for verb in verbs.split():
        await world.change(verb, [job_id])  # type: ignore[arg-type]
    job = await world.job(job_id)
    assert {name: getattr(job, name) for name in KEPT} == {name: getattr(before, name) for name in KEPT}
