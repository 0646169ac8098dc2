"""How safe a commit is, what happens to who gives up, and what types of others cost."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from queue_core.errors import InvalidJob, StoreUnavailable
from queue_core.ports.store import ClaimRequest
from queue_core.stores.sqlite.operations import SqliteOperations
from queue_core.stores.sqlite.read import SqliteInspector
from queue_core.stores.sqlite.session import SqliteFile, Transaction
from queue_core.stores.sqlite.store import SqliteStore
from tests.conformance.making import LEASE, QUEUE, TYPE, new_job, outcome
from tests.conformance.working import PATIENCE
from tests.sqlite.conftest import NewFile
from tests.sqlite.crashing import REQUEST

FULL, NORMAL = 2, 1


def safety(transaction: Transaction) -> int:
    return int(transaction.records("pragma synchronous", ())[0][0])


async def test_what_was_promised_is_on_the_disk(new_file: NewFile) -> None:
    file = new_file()
    for _ in range(2):
        assert await file.write(safety) == FULL
        assert await file.write_soft(safety) == NORMAL
    assert (await file.inspect(lambda transaction: transaction.rows("read/facts")))[0][1] == "wal"


async def seen(file: SqliteFile, calls: list[object]) -> list[int]:
    return [await call for call in calls]  # type: ignore[misc]


async def test_which_calls_promise(new_file: NewFile, monkeypatch: pytest.MonkeyPatch) -> None:
    """Enqueue, settle and what operators change are durable; what is done again by itself is not."""
    file = new_file()
    store, operations = SqliteStore(file), SqliteOperations(file)
    used: list[str] = []
    for name in ("write", "write_soft"):
        original = getattr(file, name)

        def note(work: object, name: str = name, original: object = original) -> object:
            used.append(name)
            return original(work)  # type: ignore[operator]

        monkeypatch.setattr(file, name, note)
    await store.insert([new_job()])
    (claim,) = await store.claim(REQUEST)
    await store.settle([outcome(claim, "dead")])
    await operations.change("retry", [claim.id])
    await operations.pause(QUEUE)
    # the first claim of a process reserves tokens
    assert used == ["write", "write", "write_soft", "write", "write", "write"]
    used.clear()
    await store.claim(REQUEST)
    await store.promote(10)
    await store.reclaim(10)
    await store.acquire_leadership("sweep", "w", 10)
    assert set(used) == {"write_soft"}


async def test_who_gives_up_a_claim_leaves_nothing_behind(new_file: NewFile) -> None:
    """A worker that stops must not take jobs with it until their leases end."""
    file = new_file()
    store = SqliteStore(file)
    ids = [one.id for one in await store.insert([new_job() for _ in range(50)])]
    for pause in (0.0, 0.0005, 0.001, 0.002, 0.004, 0.008):
        claiming = asyncio.create_task(store.claim(REQUEST._replace(limit=8)))
        await asyncio.sleep(pause)
        claiming.cancel()
        await asyncio.gather(claiming, return_exceptions=True)
        if not claiming.cancelled():
            await store.settle([outcome(claim, "released") for claim in claiming.result()])
    await store.close()
    again = SqliteStore(new_file())
    claims = await again.claim(REQUEST)
    assert [claim.id for claim in claims] == ids
    assert {claim.crashes for claim in claims} == {0}


async def test_who_gives_up_before_its_turn_has_done_nothing(new_file: NewFile) -> None:
    file = new_file()
    store = SqliteStore(file)
    await store.insert([new_job()])
    held, entered = threading.Event(), threading.Event()

    def block(transaction: Transaction) -> None:
        entered.set()
        held.wait(PATIENCE)

    blocking = asyncio.create_task(file.write(block))
    await asyncio.to_thread(entered.wait, PATIENCE)
    inserting = asyncio.create_task(store.insert([new_job()]))
    await asyncio.sleep(0.05)
    inserting.cancel()
    await asyncio.gather(inserting, return_exceptions=True)
    held.set()
    await blocking
    assert (await SqliteInspector(file).conservation()).unfinished == 1


async def test_an_answer_that_takes_too_long(new_file: NewFile) -> None:
    file = new_file(timeout=0.2)

    def slow(transaction: Transaction) -> None:
        numbers = "with recursive n (i) as (select 1 union all select i + 1 from n) select count(*) from n"
        transaction.records(numbers, ())

    start = time.monotonic()
    with pytest.raises(StoreUnavailable, match=r"gave no answer within 0\.2 s"):
        await file.inspect(slow)
    assert time.monotonic() - start < 30
    # It was ended, not only left alone: the thread is free again.
    assert await file.inspect(lambda transaction: transaction.rows("read/ping")) == [(1,)]


async def test_many_callers_line_up(store: SqliteStore) -> None:
    await asyncio.gather(*(store.insert([new_job()]) for _ in range(200)))
    ids = [claim.id for _ in range(20) for claim in await store.claim(REQUEST._replace(limit=10))]
    assert len(set(ids)) == 200


@pytest.mark.parametrize(
    "wrong",
    [{"type": "\ud800"}, {"payload": "\ud800"}, {"queue": "\ud800"}, {"queue": "a\0b"}, {"max_retries": 1 << 70}],
)
async def test_values_that_no_store_can_hold(store: SqliteStore, wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidJob):
        await store.insert([new_job(), new_job(**wrong), new_job()])
    assert await store.claim(REQUEST) == []
    assert await store.queues() == {}


async def test_rubbish_in_a_payload_hurts_nobody(store: SqliteStore) -> None:
    texts = ["{", "", "[]", "\0", '{"a": NaN}', "[" * 5000, '"\\ud800"']
    await store.insert([new_job(payload=text) for text in texts])
    assert [claim.payload for claim in await store.claim(REQUEST)] == texts


async def test_a_backlog_of_types_that_nobody_has_costs_nothing(new_file: NewFile) -> None:
    store = SqliteStore(new_file())
    mine = [new_job(priority=0) for _ in range(3)]
    await store.insert([*(new_job(type=f"strange-{n % 7}") for n in range(20_000)), *mine])
    times = []
    for job in mine:
        start = time.perf_counter()
        (claim,) = await store.claim(ClaimRequest(QUEUE, "w", (TYPE, "more"), 1, LEASE))
        times.append(time.perf_counter() - start)
        assert claim.id == job.id
    assert await store.claim(ClaimRequest(QUEUE, "w", (TYPE, "more"), 1, LEASE)) == []
    assert min(times) < 0.05


async def test_types_are_merged_by_rank(store: SqliteStore) -> None:
    jobs = [new_job(type=f"t{n % 5}", priority=n % 3) for n in range(60)]
    await store.insert(jobs)
    expected = [job.id for job in sorted(jobs, key=lambda job: -job.priority) if job.type in {"t1", "t3", "t4"}]
    types = ("t4", "t1", "nothing", "t3")
    found = []
    while claims := await store.claim(ClaimRequest(QUEUE, "w", types, 7, LEASE)):
        found += [claim.id for claim in claims]
    assert found == expected


async def test_what_comes_while_it_is_closed_has_a_connection_of_its_own(new_file: NewFile) -> None:
    """A late call would otherwise work in another thread on the connection that is being closed."""
    file = new_file()
    held, go = threading.Event(), threading.Event()

    def hold(transaction: Transaction) -> None:
        held.set()
        assert go.wait(PATIENCE)

    holding = asyncio.create_task(file.write_soft(hold))
    assert await asyncio.to_thread(held.wait, PATIENCE)
    closing = asyncio.create_task(file.close())
    await asyncio.sleep(0)
    late = asyncio.create_task(file.write_soft(safety))
    await asyncio.sleep(0)
    go.set()
    await asyncio.gather(holding, closing)
    assert await late == NORMAL
    await file.close()
