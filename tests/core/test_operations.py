"""Asking for operations while the store comes and goes: what is begun is never reported as failed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from queue_core import JobQueue
from queue_core.client.operating import drain
from queue_core.client.operating.drain import drained_again, moves_of
from queue_core.errors import OutcomeUnknown, QueueCoreError, StoreRefused, StoreUnavailable
from queue_core.model.events import Event, EventName
from queue_core.model.job import Ready
from queue_core.model.operation import Author, Operation, OperationRequest, OperationVerb, Rollout, StepResult
from queue_core.stores.memory.operations import MemoryOperations
from tests.conformance.test_jobs_operations import dead_jobs

ASKED = OperationRequest("delete", "all", Author("anna", "ops-1"))
AWAY, REFUSED = StoreUnavailable("memory", "away"), StoreRefused("memory", "no")
Break = Callable[..., None]


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> Break:
    """Let a method of the store fail, before or after it has done its work, at some of its calls (from 1)."""

    def break_(name: str, error: Exception, calls: tuple[int, ...] = (1,), after: bool = False) -> None:
        method: Callable[..., Awaitable[Any]] = getattr(MemoryOperations, name)
        number = 0

        async def failing(*given: Any, **named: Any) -> Any:
            nonlocal number
            number += 1
            if number not in calls:
                return await method(*given, **named)
            if after:
                await method(*given, **named)
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


@pytest.mark.parametrize(("rate", "members"), [(8.0, 2), (0.5, 1), (1e6, 500)])
async def test_a_step_changes_as_many_as_the_rate_gives_in_a_quarter_of_a_second(rate: float, members: int) -> None:
    async with JobQueue(memory=True) as jobs:
        asked = replace(ASKED, verb="cancel", rollout=Rollout(rate=rate))
        handles = await jobs.enqueue_many("task", [{}] * 600)
        operation = await jobs.operations.submit(asked, [one.id for one in handles])
        await jobs.operations.executor().advance(await jobs.operations.get(operation.number))
        assert (await jobs.operations.get(operation.number)).processed == members


async def test_what_a_step_has_changed_is_offered_and_published(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else workers hear of it with the audit, and subscribers never."""
    offered: list[tuple[str, str]] = []
    retried: list[tuple[str, str]] = []

    async def offer(ready: Sequence[Ready]) -> None:
        offered.extend((one.id, one.queue) for one in ready)

    async def publish(events: Sequence[Event]) -> None:
        retried.extend((event.id, event.queue) for event in events if event.event == EventName.RETRIED)

    async with JobQueue(memory=True) as jobs:
        ids = await dead_jobs(jobs, 3)
        submitted = await jobs.operations.submit(replace(ASKED, verb="retry"), ids)
        monkeypatch.setattr(jobs.dispatcher, "offer", offer)
        monkeypatch.setattr(jobs.bus, "publish", publish)
        await jobs.operations.run(submitted.number)
    assert [job_id for job_id, _ in offered] == ids
    assert retried == offered, "who listens to their queue hears of them"


@pytest.mark.parametrize("error", [ValueError("no such thing"), REFUSED])
async def test_a_member_that_makes_its_step_fail_is_the_only_one_that_counts_as_errored(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """The others of that step are changed one by one, before it and behind it."""
    step, bad = MemoryOperations.step, ""
    tries: list[int] = []

    async def failing(store: MemoryOperations, number: int, most: int) -> StepResult:
        tries.append(most)
        if bad in (await store.pending(number, most)):
            raise error
        return await step(store, number, most)

    monkeypatch.setattr(MemoryOperations, "step", failing)
    async with JobQueue(memory=True) as jobs:
        ids = await dead_jobs(jobs, 5)
        bad = ids[2]
        submitted = await jobs.operations.submit(ASKED, ids)
        operation = await jobs.operations.run(submitted.number)
        assert (operation.state, operation.processed, operation.errored) == ("done", 4, 1)
        assert operation.note == f"{type(error).__name__}: {error}"
        assert await jobs.operations.changed_ids(operation.number) == [one for one in ids if one != bad]
    assert tries[1:4] == [1, 1, 1]


async def test_the_move_of_another_drain_is_not_that_of_this_one() -> None:
    """Whose number begins with the same digits."""
    async with JobQueue(memory=True) as jobs:
        store = jobs.operations._store
        reasons: list[tuple[OperationVerb, str]] = [
            ("drain", ""), ("move", "drains #1: it is old"), ("move", "drains #10"), ("move", "drains #1")
        ]  # fmt: skip
        for verb, why in reasons:
            await store.create(OperationRequest(verb, "queue mail", Author("anna", "ops-1"), why))
        assert [one.number for one in await moves_of(store, 1)] == [4, 2]


async def test_a_drain_that_failed_does_not_count_as_a_later_one() -> None:
    async with JobQueue(memory=True) as jobs:
        store = jobs.operations._store
        first, second = [
            await store.create(OperationRequest("drain", "queue mail", Author("anna", "ops-1"))) for _ in range(2)
        ]
        assert await drained_again(store, first)
        await store.move(second.number, "failed", "away")
        assert not await drained_again(store, first)


WAYS = [
    ("create", (1,)), ("create", (2,)), ("set_closed", (1,)), ("list_operations", (1,)), ("note_drain", (1,)),
    ("add", (1,)), ("move", (1,)), ("move", (1, 2)),
]  # fmt: skip


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize(("name", "calls"), WAYS)
async def test_a_drain_that_loses_its_store_is_carried_on_or_has_done_nothing(
    broken: Break, monkeypatch: pytest.MonkeyPatch, name: str, calls: tuple[int, ...], after: bool
) -> None:
    monkeypatch.setattr(drain, "TAKEOVER_SECONDS", 0.0)
    async with JobQueue(memory=True) as jobs:
        handles = await jobs.enqueue_many("work", [{}, {}], queue="bulk")
        broken(name, AWAY, calls, after)
        try:
            await jobs.operations.drain_queue("bulk", "slow")
            known = True
        except OutcomeUnknown as error:
            known = error.number == 1
        except StoreUnavailable:
            known = False
        for _ in range(5):
            with suppress(StoreUnavailable):
                await jobs.operations.executor().run_once()
        (bulk,) = [one for one in (await jobs.inspector.overview()).queues if one.name == "bulk"]
        found = {one.request.verb: one.state for one in await jobs.operations.list_operations()}
        where = {(await jobs.get(handle.id)).queue for handle in handles}
        begun = name != "create" or calls == (2,)
        assert known == begun
        if begun and (name != "set_closed" or after):
            assert (bulk.closed, where, found) == (True, {"slow"}, {"drain": "done", "move": "done"})
            assert [one.request.verb for one in await jobs.operations.undo(1, Author("anna", "ops-1"))] == [
                "resume", "move"
            ]  # fmt: skip
        else:
            assert (bulk.closed, where) == (False, {"bulk"})
            assert set(found.values()) <= {"preparing"}


async def test_a_drain_that_is_refused_has_failed(broken: Break) -> None:
    async with JobQueue(memory=True) as jobs:
        await jobs.enqueue("work", queue="bulk")
        broken("set_closed", REFUSED)
        with pytest.raises(StoreRefused):
            await jobs.operations.drain_queue("bulk", "slow")
        assert [one.state for one in await jobs.operations.list_operations()] == ["failed"]


async def test_a_drain_of_which_nothing_is_known_is_undone(broken: Break) -> None:
    async with JobQueue(memory=True) as jobs:
        await jobs.enqueue("work", queue="bulk")
        broken("note_drain", AWAY)
        with pytest.raises(OutcomeUnknown):
            await jobs.operations.drain_queue("bulk", "slow")
        (opened,) = await jobs.operations.undo(1, Author("anna", "ops-1"))
        assert opened.request.verb == "resume"
        states = {one.request.verb: one.state for one in await jobs.operations.list_operations()}
        assert states == {"resume": "done", "move": "cancelled", "drain": "cancelled"}
        await jobs.enqueue("work", queue="bulk")
