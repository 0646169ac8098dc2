"""Hands on a database with two queues."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.conformance.making import QUEUE
from tests.postgres.traps.hands import Hand

NewHand = Callable[[], Hand]


@pytest.fixture
def new_hand(postgres_url: str) -> Iterator[NewHand]:
    """Makes connections for statements by hand."""
    with ExitStack() as stack:
        hands = [stack.enter_context(Hand(postgres_url))]
        hands[0].do("insert into queues (name) values (%(name)s), ('other')", {"name": QUEUE})
        yield lambda: hands.pop() if hands else stack.enter_context(Hand(postgres_url))
