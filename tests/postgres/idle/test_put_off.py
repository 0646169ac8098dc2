"""A leader that rests hears of the jobs that an operator has put off for a moment."""

from __future__ import annotations

import psycopg
import pytest

from queue_core.model.operation import Author, ChangeOptions, OperationRequest
from queue_core.model.settings import PostgresSettings
from queue_core.stores.postgres.operations import PostgresOperations
from tests.conformance.modes import postgres
from tests.conformance.world import World


def heard(connection: psycopg.Connection, mark: str) -> bool:
    """Tell whether the leader was told since the last mark; what was committed before this one has arrived with it."""
    connection.execute("select pg_notify('queue_core_jobconsole_due', %s)", [mark])
    told = False
    for one in connection.notifies(timeout=30):
        if one.payload == mark:
            return told
        told = told or one.payload == ""
    raise AssertionError("not even the mark arrived")


@pytest.fixture
async def world(postgres_url: str) -> World:
    return await postgres(postgres_url)()


async def test_the_leader_hears_of_retries_that_are_put_off(world: World, postgres_url: str) -> None:
    settings = PostgresSettings(url=postgres_url)
    operations = PostgresOperations(settings)
    dead = [(await world.ended("dead")).id for _ in range(3)]
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("listen queue_core_jobconsole_due")
        assert (await operations.change("retry", dead[:1])).ids == (dead[0],)
        assert not heard(connection, "first"), "it is ready"
        assert (await operations.change("retry", dead[1:2], ChangeOptions(spread=0.5))).ids == (dead[1],)
        assert heard(connection, "second")
        operation = await operations.create(
            OperationRequest("retry", "", Author("", ""), options=ChangeOptions(delay=0.5))
        )
        await operations.add(operation.number, dead[2:])
        await operations.move(operation.number, "running")
        assert (await operations.step(operation.number, 10)).changed.ids == (dead[2],)
        assert heard(connection, "third")
    await operations.close()
    await world.close()
