"""Delivery: what was offered wakes a worker and leads it to the queue; what is lost, the store still has."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import pytest

from queue_core.backends import open_backend
from queue_core.model.job import Ready
from queue_core.model.rules import rank
from queue_core.model.settings import JobsSettings
from queue_core.ports.delivery import Dispatcher, Nomination
from tests.conformance.making import new_job
from tests.conformance.working import PATIENCE


@pytest.fixture
async def dispatcher(mode_settings: JobsSettings) -> AsyncIterator[Dispatcher]:
    """The delivery of the mode under test, after whatever hints a new one gives of itself."""
    backend = open_backend(mode_settings)
    assert backend.dispatcher is not None
    await backend.open()
    while await backend.dispatcher.take(["a", "b"], 10, 0.3):
        pass
    yield backend.dispatcher
    await backend.close()
    await backend.close()


def ready(queue: str = "a", priority: int = 5, sequence: int = 1) -> Ready:
    return Ready(new_job().id, queue, rank(priority, sequence))


def leads_to(taken: Nomination | None, *jobs: Ready) -> bool:
    """Tell whether these candidates were given: by their ids, or by the word to look into their queue."""
    if taken is None or taken.queue != jobs[0].queue:
        return False
    return taken.ids is None or list(taken.ids) == [job.id for job in jobs]


async def test_nothing_is_offered(dispatcher: Dispatcher) -> None:
    start = time.monotonic()
    assert await dispatcher.take(["a", "b"], 10, 0.1) is None
    assert time.monotonic() - start >= 0.09


async def test_what_was_offered_is_taken(dispatcher: Dispatcher) -> None:
    job = ready()
    await dispatcher.offer([job])
    assert leads_to(await dispatcher.take(["a", "b"], 10, PATIENCE), job)


async def test_who_waits_is_woken(dispatcher: Dispatcher) -> None:
    job = ready("b")
    waiting = asyncio.create_task(dispatcher.take(["a", "b"], 10, PATIENCE))
    await asyncio.sleep(0.05)
    start = time.monotonic()
    await dispatcher.offer([job])
    assert leads_to(await waiting, job)
    assert time.monotonic() - start < 5


async def test_best_ranks_first(dispatcher: Dispatcher) -> None:
    jobs = [ready(priority=5, sequence=2), ready(priority=10, sequence=3), ready(priority=5, sequence=1)]
    await dispatcher.offer(jobs)
    assert leads_to(await dispatcher.take(["a"], 2, PATIENCE), jobs[1], jobs[2])


async def test_other_queues_are_not_given(dispatcher: Dispatcher) -> None:
    await dispatcher.offer([ready("c")])
    assert await dispatcher.take(["a", "b"], 10, 0.1) is None


async def test_offering_again_is_harmless(dispatcher: Dispatcher) -> None:
    job = ready()
    for _ in range(3):
        await dispatcher.offer([job])
    assert leads_to(await dispatcher.take(["a"], 10, PATIENCE), job)


async def test_offering_nothing(dispatcher: Dispatcher) -> None:
    await dispatcher.offer([])
    await dispatcher.forget("a", [])
    assert await dispatcher.missing([]) == []


async def test_what_is_forgotten_is_no_candidate_any_more(dispatcher: Dispatcher) -> None:
    gone, left = ready(), ready(sequence=2)
    await dispatcher.offer([gone, left])
    await dispatcher.forget("a", [gone.id])
    assert leads_to(await dispatcher.take(["a"], 10, PATIENCE), left)


async def test_cancelling_a_wait_leaves_the_rest_working(dispatcher: Dispatcher) -> None:
    waiting = asyncio.create_task(dispatcher.take(["a"], 10, PATIENCE))
    await asyncio.sleep(0.05)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    job = ready()
    arrived = False
    for _ in range(20):
        await dispatcher.offer([job])
        arrived = arrived or leads_to(await dispatcher.take(["a"], 10, 0.5), job)
        if arrived:
            break
    assert arrived, "offers do not arrive any more"


async def test_the_audit_makes_good_what_was_lost(dispatcher: Dispatcher) -> None:
    """Jobs of the store that were never offered: what is lacking, offered again, wakes somebody."""
    jobs = [ready(sequence=number) for number in range(1, 4)]
    waiting = asyncio.create_task(dispatcher.take(["a"], 10, PATIENCE))
    lacking = await dispatcher.missing(jobs)
    assert lacking
    assert set(lacking) <= set(jobs)
    await dispatcher.offer(lacking)
    taken = await waiting
    assert taken is not None
    assert taken.queue == "a"


async def test_it_is_whole_after_it_was_declared_so(dispatcher: Dispatcher) -> None:
    await dispatcher.mark_current("a")
    assert await dispatcher.doubtful(["a"]) == []


async def test_many_offers_at_once(dispatcher: Dispatcher) -> None:
    jobs = [ready(sequence=number) for number in range(1, 5001)]
    await asyncio.gather(*(dispatcher.offer(jobs[start : start + 500]) for start in range(0, 5000, 500)))
    taken = await dispatcher.take(["a"], 100, PATIENCE)
    assert taken is not None
    assert taken.ids is None or len(taken.ids) == 100


@pytest.mark.parametrize("queue", ["ü🦀", "with space", "a:b", "*", "'\";"])
async def test_queues_of_any_name(dispatcher: Dispatcher, queue: str) -> None:
    while await dispatcher.take([queue], 10, 0.2):
        pass
    job = ready(queue)
    await dispatcher.offer([job])
    assert leads_to(await dispatcher.take([queue], 10, PATIENCE), job)


async def test_it_answers(dispatcher: Dispatcher) -> None:
    assert 0 <= await dispatcher.ping() < 30
    assert isinstance(await dispatcher.facts(), dict)
