"""What operators do, done to jobs made for it and then rolled back: so `doctor` sees what the server refuses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from queue_core.errors import SchemaError, StoreRefused
from queue_core.identifiers import new_id
from queue_core.operations import Author, MemberVerb, NewOperation, Pace, Way
from queue_core.rules import Rules
from queue_core.stores.postgres import stepping
from queue_core.stores.postgres.bounded import bounds
from queue_core.stores.postgres.plan import Plan, Rows, carry_out
from queue_core.stores.postgres.pool import Pool
from queue_core.stores.postgres.sql import load, plain_array, text_array

AUTHOR = Author("doctor", "doctor")
CREATE = "rehearse/create"
VERBS: tuple[tuple[MemberVerb, Way, int], ...] = (
    # verb, how, and to which of two dead jobs, in an order that each of them can be carried out in
    ("move", Way(priority=7), 0),
    ("delete", Way(), 0),
    ("restore", Way(), 0),
    ("retry", Way(), 0),
    ("move", Way(priority=8), 0),
    ("cancel", Way(), 0),
    ("delete", Way(), 1),
    ("purge", Way(), 1),
)


async def rehearse(pool: Pool, rules: Rules) -> str:
    """Do what operators do, take it back, and return what kept it from being done; "" when nothing did.

    Raises:
        StoreUnavailable: no connection or no answer in time.
    """
    try:
        async with pool.connection() as connection, connection.transaction(force_rollback=True):
            await connection.execute(bounds(pool.settings.timeout * 0.9), prepare=False)

            async def run(query: str, params: Mapping[str, Any]) -> Rows:
                cursor = await connection.execute(load(query), params)
                return await cursor.fetchall() if cursor.description else []

            return await carry_out(_everything(rules), run)
    except StoreRefused as error:
        return error.reason
    except SchemaError as error:
        return str(error)


def _everything(rules: Rules) -> Plan[str]:
    queue, jobs = f"doctor {uuid4().hex}", [new_id(), new_id()]
    yield "insert/queues", {"names": text_array([queue])}
    yield "rehearse/dead", {"queue": queue, "ids": plain_array(jobs)}
    for verb, way, which in VERBS:
        changed = yield from _operation(
            NewOperation(verb, "", AUTHOR, way=way, pace=Pace(rate=1e6)), jobs[which], rules
        )
        if changed != 1:
            return f"a {verb} changed {changed} of 1 job"
    yield from _at_once(queue)
    return ""


def _operation(asked: NewOperation, job: str, rules: Rules) -> Plan[int]:
    """Do everything that is done to an operation, and return how many jobs it has changed."""
    number = yield from stepping.create(asked, CREATE)
    yield from stepping.add(number, [job, "no id"], [job, None])
    for state in ("running", "paused", "running"):
        yield from stepping.turn(number, state, "")
    yield from stepping.step(number, 1, rules)
    yield from stepping.err(number, "")
    yield "operation/changed", {"number": number, "after": 0, "limit": 1}
    yield "operation/of_job", {"job": job, "limit": 1}
    yield "operation/outcomes", {"number": number, "last": 1}
    return (yield from stepping.read(number)).processed


def _at_once(queue: str) -> Plan[None]:
    """Do what is done at once, and only noted."""
    number = yield from stepping.create(NewOperation("pause", queue, AUTHOR), CREATE)
    yield from stepping.turn(number, "done", "")
    yield "change/pause", {"queue": queue}
    yield "change/resume", {"queue": queue}
    yield "change/command", {"worker": queue, "command": "quiet"}
    texts = {name: text_array([queue]) for name in ("name", "cron", "tz", "type", "payload", "queue")}
    numbers = {"priority": plain_array([5]), "max_retries": plain_array([0]), "next_tick": plain_array([0.0])}
    yield "schedule/announce", {**texts, **numbers, "ordering_key": text_array([None])}
    yield "schedule/pause", {"name": queue}
    yield "schedule/resume", {"name": queue, "next_tick": 0.0}
    yield "schedule/remove", {"name": queue}
