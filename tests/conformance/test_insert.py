"""Insert: write the jobs, all or none, as queued or scheduled, creating their queues; answer in the same order."""

from typing import Any

import pytest

from queue_core.errors import QueueCoreError
from queue_core.model.rules import rank
from tests.conformance.making import TYPE, new_job
from tests.conformance.world import UNFINISHED, World

# What breaks quoting, arrays and terminals in text that a store takes.
HOSTILE = {
    "emoji": "🦀👩‍👩‍👧‍👦 and \u202eright to left\u202c",
    "arabic": "مرحبا بالعالم",
    "combining": "e\u0301\u0323 \ufdfa",
    "quotes": "'single' \"double\" `back` $1 $$ %s %(id)s {} :x",
    "array": '{"a,b",NULL,{}}',
    "backslashes": "\\ \\\\ \\n \\x41 \\",
    "null word": "NULL",
    "controls": "\x01\x02\x1b[31m\x7f\t\r\n",
    "spaces": "  both ends  ",
    "sql": "'; DROP TABLE jobs; --",
}


@pytest.fixture(params=HOSTILE.values(), ids=HOSTILE.keys())
def hostile(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def test_a_job_without_a_delay_is_ready(world: World) -> None:
    job = new_job()
    (inserted,) = await world.store.insert([job])
    assert (inserted.id, inserted.queue, inserted.due, inserted.created) == (job.id, job.queue, None, True)
    assert inserted.rank is not None
    assert await world.status(job.id) == "queued"


async def test_a_delay_makes_it_scheduled(world: World) -> None:
    before = await world.now()
    (inserted,) = await world.store.insert([new_job(delay=90)])
    assert inserted.rank is None
    assert inserted.due is not None
    assert before + 90 <= inserted.due <= await world.now() + 90
    job = await world.job(inserted.id)
    assert job.status == "scheduled"
    assert job.run_at.timestamp() == pytest.approx(inserted.due, abs=0.001)


@pytest.mark.parametrize("given", [{}, {"unique_key": "k"}, {"ordering_key": "k"}])
async def test_a_time_to_come_makes_it_scheduled(world: World, given: dict[str, Any]) -> None:
    run_at = await world.now() + 3600
    (inserted,) = await world.store.insert([new_job(run_at=run_at, **given)])
    assert inserted.rank is None
    assert inserted.due == pytest.approx(run_at, abs=0.001)


async def test_a_time_in_the_past_makes_it_ready(world: World) -> None:
    (inserted,) = await world.store.insert([new_job(run_at=await world.now() - 3600)])
    assert inserted.rank is not None
    assert await world.claim_ids() == [inserted.id]


@pytest.mark.parametrize("others", [[], [{}], [{"priority": 9}], [{"unique_key": "k"}]])
async def test_a_time_in_the_past_is_that_of_its_arrival(world: World, others: list[dict[str, Any]]) -> None:
    """Alone and in lists of jobs like it, of others, and of some with keys: it has not waited since."""
    at = await world.now() - 3600
    jobs = [new_job(run_at=at), *[new_job(run_at=at, **given) for given in others]]
    await world.store.insert(jobs)
    for job in jobs:
        found = await world.job(job.id)
        assert found.run_at == found.created_at


async def test_run_at_takes_the_place_of_the_delay(world: World) -> None:
    (inserted,) = await world.store.insert([new_job(delay=3600, run_at=await world.now() - 1)])
    assert inserted.rank is not None


@pytest.mark.parametrize("others", [0, 1], ids=["alone", "in a list"])
@pytest.mark.parametrize("keys", [{}, {"ordering_key": "k"}, {"unique_key": "u"}], ids=["plain", "ordered", "unique"])
@pytest.mark.parametrize("delay", [0.0, 60.0])
async def test_it_is_stored_as_it_was_given(world: World, others: int, keys: dict[str, str], delay: float) -> None:
    """However it is written: a job alone, a list and what has keys each go their own way."""
    given: dict[str, Any] = {"priority": 12, "max_retries": 7, "tags": ("x", "y"), "headers": {"trace": "t-1"}}
    job = new_job(payload='{"path": "a.png", "width": 100}', delay=delay, **given, **keys)
    await world.store.insert([job, *[new_job() for _ in range(others)]])
    found = await world.job(job.id)
    assert (found.id, found.queue, found.type) == (job.id, job.queue, job.type)
    assert found.payload == {"path": "a.png", "width": 100}
    assert (found.priority, found.max_retries, found.tags, found.headers) == (12, 7, ("x", "y"), {"trace": "t-1"})
    assert (found.ordering_key, found.unique_key) == (keys.get("ordering_key"), keys.get("unique_key"))
    assert (found.retry_count, found.crashes, found.token, found.progress) == (0, 0, 0, 0)
    assert found.created_at == found.updated_at
    assert (found.started_at, found.completed_at, found.worker, found.error, found.trashed_at) == (None,) * 5


async def test_the_rank_is_priority_then_arrival(world: World) -> None:
    jobs = [new_job(priority=priority) for priority in (-128, 5, 127, 5)]
    ranks = [inserted.rank for inserted in await world.store.insert(jobs)]
    sequences = [rank_ - rank(job.priority, 0) for job, rank_ in zip(jobs, ranks, strict=True) if rank_ is not None]
    assert sequences == sorted(sequences)
    assert len(set(sequences)) == 4
    assert max(rank_ for rank_ in ranks if rank_ is not None) < 2**53


async def test_answers_come_in_the_order_given(world: World) -> None:
    jobs = [new_job(queue=f"q{number % 3}", delay=number % 2 * 60.0, priority=number) for number in range(30)]
    answers = await world.store.insert(jobs)
    assert [answer.id for answer in answers] == [job.id for job in jobs]
    assert [answer.queue for answer in answers] == [job.queue for job in jobs]
    assert [answer.rank is None for answer in answers] == [job.delay > 0 for job in jobs]


async def test_it_creates_the_queues(world: World) -> None:
    await world.store.insert([new_job(queue="images"), new_job(queue="mail", delay=60)])
    assert await world.store.queues() == {"images": False, "mail": False}


async def test_nothing_to_insert(world: World) -> None:
    assert await world.store.insert([]) == []
    assert await world.store.queues() == {}


@pytest.mark.parametrize("state", UNFINISHED)
async def test_the_same_id_again_changes_nothing(world: World, state: str) -> None:
    """A producer that lost the answer asks `finals` whether the job has run since, and then inserts it again."""
    job_id = await world.job_in(state)
    before, totals = await world.job(job_id), await world.inspector.conservation()
    again = new_job(id=job_id, queue="elsewhere", payload='{"other": 1}', priority=99)
    (inserted,) = await world.store.insert([again])
    assert (inserted.id, inserted.created) == (job_id, False)
    assert await world.job(job_id) == before
    assert await world.inspector.conservation() == totals


async def test_the_same_id_twice_in_one_batch_is_one_job(world: World) -> None:
    job, other = new_job(), new_job()
    answers = await world.store.insert([job, other, job])
    assert [answer.id for answer in answers] == [job.id, other.id, job.id]
    assert sorted(answer.created for answer in answers) == [False, True, True]
    assert sorted(await world.claim_ids()) == sorted([job.id, other.id])


async def test_of_a_list_that_is_known_in_part_the_rest_is_written(world: World) -> None:
    """In its order, whether an id is known from before or from this list."""
    known, one, other = new_job(), new_job(), new_job(delay=3600.0)
    await world.store.insert([known])
    answers = await world.store.insert([one, known, other])
    assert [(answer.id, answer.created) for answer in answers] == [(one.id, True), (known.id, False), (other.id, True)]
    assert answers[0].due is None
    assert answers[2].rank is None
    assert sorted(await world.claim_ids()) == sorted([known.id, one.id])


@pytest.mark.parametrize("wrong", [{"priority": 128}, {"priority": -129}, {"queue": ""}, {"queue": "q" * 201}])
async def test_all_or_none(world: World, wrong: dict[str, object]) -> None:
    with pytest.raises(QueueCoreError):
        await world.store.insert([new_job(), new_job(**wrong), new_job()])
    assert await world.claim() == []
    assert (await world.inspector.conservation()).unfinished == 0
    job_id = await world.insert()
    assert await world.claim_ids() == [job_id]


async def test_a_large_batch_keeps_its_order(world: World) -> None:
    jobs = [new_job() for _ in range(5000)]
    answers = await world.store.insert(jobs)
    assert all(answer.created for answer in answers)
    ranks = [answer.rank for answer in answers if answer.rank is not None]
    assert ranks == sorted(set(ranks))
    claims = await world.claim(5000)
    assert [claim.id for claim in claims] == [job.id for job in jobs]


async def test_hostile_text_comes_back_as_it_was(world: World, hostile: str) -> None:
    job = new_job(queue=hostile, type=hostile, payload=hostile, tags=(hostile, "", hostile))
    await world.store.insert([job])
    found = await world.job(job.id)
    assert (found.queue, found.type, found.payload_text, found.tags) == (hostile, hostile, hostile, job.tags)
    assert await world.store.queues() == {hostile: False}
    claim = await world.claim_job(job.id, queue=hostile, types=(TYPE, hostile), worker=hostile)
    assert (claim.queue, claim.type, claim.payload, claim.tags) == (hostile, hostile, hostile, job.tags)
    assert (await world.job(job.id)).worker == hostile


async def test_a_payload_of_a_mebibyte(world: World) -> None:
    payload = '{"text": "' + "ü" * (1 << 19) + '"}'
    job_id = await world.insert(payload=payload)
    assert (await world.claim_job(job_id)).payload == payload
    assert (await world.job(job_id)).payload_text == payload


async def test_a_payload_that_is_not_json_is_shown_as_text(world: World) -> None:
    found = await world.job(await world.insert(payload="{not json"))
    assert (found.payload, found.payload_text) == (None, "{not json")
