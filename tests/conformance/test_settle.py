"""Settle: end attempts whose token still holds."""

import pytest

from queue_core.model.filters import Filter
from queue_core.model.job import JobResult
from queue_core.model.states import Status
from tests.conformance.making import LEASE, UNKNOWN, failure, new_job, outcome
from tests.conformance.test_insert import HOSTILE
from tests.conformance.world import World

KINDS = ("completed", "retrying", "dead", "released", "cancelled")
DEAD = Filter()
STATUS = {
    "completed": "completed",
    "retrying": "retrying",
    "dead": "dead",
    "released": "queued",
    "cancelled": "cancelled",
}


async def test_a_job_that_runs_has_no_result_yet(world: World) -> None:
    claim = await world.running()
    assert await world.store.results([claim.id]) == [JobResult(claim.id, Status.RUNNING, None, None)]


@pytest.mark.parametrize("kind", KINDS)
async def test_each_kind_leads_to_its_state(world: World, kind: str) -> None:
    claim = await world.running()
    settled = await world.settle(claim, kind)
    assert (settled.id, settled.accepted) == (claim.id, True)
    job = await world.job(claim.id)
    assert (job.status, job.token, job.lease_expires_at) == (STATUS[kind], claim.token, None)
    assert (await world.beat(worker="w")).lost == ()


async def test_complete_keeps_the_result(world: World) -> None:
    claim = await world.running(worker="worker-7")
    settled = await world.settle(claim, "completed", result='{"width": 100}', run_us=1500)
    assert (settled.rank, settled.due) == (None, None)
    job = await world.job(claim.id)
    assert (job.result, job.worker, job.progress, job.error) == ({"width": 100}, "worker-7", 100, None)
    assert job.completed_at == job.updated_at
    assert job.started_at is not None


async def test_complete_without_a_result(world: World) -> None:
    claim = await world.ended("completed")
    assert (await world.job(claim.id)).result is None
    assert (await world.store.results([claim.id]))[0].result is None


async def test_retry_waits_and_counts(world: World) -> None:
    claim = await world.running()
    before = await world.now()
    why = failure("disk full", signature="ffff0000ffff")
    settled = await world.settle(claim, "retrying", delay=90.0, failure=why)
    assert settled.rank is None
    assert settled.due is not None
    assert before + 90 <= settled.due <= await world.now() + 90
    job = await world.job(claim.id)
    assert (job.status, job.retry_count, job.crashes) == ("retrying", 1, 0)
    assert job.run_at.timestamp() == pytest.approx(settled.due, abs=0.001)
    assert job.error == "OSError: disk full"
    assert (job.failure_kind, job.signature, job.traceback) == ("error", "ffff0000ffff", why.traceback)
    assert (job.worker, job.started_at, job.completed_at, job.progress) == (None, None, None, 0)


async def test_a_retry_without_a_delay_can_be_promoted_at_once(world: World) -> None:
    claim = await world.ended("retrying", {"delay": 0.0})
    assert [ready.id for ready in await world.store.promote(10)] == [claim.id]
    assert (await world.claim_job(claim.id)).retry_count == 1


async def test_bury_keeps_everything(world: World) -> None:
    claim = await world.running(worker="worker-7", payload='{"path": "a.png"}', priority=9, tags=("x",))
    why = failure("second line\nis left out", kind="timeout", exception="app.errors.TooSlow", signature="00ff00ff00ff")
    settled = await world.settle(claim, "dead", failure=why)
    assert (settled.rank, settled.due) == (None, None)
    job = await world.job(claim.id)
    assert (job.payload, job.priority, job.tags, job.worker) == ({"path": "a.png"}, 9, ("x",), "worker-7")
    assert (job.status, job.retry_count, job.trashed_at) == ("dead", 0, None)
    assert (job.crashes, job.losses) == (0, 0)
    assert (job.failure_kind, job.signature, job.traceback) == ("timeout", "00ff00ff00ff", why.traceback)
    assert job.error == "TooSlow: second line"
    assert job.completed_at == job.updated_at


@pytest.mark.parametrize(("kind", "counted"), [("error", (0, 0)), ("poison", (1, 0)), ("lost", (0, 1))])
async def test_burying_counts_deaths_and_losses(world: World, kind: str, counted: tuple[int, int]) -> None:
    claim = await world.ended("dead", {"failure": failure(kind=kind)})
    job = await world.job(claim.id)
    assert (job.crashes, job.losses) == counted


async def test_attempts_are_numbered_on_behind_deaths_and_losses(world: World) -> None:
    """An operator's retry keeps the deaths that were seen, and counts losses and retries from 0 again."""
    claim = await world.ended("dead", {"failure": failure(kind="poison")})
    await world.change("retry", [claim.id])
    await world.settle(await world.claim_job(claim.id), "released", failure=failure(kind="lost"))
    for kind in ("retrying", "dead"):
        await world.settle(await world.claim_job(claim.id), kind, delay=0.0)
        await world.store.promote(10)
    assert [one.number for one in await world.inspector.attempts(claim.id)] == [1, 2, 3, 4]


async def test_release_uses_up_no_attempt(world: World) -> None:
    claim = await world.running()
    settled = await world.settle(claim, "released")
    assert (settled.rank, settled.due) == (claim.rank, None)
    job = await world.job(claim.id)
    assert (job.retry_count, job.crashes, job.error, job.worker) == (0, 0, None, None)
    assert await world.inspector.attempts(claim.id) == []
    assert await world.claim_ids() == [claim.id]


async def test_a_release_keeps_what_was_known_of_the_job(world: World) -> None:
    """The error of its last failed attempt, and since when it could have run."""
    claim = await world.ended("retrying", {"delay": 0.0})
    await world.store.promote(10)
    before = await world.job(claim.id)
    again = await world.claim_job(claim.id)
    await world.advance(30)
    await world.settle(again, "released")
    job = await world.job(claim.id)
    assert (job.error, job.retry_count) == (before.error, 1) == ("OSError: no such file", 1)
    was_due, is_due = before.run_at - before.created_at, job.run_at - job.created_at
    assert (is_due - was_due).total_seconds() == pytest.approx(0, abs=0.001)


async def test_cancel_ends_it(world: World) -> None:
    claim = await world.running(worker="worker-7")
    settled = await world.settle(claim, "cancelled")
    assert (settled.rank, settled.due) == (None, None)
    job = await world.job(claim.id)
    assert (job.status, job.result, job.worker) == ("cancelled", None, "worker-7")
    assert job.completed_at == job.updated_at


async def test_failed_attempts_are_kept_in_order(world: World) -> None:
    job_id = await world.insert()
    tokens = []
    for number in range(1, 4):
        claim = await world.claim_job(job_id, worker=f"worker-{number}")
        tokens.append(claim.token)
        kind = "dead" if number == 3 else "retrying"
        await world.settle(claim, kind, delay=0.0, failure=failure(f"number {number}", signature=f"{number:012}"))
        await world.store.promote(10)
    attempts = await world.inspector.attempts(job_id)
    assert [attempt.number for attempt in attempts] == [1, 2, 3]
    assert [attempt.token for attempt in attempts] == tokens
    assert [attempt.message for attempt in attempts] == ["number 1", "number 2", "number 3"]
    assert [attempt.worker for attempt in attempts] == ["worker-1", "worker-2", "worker-3"]
    assert {attempt.job_id for attempt in attempts} == {job_id}
    assert attempts[0].exception == "builtins.OSError"
    assert attempts[0].traceback.endswith("OSError: number 1")
    assert attempts[0].started_at is not None
    assert attempts[0].started_at <= attempts[0].finished_at
    assert (await world.job(job_id)).signature == "000000000003"


async def test_the_error_of_a_job_is_that_of_its_last_attempt(world: World) -> None:
    job_id = await world.insert()
    for number, kind in enumerate(("error", "timeout", "error")):
        claim = await world.claim_job(job_id)
        why = failure(f"number {number}", kind=kind, signature=f"{number:012}")
        await world.settle(claim, "dead" if number == 2 else "retrying", delay=0.0, failure=why)
        await world.store.promote(10)
        job = await world.job(job_id)
        assert (job.error, job.failure_kind, job.signature) == (f"OSError: number {number}", why.kind, why.signature)


async def test_a_completed_job_keeps_the_error_of_its_last_failed_attempt(world: World) -> None:
    claim = await world.ended("retrying", {"delay": 0.0})
    await world.store.promote(10)
    await world.settle(await world.claim_job(claim.id), "completed", result="1")
    job = await world.job(claim.id)
    assert (job.status, job.retry_count, job.error) == ("completed", 1, "OSError: no such file")
    assert len(await world.inspector.attempts(claim.id)) == 1


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
async def test_hostile_failures_are_kept_as_they_are(world: World, text: str) -> None:
    claim = await world.running()
    why = failure(f"x{text}", exception=text, traceback=text, title=text)
    await world.settle(claim, "dead", failure=why)
    (attempt,) = await world.inspector.attempts(claim.id)
    assert (attempt.exception, attempt.message, attempt.traceback) == (why.exception, why.message, why.traceback)
    assert (await world.job(claim.id)).traceback == text
    (group,) = await world.inspector.signatures(where=DEAD, window=3600, slices=4, limit=10)
    assert group.title == text


@pytest.mark.parametrize(
    "result", ['"\\u0001 🦀 {} NULL"', '[1, "a,b", null]', "0", "false", '"' + "ü" * 500_000 + '"']
)
async def test_results_come_back_as_they_were(world: World, result: str) -> None:
    claim = await world.ended("completed", {"result": result})
    (final,) = await world.store.results([claim.id])
    assert final.result == result


async def test_a_mixed_batch_is_answered_in_order(world: World) -> None:
    claims = [(await world.running(), kind) for kind in KINDS * 4]
    outcomes = []
    for number, (claim, kind) in enumerate(claims):
        one = outcome(claim, kind)
        outcomes.append(one._replace(token=one.token + 1000) if number % 3 == 0 else one)
    answers = await world.store.settle(outcomes)
    assert [answer.id for answer in answers] == [claim.id for claim, _ in claims]
    assert [answer.accepted for answer in answers] == [number % 3 != 0 for number in range(20)]
    for number, (claim, kind) in enumerate(claims):
        assert await world.status(claim.id) == (STATUS[kind] if number % 3 else "running")
    for answer, (_, kind) in zip(answers, claims, strict=True):
        assert (answer.rank is not None) == (answer.accepted and kind == "released")
        assert (answer.due is not None) == (answer.accepted and kind == "retrying")


async def test_nothing_to_settle(world: World) -> None:
    assert await world.store.settle([]) == []


async def test_outcomes_of_several_queues_and_types(world: World) -> None:
    claims = [await world.running(queue=f"q{number}", type=f"t{number}") for number in range(4)]
    assert await world.settle_all([outcome(claim, "completed") for claim in claims]) == [True] * 4
    for claim in claims:
        assert await world.status(claim.id) == "completed"


async def test_many_at_once(world: World) -> None:
    await world.insert_many(5000)
    claims = await world.claim(5000)
    answers = await world.store.settle([outcome(claim, "completed", run_us=10) for claim in claims])
    assert all(answer.accepted for answer in answers)
    assert (await world.inspector.conservation()).completed == 5000


async def test_after_its_expiry_it_is_still_accepted(world: World) -> None:
    """The lease holds until somebody takes the job back."""
    claim = await world.running()
    await world.advance(LEASE * 10)
    assert (await world.settle(claim, "completed")).accepted
    assert await world.status(claim.id) == "completed"
    assert await world.store.reclaim(10) == []


async def test_the_times_of_a_job_follow_each_other(world: World) -> None:
    (inserted,) = await world.store.insert([new_job(delay=5)])
    await world.advance(6)
    await world.store.promote(10)
    await world.advance(1)
    claim = await world.claim_job(inserted.id)
    await world.advance(2)
    await world.settle(claim, "completed")
    job = await world.job(claim.id)
    assert job.started_at is not None
    assert job.completed_at is not None
    assert job.created_at < job.run_at < job.started_at < job.completed_at
    assert (job.completed_at - job.started_at).total_seconds() == pytest.approx(2, abs=1)


async def test_a_job_that_is_not_there_is_refused(world: World) -> None:
    claim = await world.running()
    gone = outcome(claim._replace(id=UNKNOWN), "completed")
    assert await world.settle_all([gone, outcome(claim, "completed")]) == [False, True]
