"""An empty store whose jobs can be claimed, and hands on its database."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack

import pytest

from queue_core.model.settings import PostgresSettings
from queue_core.stores.postgres.store import PostgresStore
from tests.postgres.traps.hands import Hand

NewHand = Callable[[], Hand]


@pytest.fixture
def new_hand(postgres_url: str) -> Iterator[NewHand]:
    """Makes connections for statements by hand."""
    with ExitStack() as stack:
        yield lambda: stack.enter_context(Hand(postgres_url))


@pytest.fixture
async def store(postgres_url: str) -> AsyncIterator[PostgresStore]:
    """A store after a first leader has made sure that no token comes twice."""
    store = PostgresStore(PostgresSettings(url=postgres_url))
    await store.open()
    await store.acquire_leadership("sweep", "leader", 0)
    yield store
    await store.close()


@pytest.fixture
def snapshot(new_hand: NewHand) -> Iterator[Hand]:
    """Somebody whose transaction sees what is there now, for as long as it is open."""
    hand = new_hand()
    hand.do("begin isolation level repeatable read")
    hand.do("select count(*) from jobs")
    yield hand
    hand.do("rollback")
