"""Jobs that were accepted before are written again where they are lacking, and where new ones would be refused."""

from __future__ import annotations

import pytest

from queue_core.errors import QueueClosed, QueueFull
from queue_core.model.operation import ChangeOptions
from queue_core.model.rules import QueueRules
from queue_core.model.settings import RedisSettings
from queue_core.stores.redis.operations.store import RedisOperations
from queue_core.stores.redis.store import RedisStore
from tests.conformance.making import new_job


@pytest.fixture
def settings(redis_url: str, redis_prefix: str) -> RedisSettings:
    return RedisSettings.model_validate({"url": redis_url, "prefix": redis_prefix})


async def test_only_what_no_queue_has_is_written(settings: RedisSettings) -> None:
    store, operations = RedisStore(settings), RedisOperations(settings)
    known, moved, cancelled, lost = (new_job(queue="one") for _ in range(4))
    await store.insert([known, moved, cancelled, new_job(queue="two")])
    await operations.change("move", [moved.id], ChangeOptions(queue="two"))
    await operations.change("cancel", [cancelled.id], ChangeOptions())
    restored, inserted = await store._restore([known, moved, cancelled, lost])
    assert restored == [lost]
    assert [one.id for one in inserted] == [lost.id]
    (state,) = await store.results([cancelled.id])
    assert state.status == "cancelled"
    await operations.close()
    await store.close()


async def test_neither_a_limit_nor_a_closed_queue_refuses_them(settings: RedisSettings) -> None:
    store, operations = RedisStore(settings, rules={"full": QueueRules(limit=1)}), RedisOperations(settings)
    await store.insert([new_job(queue="full"), new_job(queue="closed")])
    await operations.set_closed("closed", True)
    lost = [new_job(queue=queue, ordering_key="key") for queue in ("full", "closed", "full")]
    with pytest.raises(QueueFull):
        await store.insert([lost[0]])
    with pytest.raises(QueueClosed):
        await store.insert([lost[1]])
    restored, inserted = await store._restore(lost)
    assert restored == lost
    assert [one.id for one in inserted] == [job.id for job in lost]
    assert {one.id for one in await store.results([job.id for job in lost])} == {job.id for job in lost}
    await operations.close()
    await store.close()
