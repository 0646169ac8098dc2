"""Traps 10 and 12, whatever the store asks: with a snapshot held, no statement of daily work reads all that ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import psycopg
import pytest

from queue_core.model.rules import QueueRules
from queue_core.model.settings import PostgresSettings
from queue_core.ports.store import ClaimRequest
from queue_core.stores.postgres import claim as heads
from queue_core.stores.postgres.scans import ranks, times
from queue_core.stores.postgres.session.connection import hot_options
from queue_core.stores.postgres.session.plans import Messages
from queue_core.stores.postgres.session.runner import SerialRunner
from queue_core.stores.postgres.store import PostgresStore
from tests.conformance.making import LEASE, TYPE, WORKER, held, outcome, worker_beat
from tests.postgres.traps.conftest import NewHand
from tests.postgres.traps.hands import new_job
from tests.postgres.traps.test_traps_plans import looked_at

RULES = {
    "plain": QueueRules(),
    "limited": QueueRules(limit=1000),
    "counted": QueueRules(concurrency=100),
    "rated": QueueRules(rate=100_000),
    "aged": QueueRules(aging=1.0),
    "keyed": QueueRules(),
}
ENDED = 5_000
"""Jobs that ended in each queue."""
FEW = 1_500
"""Rows and entries; a look at ten queues and ten jobs is below it."""
RARELY = {
    "claim/ready_queues": "assumed for a time that grows with what it took",
    "keys/look_unique": "once a minute, on a walk over all keys",
    "keys/stalled": "once a minute, on a walk over all keys",
    "keys/unused_locks": "once a minute, on a walk over all locks",
    "claim/by_rank": "in queues with aging, where what comes later may stand before what was passed",
    "capacity/count": "where room below a limit does not suffice, or once a minute",
    "capacity/spend": "what retried and released jobs have noted since the snapshot",
    "ordering/unblock_next": "what ended of a key: where a delayed job comes, or until it was slow three times",
    "capacity/running_scan": "once a minute in each process",
}
"""What may read more, and how often or how much."""
ENDING = f"""
create temporary table n as select nextval('job_seq') as n from generate_series(1, {ENDED});
insert into jobs (id, queue_id, rank, seq, aged_rank, priority, status, run_at, type, payload, max_retries)
select gen_random_uuid(), id, coalesce(aged_rank, 122::bigint << 45 | n), n, aged_rank, 5, 'queued', now(), 'task',
       '{{}}', 3
  from (select id, n, aged_rank(5::smallint, (extract(epoch from now()) * 1e6)::bigint,
                                1000000 * (name = 'aged')::int) as aged_rank from queues, n) q;
insert into leases (id, token, queue_id, worker, started_at, expires_at, limited)
select id, seq, queue_id, 'gone', now(), now() + interval '1 hour', true from jobs;
delete from jobs;
delete from leases;
insert into jobs (id, queue_id, seq, priority, status, run_at, type, payload, max_retries)
select gen_random_uuid(), q.id, n, 5, 'scheduled', now() - interval '1 hour', 'task', '{{}}', 3 from queues q, n;
delete from jobs;
insert into jobs (id, queue_id, seq, priority, status, run_at, type, payload, max_retries, ordering_key)
select gen_random_uuid(), q.id, n, 5, 'queued', now(), 'task', '{{}}', 3, 'k' from queues q, n where q.name = 'keyed';
update jobs set admitted = true, rank = 122::bigint << 45 | seq;
delete from jobs;
insert into capacity_requeued (queue_id, band, n) select q.id, '', 1 from queues q, n;
delete from capacity_requeued;
insert into tally_deltas (queue_id, type, outcome, n) select q.id, 't', 'enqueued', 1 from queues q, n;
delete from tally_deltas;
insert into ordering_locks (queue_id, key) select q.id, 'k' || n from queues q, n;
delete from ordering_locks;
insert into unique_keys (queue_id, key, job_id, expires_at)
select q.id, 'k' || n, gen_random_uuid(), 'infinity' from queues q, n;
delete from unique_keys;
analyze jobs, leases, capacity_requeued, tally_deltas, ordering_locks, unique_keys;
"""


async def everything(store: PostgresStore, round_: int) -> None:
    """Do what producers, workers and the leader do, in queues with all kinds of rules."""
    heart = store.open_heartbeat()
    identity = {"queues": tuple(RULES), "place": "here", "process": "1", "with_neighbours": True}
    heart.renew(worker_beat(**identity))
    for queue in RULES:
        key: dict[str, Any] = {"ordering_key": "k"} if queue == "keyed" else {}
        jobs = [new_job(queue=queue, **key) for _ in range(4)]
        jobs += [new_job(queue=queue, unique_key=f"u{round_}", **key), new_job(queue=queue, delay=0.001, **key)]
        await store.insert(jobs)
        await store.promote(10)
        ids = [job.id for job in jobs]
        claims = await store.claim(ClaimRequest(queue, WORKER, (TYPE,), 1, LEASE, ids))
        claims += await store.claim(ClaimRequest(queue, WORKER, (TYPE,), 3, LEASE))
        heart.renew(worker_beat(*(held(claim, 50, "half") for claim in claims), **identity))
        for claim, kind in zip(claims, ("completed", "retrying", "released", "dead"), strict=False):
            await store.settle([outcome(claim, kind, delay=0.001 if kind == "retrying" else 0.0)])
        await store.list_claimable(queue, 20)
        await store.filter_claimable(queue, ids)
        await store.results(ids)
        await store.list_ready(queue, 0, 20, whole=False)
        await store.claim(ClaimRequest(queue, WORKER, (TYPE,), 10, 0.0))
        await store.reclaim(10)
    heart.close()
    await store.list_claimable_in(list(RULES), 20)
    await store.ready_queues()
    await store.next_work()
    await store.next_due()
    await store.queues()
    await store.upkeep()


async def asked(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Mapping[str, Any] | None]]:
    """Return what the store asks when it does everything once more."""
    found: list[tuple[str, Mapping[str, Any] | None]] = []
    step, add = SerialRunner._step, Messages._add

    def added(messages: Messages, query: str, params: Mapping[str, Any]) -> Any:
        found.append((query, params))
        return add(messages, query, params)

    async def noted(runner: SerialRunner, session: Any, query: str, params: Mapping[str, Any] | None) -> Any:
        found.append((query, params))
        return await step(runner, session, query, params)

    with monkeypatch.context() as noting:
        noting.setattr(SerialRunner, "_step", noted)
        noting.setattr(Messages, "_add", added)
        await everything(store, 9)
    return found


async def test_nothing_that_is_asked_all_the_time_reads_what_ended(
    new_hand: NewHand, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is slow once is not slow for long; what is exempt is named here, with its bound."""
    for module in (ranks, heads):
        monkeypatch.setattr(module, "USUAL_SECONDS", -1.0)
    monkeypatch.setattr(ranks, "RANKS_LONG", -1.0)
    monkeypatch.setattr(ranks, "COMMIT_LAG", 0.0)
    monkeypatch.setattr(ranks, "MIN_PAUSE", 3600.0)
    monkeypatch.setattr(times, "SCANS_REST", 1e9)
    store = PostgresStore(PostgresSettings(url=postgres_url), rules=RULES)
    for scans in (store._ready, store._due._scans):
        monkeypatch.setattr(scans, "_enough", ((1, 0.0),))
    await store.open()
    await store.acquire_leadership("sweep", "leader", 0)
    await everything(store, 0)
    snapshot, hand = new_hand(), new_hand()
    snapshot.do("begin isolation level repeatable read")
    snapshot.do("select count(*) from jobs")
    hand.do(ENDING)
    for round_ in range(4):
        await everything(store, round_ + 1)
    store._upkeep._pruned_at = float("-inf")
    found: dict[str, int] = {}
    calls = await asked(store, monkeypatch)
    with psycopg.connect(**hot_options(PostgresSettings(url=postgres_url))) as connection:
        for name, params in calls:
            found[name] = max(found.get(name, 0), looked_at(connection, name, dict(params or {})))
    await store.close()
    assert len(found) > 40, "it is a part of all there is"
    assert {name: read for name, read in found.items() if read > FEW and name not in RARELY} == {}
