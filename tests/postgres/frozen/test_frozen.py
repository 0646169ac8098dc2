"""A process that is frozen or cut off at any statement stops no other one, and leaves no blocked server process."""

from __future__ import annotations

import pytest

from tests.postgres.frozen.freezing import frozen_anywhere
from tests.postgres.frozen.operator_scenes import OPERATORS
from tests.postgres.frozen.scenes import LARGE, LONG, SCENES
from tests.postgres.traps.hands import Hand

EVERY = SCENES | OPERATORS


@pytest.mark.parametrize("name", EVERY)
async def test_others_go_on_and_it_goes_on_later(name: str, postgres_url: str, hand: Hand) -> None:
    await frozen_anywhere(EVERY[name], postgres_url, hand)


async def test_a_process_that_reads_no_answer_stops_nobody(postgres_url: str, hand: Hand) -> None:
    """A server that sends heeds no time limit: what is large is sent when nothing is locked any more."""
    await frozen_anywhere(LARGE, postgres_url, hand, deaf=True)


async def test_a_long_list_is_answered_in_parts(postgres_url: str, hand: Hand) -> None:
    """The keys of 3,000 jobs, sent back under their locks, once filled every buffer on the way."""
    await frozen_anywhere(LONG, postgres_url, hand, deaf=True)
