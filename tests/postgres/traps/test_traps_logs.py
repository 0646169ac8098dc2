"""Lines of logs and the ends of attempts at the same moment: the fence is in the write, and nobody waits for a line."""

from __future__ import annotations

from typing import Any

import pytest

from queue_core.model.job import Claim
from queue_core.model.settings import SCHEMA
from queue_core.stores.postgres.dialect import load, plain_array, text_array
from queue_core.stores.postgres.store import PostgresStore
from tests.conformance.making import outcome
from tests.postgres.traps.conftest import NewHand
from tests.postgres.traps.hands import Hand, beat_parameters, reclaim_parameters, settle_parameters, without
from tests.postgres.traps.test_traps_races import expire, running

LOCK = "FOR KEY SHARE SKIP LOCKED"


def log_parameters(*claims: Claim, line: int = 1, keep: int = 1000) -> dict[str, Any]:
    """Return what logs/append takes: a line of each attempt."""
    return {
        "id": plain_array(claim.id for claim in claims),
        "token": plain_array(claim.token for claim in claims),
        "line": plain_array(line for _ in claims),
        "age": plain_array(0.0 for _ in claims),
        "text": text_array("a line" for _ in claims),
        "keep": keep,
    }


def lines(hand: Hand) -> list[str]:
    return [row[0] for row in hand.do("select job_id::text from job_logs order by 1")]


async def logged_after_a_reclaim_began(
    store: PostgresStore, new_hand: NewHand, statement: bytes
) -> tuple[bool, list[Any], list[str]]:
    """Write a line while the reclaim of its attempt is not committed; say whether that waited, and what came of it."""
    (claim,) = await running(store)
    reclaiming, logging, watching = new_hand(), new_hand(), new_hand()
    expire(watching)
    with reclaiming.transaction():
        assert len(reclaiming.do("settle/reclaim", reclaim_parameters())) == 1
        late = logging.later(statement, log_parameters(claim))
        waited = logging.waits_or_ends(late, watching)
    return waited, late.result(), lines(watching)


async def test_a_line_of_an_attempt_that_is_just_taken_back_is_refused(store: PostgresStore, new_hand: NewHand) -> None:
    assert await logged_after_a_reclaim_began(store, new_hand, load("logs/append", SCHEMA)) == (False, [], [])


async def test_that_can_fail(store: PostgresStore, new_hand: NewHand) -> None:
    """Without the lock the line of the lost attempt is written."""
    waited, rows, written = await logged_after_a_reclaim_began(
        store, new_hand, without(load("logs/append", SCHEMA), LOCK)
    )
    assert (waited, len(rows), len(written)) == (False, 1, 1)


@pytest.mark.parametrize("kind", ["completed", "retrying", "dead"])
async def test_an_end_waits_for_the_lines_that_are_being_written(
    store: PostgresStore, new_hand: NewHand, kind: str
) -> None:
    claim, other = await running(store, 2)
    logging, settling, watching = new_hand(), new_hand(), new_hand()
    with logging.transaction():
        assert len(logging.do("logs/append", log_parameters(claim, other))) == 2
        late = settling.later(*settle_parameters([outcome(claim, kind)]))
        assert settling.waits_or_ends(late, watching)
    assert len(late.result()) == 1
    assert lines(watching) == sorted([claim.id, other.id])


async def test_a_heartbeat_does_not_wait_for_lines_nor_call_their_lease_lost(
    store: PostgresStore, new_hand: NewHand
) -> None:
    (claim,) = await running(store)
    logging, beating, watching = new_hand(), new_hand(), new_hand()
    watching.do("update leases set expires_at = now() + interval '1 second'")
    with logging.transaction():
        logging.do("logs/append", log_parameters(claim))
        late = beating.later("heartbeat/beat", beat_parameters([claim]))
        assert not beating.waits_or_ends(late, watching)
    assert claim.id in {row[0] for row in late.result()}
    assert watching.do("select expires_at > now() + interval '30 seconds' from leases") == [(True,)]


async def test_lines_do_not_wait_for_a_heartbeat(store: PostgresStore, new_hand: NewHand) -> None:
    (claim,) = await running(store)
    logging, beating, watching = new_hand(), new_hand(), new_hand()
    with beating.transaction():
        beating.do("heartbeat/beat", beat_parameters([claim]))
        late = logging.later("logs/append", log_parameters(claim))
        assert not logging.waits_or_ends(late, watching)
    assert len(late.result()) == 1


async def test_the_same_lines_at_the_same_moment_are_written_once(store: PostgresStore, new_hand: NewHand) -> None:
    """The answer to the first did not come in time, and it was sent again while the server still wrote it."""
    (claim,) = await running(store)
    first, second, watching = new_hand(), new_hand(), new_hand()
    with first.transaction():
        first.do("logs/append", log_parameters(claim))
        late = second.later("logs/append", log_parameters(claim))
        second.waits_or_ends(late, watching)
    assert len(late.result()) == 1
    assert lines(watching) == [claim.id]
