"""Asking for operations while the store comes and goes: what is begun is never reported as failed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from queue_core import JobQueue
from queue_core.errors import OutcomeUnknown, QueueCoreError, StoreRefused, StoreUnavailable
from queue_core.model.operation import Author, Operation, OperationRequest
from queue_core.stores.memory.operations import MemoryOperations

ASKED = OperationRequest("delete", "all", Author("anna", "ops-1"))
AWAY, REFUSED = StoreUnavailable("memory", "away"), StoreRefused("memory", "no")
Break = Callable[..., None]


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> Break:
    """Let a method of the store fail, before or after it has done its work, at some of its calls (from 1)."""

    def break_(name: str, error: Exception, calls: tuple[int, ...] = (1,), after: bool = False) -> None:
        method: Callable[..., Awaitable[Any]] = getattr(MemoryOperations, name)
        number = 0

        async def failing(*given: Any) -> Any:
            nonlocal number
            number += 1
            if number not in calls:
                return await method(*given)
            if after:
                await method(*given)
            raise error

        monkeypatch.setattr(MemoryOperations, name, failing)

    return break_


async def submitted(*ids: str) -> tuple[Operation | QueueCoreError, Operation]:
    """Submit an operation; return what came of it, and how it stands in the store."""
    async with JobQueue(memory=True) as jobs:
        outcome: Operation | QueueCoreError
        try:
            outcome = await jobs.operations.submit(ASKED, ids or ("a", "b"))
        except QueueCoreError as error:
            outcome = error
        return outcome, (await jobs.operations.list_operations())[0]


async def test_the_answer_to_its_begin_is_lost(broken: Break) -> None:
    broken("move", AWAY, after=True)
    outcome, stored = await submitted()
    assert isinstance(outcome, Operation)
    assert outcome.state == stored.state == "running"


async def test_it_runs_and_cannot_be_looked_at(broken: Break) -> None:
    broken("get", AWAY)
    outcome, stored = await submitted()
    assert isinstance(outcome, Operation)
    assert (outcome.state, outcome.total, outcome.barrier) == (stored.state, 2, 2) == ("running", 2, 2)


async def test_nobody_can_tell_whether_it_was_begun(broken: Break) -> None:
    broken("move", AWAY)
    broken("get", AWAY)
    outcome, stored = await submitted()
    assert isinstance(outcome, OutcomeUnknown)
    assert outcome.number == stored.number


@pytest.mark.parametrize("error", [AWAY, REFUSED])
async def test_it_was_not_begun(broken: Break, error: Exception) -> None:
    broken("move", error)
    outcome, stored = await submitted()
    assert outcome is error
    assert (stored.state, "none was changed" in stored.note) == ("cancelled", True)


@pytest.mark.parametrize("error", [AWAY, REFUSED])
async def test_its_jobs_cannot_be_written(broken: Break, error: Exception) -> None:
    broken("add", error, (2,))
    outcome, stored = await submitted(*map(str, range(6_000)))
    assert outcome is error
    assert stored.state == "cancelled"


async def test_the_end_of_a_note_cannot_be_written(broken: Break, caplog: pytest.LogCaptureFixture) -> None:
    broken("move", AWAY)
    done: list[str] = []

    async def act() -> str:
        done.append("paused")
        return "said"

    async with JobQueue(memory=True) as jobs:
        assert await jobs.operations.record(ASKED, act) == "said"
    assert done == ["paused"]
    assert "operation #1 (delete) is done, but that could not be noted: memory cannot be reached: away" in caplog.text


async def test_a_note_about_jobs_cannot_be_begun(broken: Break) -> None:
    broken("add", AWAY)

    async def act() -> None:
        raise AssertionError("nothing is done without a trace")

    async with JobQueue(memory=True) as jobs:
        with pytest.raises(StoreUnavailable):
            await jobs.operations.record(ASKED, act, ["a"])
        assert [one.state for one in await jobs.operations.list_operations()] == ["failed"]
