"""Operations in the file: what moved jobs hold and let go of, how operations leave, what bounds a transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from queue_core.errors import OperationNotFound
from queue_core.model.job import LogLine
from queue_core.model.operation import (
    ABANDONED_SECONDS,
    Author,
    Changed,
    ChangeOptions,
    Operation,
    OperationRequest,
    Rollout,
)
from queue_core.model.rules import QueueRules
from queue_core.model.settings import RetentionSettings
from queue_core.stores.sqlite import claim, upkeep
from queue_core.stores.sqlite.operations import MEMBERS_PER_TRANSACTION, SqliteOperations
from queue_core.stores.sqlite.session import SqliteFile
from queue_core.stores.sqlite.store import SqliteStore
from queue_core.testing import FakeClock
from tests.conformance.making import LEASE, QUEUE, UNKNOWN, new_job, outcome
from tests.sqlite.conftest import NewFile
from tests.sqlite.crashing import REQUEST

DAY = 86400.0
OTHER = "other"
THERE = ChangeOptions(queue=OTHER)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def file(new_file: NewFile, clock: FakeClock) -> SqliteFile:
    return new_file(clock=clock)


@pytest.fixture
def store(file: SqliteFile) -> SqliteStore:
    return SqliteStore(file)


@pytest.fixture
def operations(file: SqliteFile) -> SqliteOperations:
    return SqliteOperations(file)


async def started(operations: SqliteOperations, verb: str, ids: Sequence[str], **given: Any) -> Operation:
    operation = await operations.create(OperationRequest(verb, "some", Author("ana", "bastion-1"), **given))
    await operations.add(operation.number, ids)
    await operations.move(operation.number, "running")
    return await operations.get(operation.number)


async def done(operations: SqliteOperations, verb: str, *ids: str, way: ChangeOptions = THERE) -> Changed:
    operation = await started(operations, verb, ids, options=way)
    return (await operations.step(operation.number, 1000)).changed


async def insert(store: SqliteStore, **given: Any) -> str:
    (inserted,) = await store.insert([new_job(**given)])
    assert inserted.created
    return inserted.id


async def ended(store: SqliteStore, kind: str, **given: Any) -> str:
    job_id = await insert(store, **given)
    (claim,) = await store.claim(REQUEST._replace(ids=[job_id]))
    await store.settle([outcome(claim, kind)])
    return job_id


async def rows(file: SqliteFile, query: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in await file.inspect(lambda transaction: transaction.records(query, ()))]


async def test_a_retrying_job_that_moves_has_no_hold_until_it_is_due(
    file: SqliteFile, store: SqliteStore, operations: SqliteOperations, clock: FakeClock
) -> None:
    moved = await ended(store, "retrying", ordering_key="k")
    waits = await insert(store, ordering_key="k")
    assert [(one.id, one.queue) for one in (await done(operations, "move", moved)).ready] == [(waits, QUEUE)]
    assert await rows(file, f"select admitted from jobs where id = '{moved}'") == [(None,)]
    there = await insert(store, queue=OTHER, ordering_key="k")
    clock.advance(LEASE + 1)
    assert await store.promote(10) == []
    (claim,) = await store.claim(REQUEST._replace(queue=OTHER))
    assert claim.id == there
    (settled,) = await store.settle([outcome(claim, "completed")])
    assert [one.id for one in settled.unblocked] == [moved]


@pytest.mark.parametrize("verbs", [("move", "retry"), ("retry",)])
async def test_a_dead_job_leaves_its_unique_key_behind(
    store: SqliteStore, operations: SqliteOperations, verbs: tuple[str, ...]
) -> None:
    gone = await ended(store, "dead", unique_key="a")
    for verb in verbs:
        assert (await done(operations, verb, gone)).ids == (gone,)
    await insert(store, unique_key="a")
    (there,) = await store.insert([new_job(queue=OTHER, unique_key="a")])
    assert (there.created, there.id) == (False, gone)


async def test_another_priority_is_the_end_of_a_turn(store: SqliteStore, operations: SqliteOperations) -> None:
    first, second = await insert(store, ordering_key="k"), await insert(store, ordering_key="k")
    changed = await done(operations, "move", first, way=ChangeOptions(priority=20))
    assert (changed.ids, [one.id for one in changed.ready]) == ((first,), [second])
    assert [one.id for one in (await done(operations, "cancel", second)).ready] == [first]
    # Nobody else waits, so it is its own turn again.
    changed = await done(operations, "move", first, way=ChangeOptions(priority=1))
    assert [one.id for one in changed.ready] == [first]


async def test_counts_of_both_queues_stay_exact(new_file: NewFile) -> None:
    file = new_file()
    rules = {QUEUE: QueueRules(limit=100, concurrency=100), OTHER: QueueRules(limit=100)}
    store, operations = SqliteStore(file, rules=rules), SqliteOperations(file, rules)
    dead = await ended(store, "dead", priority=2)
    ids = [await insert(store, priority=priority, delay=delay) for priority in (2, 10) for delay in (0.0, 60.0)]
    await insert(store, queue=OTHER)
    await done(operations, "move", dead, *ids[:3], way=ChangeOptions(queue=OTHER, priority=5))
    await done(operations, "retry", dead, way=ChangeOptions(queue=QUEUE, priority=10))
    query = "select name, running, high, normal, low from queues where keeps_counts = 1 order by name"
    assert await rows(file, query) == [(OTHER, 0, 0, 4, 0), (QUEUE, 0, 2, 0, 0)]


async def test_nothing_is_created_for_nobody(store: SqliteStore, operations: SqliteOperations) -> None:
    job_id = await ended(store, "completed")
    assert (await done(operations, "move", job_id, UNKNOWN)).ids == ()
    assert list(await store.queues()) == [QUEUE]


@pytest.mark.skipif(not claim.machine(), reason="this system does not tell when it was started")
@pytest.mark.parametrize("jump", [600.0, -600.0])
async def test_a_clock_that_is_set_neither_holds_up_nor_hurries(
    store: SqliteStore, operations: SqliteOperations, clock: FakeClock, jump: float
) -> None:
    ids = [await ended(store, "dead") for _ in range(3)]
    number = (await started(operations, "retry", ids, rollout=Rollout(rate=0.01))).number
    await operations.step(number, 1)
    clock.set_back(-jump)
    assert (await operations.step(number, 1)).changed.ids == ()
    clock.advance(101)
    assert (await operations.step(number, 1)).changed.ids == (ids[1],)


async def test_more_members_than_a_transaction_writes(file: SqliteFile, operations: SqliteOperations) -> None:
    ids = [new_job().id for _ in range(2 * MEMBERS_PER_TRANSACTION + 1)]
    operation = await operations.create(OperationRequest("retry", "many", Author("ana", "bastion-1")))
    assert (await operations.add(operation.number, [*ids, ids[0]])).total == len(ids)
    assert (
        await operations.add(operation.number, ids[MEMBERS_PER_TRANSACTION - 1 : MEMBERS_PER_TRANSACTION + 1])
    ).total == len(ids)
    places = await rows(file, "select job_id from operation_members order by position")
    assert [job_id for (job_id,) in places] == ids
    assert await rows(file, "select min(position), max(position) from operation_members") == [(1, len(ids))]


async def test_they_are_forgotten_a_batch_at_a_time(
    file: SqliteFile, operations: SqliteOperations, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "MEMBERS_PER_TRANSACTION", 10)
    monkeypatch.setattr(upkeep, "OPERATIONS_PER_TRANSACTION", 2)
    store = SqliteStore(file, RetentionSettings(operations=100.0))
    for count in (25, 0, 10, 3, 1):
        operation = await started(operations, "retry", [new_job().id for _ in range(count)], signatures=("a", "b"))
        await operations.step(operation.number, 100)
    clock.advance(101)
    kept = await started(operations, "retry", [UNKNOWN], signatures=("a",))
    await store.upkeep()
    assert [one.number for one in await operations.list_operations(10)] == [kept.number]
    assert [one.number for one in await operations.list_operations(10, signature="a")] == [kept.number]
    for table in ("operation_members", "operation_signatures"):
        assert await rows(file, f"select operation from {table}") == [(kept.number,)]


async def test_they_may_stay_for_ever(file: SqliteFile, operations: SqliteOperations, clock: FakeClock) -> None:
    store = SqliteStore(file, RetentionSettings(operations=None))
    kept = (await started(operations, "retry", [])).number
    forgotten = await operations.create(OperationRequest("retry", "some", Author("ana", "bastion-1")))
    clock.advance(max(ABANDONED_SECONDS, 400 * 86400.0))
    await store.upkeep()
    assert (await operations.get(kept)).state == "done"
    assert (await operations.get(forgotten.number)).state == "cancelled"


async def test_numbers_are_not_given_twice(file: SqliteFile, operations: SqliteOperations, clock: FakeClock) -> None:
    first = await started(operations, "retry", [])
    clock.advance(101)
    await SqliteStore(file, RetentionSettings(operations=100.0)).upkeep()
    with pytest.raises(OperationNotFound):
        await operations.get(first.number)
    assert (await started(operations, "retry", [])).number > first.number


@pytest.mark.parametrize("number", [0, -1, 2**63, -(2**70)])
async def test_numbers_that_no_operation_has(operations: SqliteOperations, number: int) -> None:
    kept = await started(operations, "retry", [])
    for call in (operations.get(number), operations.step(number, 1), operations.list_members(number, 0, 1)):
        with pytest.raises(OperationNotFound):
            await call
    found = await operations.list_operations(2**70, before=number)
    assert [one.number for one in found] == ([kept.number] if number > 0 else [])
    assert await operations.list_members(kept.number, max(number, 0), 2**70) == []


async def test_jobs_that_are_removed_leave_nothing(
    file: SqliteFile, operations: SqliteOperations, clock: FakeClock
) -> None:
    """Whether their retention is over or an operator purges them."""
    store = SqliteStore(file, RetentionSettings(dead=DAY))
    for kind in ("completed", "cancelled", "dead", "purged"):
        job_id = await insert(store, unique_key=kind)
        for end in ("retrying", "dead" if kind == "purged" else kind):
            (claim,) = await store.claim(REQUEST._replace(ids=[job_id]))
            await store.log([LogLine(claim.id, claim.token, QUEUE, 1, "hello")])
            await store.settle([outcome(claim, end)])
            clock.advance(LEASE + 1)
            await store.promote(10)
    tables = ("jobs", "payloads", "job_attempts", "attempt_outcomes", "job_logs", "unique_keys")
    counted = ", ".join(f"(select count(*) from {table})" for table in tables)
    ((*before,),) = await rows(file, f"select {counted}")
    assert 0 not in before
    for verb in ("delete", "purge"):
        assert (await operations.change(verb, [job_id])).ids == (job_id,)
    assert await rows(file, f"select {counted}") == [tuple(3 * one // 4 for one in before)]
    clock.advance(40 * DAY)
    await store.upkeep()
    assert await rows(file, f"select {counted}") == [(0,) * len(tables)]
