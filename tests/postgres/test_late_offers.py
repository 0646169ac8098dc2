"""Offers that ride on the notification before them are told of at the end of its time, not a whole one later."""

from __future__ import annotations

import asyncio
import time

import pytest

from queue_core.model.job import Ready
from queue_core.model.settings import PostgresSettings
from queue_core.stores.postgres import delivery
from queue_core.stores.postgres.delivery import PostgresDispatcher
from tests.conformance.making import new_job


async def test_a_late_offer_waits_for_what_is_left_of_the_moment(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else offers that come a little slower than the moment are late by a whole one, each of them."""
    monkeypatch.setattr(delivery, "GATHER", 100.0)
    dispatcher = PostgresDispatcher(PostgresSettings(url=postgres_url))
    while await dispatcher.take(["a", "b"], 10, 0.5):
        pass
    dispatcher._notified_at |= {"a": time.monotonic() - 99.5, "b": time.monotonic() - 60}
    await dispatcher.offer([Ready(new_job().id, queue, 1) for queue in ("b", "a")])
    async with asyncio.timeout(50):
        taken = await dispatcher.take(["a", "b"], 10, 50)
    assert taken is not None
    assert taken.queue == "a"
    assert dispatcher._late == {"b"}
    assert dispatcher._late_task is not None
    dispatcher._late_task.cancel()
    await dispatcher.close()
