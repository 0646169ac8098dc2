"""No statement of the rules reads a table as a whole, though it was planned when there was nothing in it."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import psycopg

from queue_core.model.job import new_id
from queue_core.model.settings import SCHEMA, PostgresSettings
from queue_core.stores.postgres.dialect import load, plain_array
from queue_core.stores.postgres.session.connection import hot_options
from queue_core.stores.postgres.settle import group_parameters
from tests.conformance.making import QUEUE, failure
from tests.postgres.rules.conftest import NewHand
from tests.postgres.rules.scenes import Scene, scene
from tests.postgres.traps.hands import Hand
from tests.postgres.traps.test_traps_plans import FEW, looked_at

BURST = """
insert into jobs (id, queue_id, rank, seq, priority, status, run_at, type, payload, max_retries, ordering_key, admitted)
select gen_random_uuid(), 1, case when n % 2 = 0 then 122::bigint << 45 | n end, n, 5, 'queued', now(), 'task', '{}', 3,
       case when n % 2 = 0 then 'key-' || n else 'busy' end, n % 2 = 0
  from (select nextval('job_seq') as n from generate_series(1, 20000)) numbers;
insert into jobs (id, queue_id, rank, seq, priority, status, run_at, type, payload, max_retries)
select gen_random_uuid(), 1, 122::bigint << 45 | n, n, 5, 'queued', now(), 'task', '{}', 3
  from (select nextval('job_seq') as n from generate_series(1, 20000)) numbers;
insert into jobs (id, queue_id, seq, priority, status, run_at, type, payload, max_retries, ordering_key)
select gen_random_uuid(), 1, n, 5, 'scheduled', now() + interval '1 day', 'task', '{}', 3, 'busy'
  from (select nextval('job_seq') as n from generate_series(1, 20000)) numbers;
insert into jobs_dead (id, queue_id, seq, priority, run_at, type, payload, retry_count, crashes, max_retries,
                       last_token, signature, kind, created_at, ordering_key)
select gen_random_uuid(), 1, n, 5, now(), 'task', '{}', 3, 0, 3, n, 'x', 'error', now(), 'busy'
  from generate_series(1, 20000) n;
insert into ordering_locks select 1, 'key-' || n from generate_series(1, 20000) n;
insert into unique_keys select 1, 'key-' || n, gen_random_uuid(), 'infinity' from generate_series(1, 20000) n;
insert into capacity_requeued select 2, '', 1, now() from generate_series(1, 20000) n;
"""


def statements(on: Scene) -> dict[str, dict[str, Any]]:
    """Return every statement of the rules on the way of jobs, for one key and for a few jobs."""
    keys = {"queue_id": "{1,1}", "key": f"{{{on.key},busy}}", "capacity": "{3,3}", "whole": True}
    unique = {"queue_id": "{1}", "key": "{other}", "job_id": plain_array([new_id()]), "seconds": "{NULL}"}
    room = {"queue_id": "{1}", "band": '{""}', "capacity": "{100}", "n": "{1}"}
    ids = plain_array([on.running, on.due])
    locked = {"locks": f'{{"1 {on.key}"}}'}
    return {
        "ordering/lock": {"queue": f"{{{QUEUE}}}", "key": f"{{{on.key}}}"},
        "ordering/lock_soon": {"queue": f"{{{QUEUE}}}", "key": f"{{{on.key}}}", "patience": "1s"},
        "ordering/lock_free": {"queue": f"{{{QUEUE}}}", "key": f"{{{on.key}}}"},
        "ordering/make_locks": {"queue": f"{{{QUEUE}}}", "key": f"{{{on.key}}}", "patience": "1s"},
        "ordering/add_pending": {"queue_id": "{1}", "key": f"{{{on.key}}}"},
        "ordering/clear_pending": {"locks": f'{{"1 {on.key}"}}'},
        "ordering/unblock_next": keys,
        "ordering/raise_watermark": keys,
        "ordering/keys_of_unfinished": {"ids": ids},
        "change/keys_of_dead": {"ids": plain_array([on.dead])},
        "settle/finish": group_parameters("settle/finish", [on.outcome("completed")]) | locked,
        "settle/requeue": group_parameters("settle/requeue", [on.outcome("released", to_back=True)]) | locked,
        "settle/bury": group_parameters("settle/bury", [on.outcome("dead", failure=failure())]) | locked,
        "ordering/promote_keyed": {"ids": ids} | locked,
        "keys/unused_locks": {"queue_id": 1, "key": "", "limit": 100},
        "keys/forget_locks": {"queue_id": "{1}", "key": "{key-1}"},
        "ordering/unique_lock": unique,
        "ordering/unique_take": unique,
        "keys/look_unique": {"queue_id": 1, "key": "", "limit": 100},
        "keys/forget_unique": {"queue_id": "{1}", "key": "{key-1}"},
        "keys/expire_unique": {"limit": 100},
        "capacity/unfinished": {"ids": ids},
        "capacity/lock": room,
        "capacity/spend": room,
        "capacity/rate_lock": {"queue_id": 1, "burst": 1.0},
        "capacity/running": {"queue_id": 1, "running": ids, "above": 0, "room": 5},
        "capacity/rate_spend": {"queue_id": 1, "tokens": 1.0, "at": 0.0},
        "ordering/arrivals_count": {"queue": f"{{{QUEUE}}}", "n": "{1}"},
        "keys/stalled": {"queue": "{}", "capacity": "{}", "queue_id": -1, "key": "", "limit": 50},
    }


def after_a_burst(hand: Hand, url: str, **options: Any) -> dict[str, int]:
    """Plan each statement on nearly empty tables, let many jobs come, and count what it looks at."""
    on = scene(hand)
    for table in ("jobs", "jobs_dead", "ordering_locks", "unique_keys", "capacity_requeued", "queues", "leases"):
        hand.do(f"vacuum analyze {table}")
    found = {}
    with ExitStack() as stack:
        connections = {}
        for name, params in statements(on).items():
            connection = connections[name] = stack.enter_context(
                psycopg.connect(**hot_options(PostgresSettings(url=url)) | options)
            )
            for _ in range(8):
                with connection.transaction(force_rollback=True):
                    connection.execute(load(name, SCHEMA), params, prepare=True)
        hand.do(BURST)
        for name, params in statements(on).items():
            connections[name].execute(load("runner/forget_plans"), prepare=False)
            found[name] = looked_at(connections[name], name, params)
    return found


def test_no_statement_of_the_rules_reads_a_table_as_a_whole(new_hand: NewHand, postgres_url: str) -> None:
    found = after_a_burst(new_hand(), postgres_url)
    assert {name: rows for name, rows in found.items() if rows > FEW} == {}


def test_it_can_fail(new_hand: NewHand, postgres_url: str) -> None:
    """Without the indexes they have to."""
    hand = new_hand()
    hand.do("drop index jobs_ordering")
    hand.do("alter table ordering_locks drop constraint ordering_locks_pkey, add unique (key, queue_id)")
    found = after_a_burst(hand, postgres_url)
    assert found["ordering/unblock_next"] > FEW
