"""Which claims a worker asks for, and what it gives back of them: never what it holds or may be reading just now."""

from __future__ import annotations

import asyncio

import pytest

from queue_core import JobContext, JobQueue
from queue_core.model.job import Stray
from queue_core.worker import claims as numbers
from queue_core.worker.claims import Claims
from tests.conformance.working import PATIENCE, working


def asked(claims: Claims) -> list[int]:
    return [doubt.number for doubt in claims.doubts(True)]


def test_a_claim_that_is_sent_again_is_not_asked_for_meanwhile() -> None:
    claims = Claims()
    number = claims.begin("work")
    assert asked(claims) == []
    claims.failed(number)
    assert asked(claims) == [number]
    assert claims.begin("work", number) == number
    assert asked(claims) == [], "its answer may just be read"
    claims.failed(number)
    assert asked(claims) == [number]


def test_an_answer_that_came_too_late_is_in_doubt_and_the_next_one_to_the_same_claim_counts() -> None:
    claims = Claims()
    number = claims.begin("work")
    assert claims.void() == (True, number)
    assert not claims.answered(number)
    assert asked(claims) == [number]
    assert claims.void() == (False, number), "none is on its way"
    claims.begin("work", number)
    assert claims.answered(number)


def test_where_another_server_has_taken_over_no_claim_is_asked_for_that_is_on_its_way() -> None:
    """The jobs that it gives would be given back while they begin."""
    claims = Claims()
    first, second, third = (claims.begin("work") for _ in range(3))
    claims.answered(first)
    claims.answered(third)
    claims.note_takeover()
    assert claims.doubt_until() == first
    claims.answered(second)
    assert claims.doubt_until() == third


def test_behind_the_last_number_comes_the_first_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """No database keeps a larger one, and a claim that it refuses would be the end of all claims."""
    monkeypatch.setattr(numbers, "MAX_NUMBER", 3)
    claims = Claims()
    assert [claims.begin("work") for _ in range(5)] == [1, 2, 3, 1, 2]


async def test_what_is_held_is_not_given_back(jobs: JobQueue) -> None:
    """The answer had come after all, when the heartbeat named what the claim gave."""
    tokens: list[int] = []
    begun, go_on = asyncio.Event(), asyncio.Event()

    @jobs.task
    async def work(ctx: JobContext) -> str:
        tokens.append(ctx.token)
        begun.set()
        await go_on.wait()
        return "done"

    handle = await work.enqueue()
    async with working(jobs) as worker:
        await asyncio.wait_for(begun.wait(), PATIENCE)
        worker.release([Stray(handle.id, tokens[0], "default", "work", None)])
        go_on.set()
        assert await handle.result(PATIENCE) == "done"
    assert (worker.refused, tokens.count(tokens[0])) == (0, 1)
    assert (await jobs.inspector.get(handle.id)).token == tokens[0]
