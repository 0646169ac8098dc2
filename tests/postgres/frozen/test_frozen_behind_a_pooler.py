"""The same behind a pooler in transaction mode, where the bounds of a session would reach another one."""

from __future__ import annotations

import pytest

from tests.postgres.frozen.freezing import frozen_anywhere
from tests.postgres.frozen.operator_scenes import OPERATORS
from tests.postgres.frozen.scenes import LARGE, LONG, SCENES
from tests.postgres.traps.hands import Hand

KINDS = {name: scene for name, scene in SCENES.items() if not scene.alone} | {
    name: OPERATORS[name] for name in ("a step of an operation", "a job is cancelled", "a console's picture")
}
"""Every kind of connection, and all that producers and workers do."""


@pytest.mark.parametrize("name", KINDS)
async def test_others_go_on_and_it_goes_on_later(name: str, pooled_url: str, hand: Hand) -> None:
    await frozen_anywhere(KINDS[name], pooled_url, hand)


async def test_a_process_that_reads_no_answer_stops_nobody(pooled_url: str, hand: Hand) -> None:
    """What nobody takes from the pooler, the pooler does not take from the server."""
    await frozen_anywhere(LARGE, pooled_url, hand, deaf=True)


async def test_a_long_list_is_answered_in_parts(pooled_url: str, hand: Hand) -> None:
    """The keys of 3,000 jobs, sent back under their locks, once filled every buffer on the way."""
    await frozen_anywhere(LONG, pooled_url, hand, deaf=True)
