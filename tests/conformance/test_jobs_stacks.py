"""Where a running job is: its worker is asked, in every mode."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from typing import Any

from queue_core import JobQueue
from queue_core.model.report import JobStack
from queue_core.ports.operations import STACKS_OF_A_JOB
from queue_core.worker.stacks.answer import ENDED, StackAnswers, take
from tests.conformance.making import UNKNOWN
from tests.conformance.working import PATIENCE, until_status, working
from tests.conformance.world import World


def taken(stack: JobStack | None) -> dict[str, Any]:
    assert stack is not None
    assert stack.taken_at is not None
    found: dict[str, Any] = json.loads(stack.text)
    return found


async def test_a_task_a_thread_and_a_blocked_loop_are_shown_where_they_are(jobs: JobQueue) -> None:
    inside, go_on, blocks = asyncio.Event(), threading.Event(), threading.Event()

    async def read_block() -> None:
        inside.set()
        await asyncio.get_running_loop().run_in_executor(None, go_on.wait, PATIENCE)

    @jobs.task
    async def awaits() -> None:
        async with asyncio.TaskGroup() as group:
            await group.create_task(read_block())

    @jobs.task
    def plain() -> None:
        go_on.wait(PATIENCE)

    @jobs.task(soft_timeout=60)
    async def holds_the_loop() -> None:
        blocks.set()
        time.sleep(1.5)  # noqa: ASYNC251  what is looked at

    loop, main = asyncio.get_running_loop(), threading.get_ident()
    async with working(jobs) as worker:
        first, second = await awaits.enqueue(), await plain.enqueue()
        await until_status(jobs, first.id, "running")
        await until_status(jobs, second.id, "running")
        await inside.wait()
        of_task = taken(await jobs.operations.ask_stack(first.id, PATIENCE))
        of_thread = taken(await jobs.operations.ask_stack(second.id, PATIENCE))
        go_on.set()
        await until_status(jobs, first.id, "completed")
        assert await jobs.operations.ask_stack(first.id) is None, "it has ended"
        third, looked = await holds_the_loop.enqueue(), []

        def look() -> None:
            # As the heartbeat's thread does while this loop is blocked.
            assert blocks.wait(PATIENCE)
            looked.append(take(worker._held[third.id], loop, main))

        looking = asyncio.create_task(asyncio.to_thread(look))
        await until_status(jobs, third.id, "completed")
        await looking
        (held,) = await jobs.operations.stacks(first.id)
    functions = [frame[2].rpartition(".")[2] for frame in of_task["frames"]]
    assert functions.index("read_block") < functions.index("awaits"), "the innermost first"
    assert (of_task["kind"], of_thread["kind"]) == ("task", "thread")
    assert 0 <= of_task["lag"] < PATIENCE
    assert of_task["memory"] > 1 << 20
    own = [frame for frame in of_thread["frames"] if not frame[4]]
    assert own[0][3] == "go_on.wait(PATIENCE)"
    assert json.loads(held.text) == of_task, "kept with the job as taken then"
    assert looked[0]["frames"][0][3].startswith("time.sleep(1.5)")


async def test_requests_are_bounded_and_answered_once(world: World) -> None:
    store, claim = world.store, await world.running()
    assert await store.ask_stack(UNKNOWN) is None
    assert await store.ask_stack(await world.insert()) is None
    heart = world.store.open_heartbeat()
    numbers = []
    for turn in range(STACKS_OF_A_JOB + 2):
        asked = await store.ask_stack(claim.id)
        assert asked is not None
        assert asked.taken_at is None
        (request,) = await asyncio.to_thread(heart.stack_requests, asked.worker)
        assert (request.number, request.job_id) == (asked.number, claim.id)
        assert await asyncio.to_thread(heart.stack_requests, "another") == []
        await asyncio.to_thread(heart.give_stack, request, f'{{"turn": {turn}, "nasty": "\x1b[2J"}}')
        await asyncio.to_thread(heart.give_stack, request, "{}")
        numbers.append(asked.number)
    assert await asyncio.to_thread(heart.stack_requests, claim_worker := asked.worker) == [], claim_worker
    found = await store.stacks(claim.id)
    assert [one.number for one in found] == numbers[::-1][:STACKS_OF_A_JOB]
    assert '"turn": 6' in found[0].text
    await asyncio.to_thread(heart.close)


async def test_what_was_taken_stays_and_a_request_without_an_answer_is_over_in_time(world: World) -> None:
    claim = await world.running(lease=3600.0)
    heart = world.store.open_heartbeat()
    taken, over = await world.store.ask_stack(claim.id), await world.store.ask_stack(claim.id)
    assert taken is not None
    assert over is not None
    first, _ = await asyncio.to_thread(heart.stack_requests, taken.worker)
    await asyncio.to_thread(heart.give_stack, first, "{}")
    await world.advance(120)
    asked = await world.store.ask_stack(claim.id)
    assert asked is not None
    requests = await asyncio.to_thread(heart.stack_requests, taken.worker)
    # no test turns the clock of a server on
    left = [over.number, asked.number][world.store.name in {"memory", "sqlite"} :]
    assert [one.number for one in requests] == left
    assert [one.number for one in await world.store.stacks(claim.id)] == [taken.number]
    for request in requests:
        await asyncio.to_thread(heart.give_stack, request, "{}")
    await asyncio.to_thread(heart.close)


async def test_two_who_ask_at_once_are_both_answered(world: World) -> None:
    claim = await world.running()
    asked = [await world.store.ask_stack(claim.id) for _ in range(2)]
    heart = world.store.open_heartbeat()
    requests = await asyncio.to_thread(heart.stack_requests, claim_worker(asked))
    assert [one.number for one in requests] == [one.number for one in asked if one is not None]
    for request in requests:
        await asyncio.to_thread(heart.give_stack, request, "{}")
    await asyncio.to_thread(heart.close)
    assert len(await world.store.stacks(claim.id)) == 2


async def test_a_worker_that_no_longer_holds_the_job_measures_itself_all_the_same(world: World) -> None:
    claim = await world.running()
    asked = await world.store.ask_stack(claim.id)
    heart = world.store.open_heartbeat()
    answers = StackAnswers(heart, lambda: claim_worker([asked]), {}, asyncio.get_running_loop(), threading.get_ident())
    assert await asyncio.to_thread(answers.run_once) == 1
    await asyncio.to_thread(heart.close)
    answer = taken((await world.store.stacks(claim.id))[0])
    assert answer["problem"] == ENDED
    assert answer["lag"] is not None
    assert answer["memory"] > 0


def claim_worker(asked: list[JobStack | None]) -> str:
    """Return the worker that is asked."""
    assert asked[0] is not None
    return asked[0].worker


async def test_a_worker_that_does_not_answer_in_time(jobs: JobQueue) -> None:
    await jobs.enqueue("by_hand", {})
    claimed = await jobs.claim_next(types=["by_hand"], wait=PATIENCE)
    assert claimed is not None
    stack = await jobs.operations.ask_stack(claimed.id, patience=0.3)
    assert stack is not None
    assert (stack.taken_at, stack.text) == (None, "")
    assert await jobs.operations.stacks(claimed.id) == []
    await claimed.complete()
