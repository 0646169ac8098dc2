"""Many large results that are waited for at once come in parts: no answer of Redis carries all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from queue_core.redis.scripts import Call
from queue_core.stores.redis import session
from queue_core.stores.redis.session import RedisLink
from tests.conformance.world import World

LARGE, PART = 50_000, 200_000


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The characters of each answer that is read from here on."""
    sizes: list[int] = []
    run_many = RedisLink.run_many

    async def weighed(self: RedisLink, calls: Sequence[Call], together: bool = False) -> list[Any]:
        found = await run_many(self, calls, together)
        sizes.append(len(str(found)))
        return found

    monkeypatch.setattr(RedisLink, "run_many", weighed)
    monkeypatch.setattr(session, "MAX_SCRIPT_LENGTH", PART)
    return sizes


async def test_large_results_come_in_parts(world: World, answers: list[int]) -> None:
    results = {}
    for number in range(20):
        result = f'"{number}{"x" * LARGE}"' if number % 4 else str(number)
        results[(await world.ended("completed", {"result": result}, queue=f"q{number % 3}")).id] = result
    answers.clear()
    finals = await world.store.results([*results])
    assert {final.id: final.result for final in finals} == results
    assert max(answers) < 2 * PART
    assert sum(answers) > 15 * LARGE


async def test_small_results_come_in_one_answer(world: World, answers: list[int]) -> None:
    ids = [(await world.ended("completed", {"result": str(number)})).id for number in range(20)]
    answers.clear()
    assert [final.result for final in await world.store.results(ids)] == [str(number) for number in range(20)]
    assert len(answers) == 1
