"""How few messages the plan of a transaction takes, and that it is one transaction all the same."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from pydantic import SecretStr

from queue_core.errors import InvalidJob
from queue_core.model.rules import QueueRules
from queue_core.model.settings import PostgresSettings
from queue_core.ports.store import ClaimRequest
from queue_core.stores.postgres import ordering
from queue_core.stores.postgres.session.plans import Ahead, Last, Plan
from queue_core.stores.postgres.session.runner import SerialRunner
from queue_core.stores.postgres.session.statements import PreparedStatements
from queue_core.stores.postgres.store import PostgresStore
from tests.conformance.making import LEASE, QUEUE, TYPE, WORKER, outcome
from tests.postgres.traps.hands import Hand, new_job

MOST = 5
RULES = {QUEUE: QueueRules(concurrency=MOST)}
ADD, READ = "queue_ids/create", "queue_ids/read"


@pytest.fixture
async def store(postgres_url: str) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(PostgresSettings(url=SecretStr(postgres_url)), rules=RULES)
    await store.open()
    await store.acquire_leadership("sweep", "leader", 0)
    yield store
    await store.close()


@pytest.fixture
async def runner(postgres_url: str) -> AsyncIterator[SerialRunner]:
    runner = SerialRunner(PostgresSettings(url=SecretStr(postgres_url)))
    await runner.run(READ)
    yield runner
    await runner.close()


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """An entry for each message of several statements: how many."""
    found: list[int] = []
    together = PreparedStatements.run_together

    async def noted(self: PreparedStatements, steps: Sequence[Any]) -> Any:
        found.append(len(steps))
        return await together(self, steps)

    monkeypatch.setattr(PreparedStatements, "run_together", noted)
    return found


def adding(name: str) -> tuple[str, dict[str, str]]:
    return ADD, {"names": "{" + name + "}"}


def names(rows: list[tuple[Any, ...]]) -> set[str]:
    return {row[0] for row in rows}


@pytest.mark.parametrize(
    ("rules", "key", "messages"),
    [({}, None, 1), ({"rate": "100000/s"}, None, 3), ({}, "key", 1)],
    ids=["concurrency", "rate", "ordering key"],
)
async def test_ends_and_the_claim_behind_them_take_few(
    postgres_url: str, sent: list[int], rules: dict[str, Any], key: str | None, messages: int
) -> None:
    """Each way there and back takes longer than most of the statements, with all that they lock."""
    given = {} if key else {QUEUE: QueueRules(concurrency=MOST, **rules)}
    store = PostgresStore(PostgresSettings(url=SecretStr(postgres_url)), rules=given)
    await store.open()
    await store.acquire_leadership("sweep", "leader", 0)
    await store.insert([new_job(ordering_key=key) for _ in range(30)])
    most = 1 if key else MOST
    claims = await store.claim(ClaimRequest(QUEUE, WORKER, (TYPE,), most, LEASE))
    for number in range(4):  # by then all of it is prepared, and the ids of the queue are known
        del sent[:]
        request = ClaimRequest(QUEUE, WORKER, (TYPE,), most, LEASE, number=number + 1, start_count=most)
        if key:
            request = request._replace(ids=[])
        ends = [outcome(claim, "completed", ordering_key=key) for claim in claims]
        settled, claims = await store.settle_and_claim(ends, [request])
        assert ([one.accepted for one in settled], len(claims)) == ([True] * most, most)
    assert len(sent) == messages
    await store.close()


async def test_a_key_that_may_be_slow_is_measured_alone_until_it_is_not(
    postgres_url: str, sent: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """How long its next jobs take is not to be seen where all comes in one answer."""
    monkeypatch.setattr(ordering, "SLOW_UNBLOCKED", 1)
    monkeypatch.setattr(ordering, "_slow", ordering.SlowKeys())
    store = PostgresStore(PostgresSettings(url=SecretStr(postgres_url)), rules={})
    await store.open()
    await store.acquire_leadership("sweep", "leader", 0)
    await store.insert([new_job(ordering_key="key") for _ in range(9)])

    async def messages(slow: float) -> int:
        monkeypatch.setattr(ordering, "SLOW_SECONDS", slow)
        (claim,) = await store.claim(ClaimRequest(QUEUE, WORKER, (TYPE,), 1, LEASE))
        del sent[:]
        assert (await store.settle([outcome(claim, "completed", ordering_key="key")]))[0].accepted
        return len(sent)

    fast, slow = 60.0, -1.0
    await messages(fast)
    assert [await messages(seconds) for seconds in (fast, slow, fast, fast)] == [1, 1, 4, 1]
    assert [await messages(seconds) for seconds in (slow, slow, slow, slow)] == [1, 4, 4, 5], "its mark is raised"
    await store.close()


@pytest.mark.parametrize(
    ("given", "messages"),
    [({}, 3), ({"unique_key": "u"}, 4), ({"ordering_key": "k"}, 6)],
    ids=["limit", "unique key and limit", "ordering key and limit"],
)
async def test_an_enqueue_under_rules_takes_few(
    postgres_url: str, sent: list[int], given: dict[str, Any], messages: int
) -> None:
    """Of a queue with a limit; with a key the next ones follow from what is locked."""
    settings = PostgresSettings(url=SecretStr(postgres_url))
    store = PostgresStore(settings, rules={QUEUE: QueueRules(limit=1000)})
    await store.open()
    for number in range(4):
        del sent[:]
        named = {name: f"{value}{number}" for name, value in given.items()}
        (answer,) = await store.insert([new_job(**named)])
        assert answer.created
    assert len(sent) == messages
    await store.close()


async def test_a_plan_has_the_rows_of_what_was_sent_ahead_and_commits_with_its_last_step(
    runner: SerialRunner, sent: list[int], postgres_url: str
) -> None:
    def plan() -> Plan[tuple[set[str], set[str], set[str]]]:
        first = yield Ahead(*adding("a"))
        second = yield Ahead(*adding("b"))
        before = yield READ, {}
        assert names(first) == {"a"}
        return names(second), names(before), names((yield Last(READ, {})))

    for _ in range(3):  # the third time all is prepared
        del sent[:]
        assert await runner.run_plan(plan) == ({"b"}, {"a", "b"}, {"a", "b"})
    assert sent == [4, 2]
    with Hand(postgres_url) as other:
        assert other.do("SELECT name FROM queues ORDER BY name") == [("a",), ("b",)]


async def test_what_a_plan_leaves_for_its_end_is_sent_with_the_commit(
    runner: SerialRunner, sent: list[int], postgres_url: str
) -> None:
    def plan() -> Plan[list[tuple[Any, ...]]]:
        return (yield Ahead(*adding("a")))

    assert names(await runner.run_plan(plan)) == {"a"}
    assert sent == [3]
    with Hand(postgres_url) as other:
        assert other.do("SELECT name FROM queues") == [("a",)]


async def test_a_plan_without_steps_sends_nothing(runner: SerialRunner, sent: list[int]) -> None:
    def plan() -> Plan[int]:
        yield from ()
        return 7

    assert await runner.run_plan(plan) == 7
    assert sent == []


@pytest.mark.parametrize("last", [False, True])
async def test_a_plan_that_fails_leaves_nothing(runner: SerialRunner, postgres_url: str, last: bool) -> None:
    """Its own exception, or an error of the server in its last step, whose commit is left out then."""

    class Refused(Exception):
        pass

    def plan() -> Plan[None]:
        yield Ahead(*adding("a"))
        yield READ, {}
        if last:
            yield Last(ADD, {"names": "no array"})
        raise Refused

    with pytest.raises(InvalidJob if last else Refused):
        await runner.run_plan(plan)
    assert await runner.run(READ) == []
    with Hand(postgres_url) as other:
        assert other.do("SELECT pid FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'") == []


async def test_a_claim_that_the_server_ends_before_its_commit_may_be_sent_again(
    store: PostgresStore, postgres_url: str
) -> None:
    """A lock that is not to be had in time: what was sent behind it was not carried out, the commit, too."""
    await store.insert([new_job() for _ in range(MOST)])
    await store.claim(ClaimRequest(QUEUE, WORKER, (TYPE,), 1, LEASE))
    with Hand(postgres_url) as holder:
        with holder.transaction():
            assert holder.do("select queue_id from queue_rates for update") == [(1,)]
            with pytest.raises(Exception, match="others hold rows"):
                await store.claim(ClaimRequest(QUEUE, WORKER, (TYPE,), 1, LEASE))
        claims = await store.claim(ClaimRequest(QUEUE, WORKER, (TYPE,), MOST, LEASE))
        assert len(claims) == MOST - 1
        assert holder.do("SELECT count(*) FROM leases") == [(MOST,)]
