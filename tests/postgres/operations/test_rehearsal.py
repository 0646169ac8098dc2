"""`doctor` does what operators do, and takes it back."""

from __future__ import annotations

import pytest

from queue_core.model.operation import VERBS
from queue_core.stores.postgres import operations
from queue_core.stores.postgres.read import PostgresInspector
from tests.postgres.operations.filling import Database

TABLES = (
    "queues", "jobs", "jobs_dead", "job_history", "job_attempts", "leases", "operations", "operation_members",
    "schedules", "tally_deltas", "workers",
)  # fmt: skip
REFUSE = """
create function refuse() returns trigger language plpgsql as $$ begin raise exception 'not on a Sunday'; end $$;
create trigger refuse before {event} on {table} for each row execute function refuse();
"""


async def counts(database: Database) -> dict[str, int]:
    return {table: await database.value(f"select count(*) from {table}") for table in TABLES}


def test_every_verb_is_tried() -> None:
    assert {verb for verb, _, _ in operations.REHEARSED} == set(VERBS)


async def test_everything_can_be_done_and_nothing_stays(inspector: PostgresInspector, database: Database) -> None:
    before = await counts(database)
    assert (await inspector.facts())["refused"] == ""
    assert await counts(database) == before


@pytest.mark.parametrize(
    ("event", "table"),
    [
        ("insert", "operations"),
        ("update", "operations"),
        ("insert", "operation_members"),
        ("insert", "jobs"),
        ("delete", "jobs"),
        ("update", "queues"),
        ("update", "schedules"),
        ("delete", "jobs_dead"),
        ("insert", "job_history"),
    ],
)
async def test_what_the_server_refuses_is_found(
    inspector: PostgresInspector, database: Database, event: str, table: str
) -> None:
    for statement in REFUSE.format(event=event, table=table).strip().split(";\n"):
        await database.do(statement)
    before = await counts(database)
    assert (await inspector.facts())["refused"] == "not on a Sunday"
    assert await counts(database) == before


async def test_a_verb_that_changes_nothing_is_found(
    inspector: PostgresInspector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operations, "REHEARSED", (operations.REHEARSED[2],))
    assert (await inspector.facts())["refused"] == "a restore changed 0 of 1 job"


async def test_it_takes_no_number_from_the_operations(inspector: PostgresInspector, database: Database) -> None:
    """The list of operations would jump from 30 to 49 after two runs of `doctor`."""
    sequence = await database.value("select pg_get_serial_sequence('operations', 'number')")
    state = f"select last_value::text || is_called from {sequence}"
    before = await database.value(state)
    assert (await inspector.facts())["refused"] == ""
    assert await database.value(state) == before
