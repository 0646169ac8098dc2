"""Batches: cut by number and size, and callers that wait no longer than their time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from queue_core import JobQueue
from queue_core.client.tasks import EnqueueOptions
from queue_core.runtime import MAX_STATEMENT_LENGTH, Batcher
from tests.waiting import PATIENCE


class Flusher:
    """Notes the batches; each takes until the test lets it go."""

    def __init__(self, held: bool = False) -> None:
        self.batches: list[list[str]] = []
        self.go_on = asyncio.Event()
        if not held:
            self.go_on.set()

    async def flush(self, items: list[str]) -> list[str]:
        self.batches.append(items)
        await self.go_on.wait()
        return [item[:1] for item in items]


def length(items: Sequence[str]) -> int:
    return sum(map(len, items))


async def test_batches_are_cut_by_number_and_by_size() -> None:
    flusher = Flusher()
    batcher = Batcher(flusher.flush, 3, length)
    small = await asyncio.gather(*(batcher.put([one]) for one in "abcd"))
    assert small == [["a"], ["b"], ["c"], ["d"]]
    assert [len(batch) for batch in flusher.batches] == [3, 1]
    flusher.batches.clear()
    half = MAX_STATEMENT_LENGTH // 2
    answers = await asyncio.gather(*(batcher.put([one * half]) for one in "abcde"), batcher.put(["f" * half * 3]))
    assert answers == [["a"], ["b"], ["c"], ["d"], ["e"], ["f"]]
    assert [len(batch) for batch in flusher.batches] == [2, 2, 1, 1]


async def test_who_waits_for_his_turn_waits_no_longer_than_his_time_and_is_not_sent_then() -> None:
    flusher = Flusher(held=True)
    batcher = Batcher(flusher.flush, 1, length)
    batcher.limit_waits(0.2, lambda: TimeoutError("no answer"))
    async with asyncio.timeout(PATIENCE):
        answers = await asyncio.gather(*(batcher.put([one]) for one in "abc"), return_exceptions=True)
    assert [str(answer) for answer in answers] == ["no answer"] * 3
    flusher.go_on.set()
    await batcher.drain()
    assert flusher.batches == [["a"]]
    assert await batcher.put(["d"]) == ["d"]


async def test_a_call_after_others_that_went_well_waits_no_longer_than_its_own_time() -> None:
    """Of a long list, whose time is longer, and of a short one: the next call does not wait for the timer they left."""
    for before in (["a"], ["a"] * 1000):
        flusher = Flusher()
        batcher = Batcher(flusher.flush, 1, length)
        batcher.limit_waits(0.2, lambda: TimeoutError("no answer"))
        assert len(await batcher.put(before)) == len(before)
        flusher.go_on.clear()
        loop = asyncio.get_running_loop()
        started = loop.time()
        async with asyncio.timeout(PATIENCE):
            with pytest.raises(TimeoutError, match="no answer"):
                await batcher.put(["b"])
        # The time of the long list is 20 s.
        assert 0.2 <= loop.time() - started < 10
        flusher.go_on.set()
        await batcher.drain()


def test_calls_in_a_second_event_loop_have_a_timer_of_their_own() -> None:
    flusher = Flusher()
    batcher = Batcher(flusher.flush, 1, length)
    batcher.limit_waits(0.2, lambda: TimeoutError("no answer"))

    async def call(held: bool) -> Sequence[str]:
        flusher.go_on = asyncio.Event()
        if not held:
            flusher.go_on.set()
        async with asyncio.timeout(PATIENCE):
            return await batcher.put(["a"])

    assert asyncio.run(call(held=False)) == ["a"]
    with pytest.raises(TimeoutError, match="no answer"):
        asyncio.run(call(held=True))


async def test_a_line_that_moves_is_waited_for() -> None:
    """Each flush takes most of the time limit, the last caller several times as long."""
    batches: list[list[str]] = []

    async def flush(items: list[str]) -> list[str]:
        batches.append(items)
        await asyncio.sleep(0.4)
        return items

    batcher = Batcher(flush, 1, length)
    batcher.limit_waits(2.0, lambda: TimeoutError("no answer"))
    answers = await asyncio.gather(*(batcher.put([str(n)]) for n in range(8)))
    assert [answer[0] for answer in answers] == [str(n) for n in range(8)]


async def test_the_error_of_a_flush_comes_before_the_end_of_the_time() -> None:
    async def flush(items: list[str]) -> list[str]:
        await asyncio.sleep(0.2)
        raise OSError("its own")

    batcher = Batcher(flush, 1, length)
    batcher.limit_waits(0.2, lambda: TimeoutError("no answer"))
    with pytest.raises(OSError, match="its own"):
        await batcher.put(["a"])


async def ends_of(*calls: asyncio.Task[Sequence[str]]) -> list[str]:
    """Return how the calls end: with their answer, or cancelled."""
    async with asyncio.timeout(PATIENCE):
        ends = await asyncio.gather(*calls, return_exceptions=True)
    return ["cancelled" if isinstance(end, asyncio.CancelledError) else str(end) for end in ends]


@pytest.mark.parametrize("begun", [True, False])
async def test_no_caller_waits_for_ever_where_a_handler_cancels_the_flush(begun: bool) -> None:
    flusher = Flusher(held=True)
    batcher = Batcher(flusher.flush, 1, length)
    calls = [asyncio.create_task(batcher.put([one])) for one in "abc"]
    for _ in range(2 if begun else 1):
        await asyncio.sleep(0)
    assert bool(flusher.batches) is begun
    assert batcher._task is not None
    batcher._task.cancel()
    assert await ends_of(*calls) == ["cancelled"] * 3
    flusher.go_on.set()
    assert await batcher.put(["d"]) == ["d"]
    assert flusher.batches == [["a"], ["d"]] if begun else [["d"]]


async def test_no_caller_waits_for_ever_where_a_handler_cancels_the_flush_of_each() -> None:
    flusher = Flusher(held=True)

    async def refuse(items: list[str]) -> list[str]:
        raise OSError("all together")

    batcher = Batcher(refuse, 10, length)
    batcher.separate(OSError, flusher.flush)
    calls = [asyncio.create_task(batcher.put([one])) for one in "abc"]
    for _ in range(2):
        await asyncio.sleep(0)
    assert flusher.batches == [["a"]]
    assert batcher._task is not None
    batcher._task.cancel()
    assert await ends_of(*calls) == ["cancelled"] * 3


async def test_the_event_loop_goes_on_while_large_payloads_are_put_into_words() -> None:
    jobs = JobQueue(memory=True)
    text = 'a line with "\n' * 50_000
    turns = 0
    done = False

    async def count() -> None:
        nonlocal turns
        while not done:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    built = await asyncio.gather(
        *(
            jobs._enqueuer.list_of(
                "anything", [{"text": text}] * 40, EnqueueOptions(), lambda payloads: payloads
            ).whole()
            for _ in "abc"
        )
    )
    done = True
    await counting
    assert [len(made) for made in built] == [40] * 3
    assert turns >= 20
