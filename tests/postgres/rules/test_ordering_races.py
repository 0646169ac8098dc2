"""Whatever two transactions do to one ordering key at once, no more have it than may, and nobody is left waiting."""

from __future__ import annotations

from functools import partial
from itertools import cycle

import pytest

from queue_core.model.operation import ChangeOptions
from queue_core.model.settings import SCHEMA
from queue_core.stores.postgres import ordering
from queue_core.stores.postgres.change import cancel, members_of
from queue_core.stores.postgres.dialect import load
from queue_core.stores.postgres.ordering import promote_with_keys
from tests.conformance.making import QUEUE
from tests.postgres.rules.conftest import NewHand
from tests.postgres.rules.scenes import ACTIONS, OTHER, RULES, Player, Text, meet, ours, scene, state


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the machine, nobody gives up waiting."""
    monkeypatch.setattr(ordering, "KEY_LOCK_TIMEOUT", "60s")


def unlocked(name: str) -> bytes:
    """Return the queries, but that no key is locked."""
    text = load(name, SCHEMA)
    if name in ("ordering/lock", "ordering/lock_soon"):
        start, end = text.index(b", locked AS ("), text.index(b"SELECT DISTINCT queue, id FROM wanted")
        return text[:start] + b"\n" + text[end:]
    return text.replace(b" FOR UPDATE SKIP LOCKED", b"") if name == "ordering/lock_free" else text


def outcomes(new_hand: NewHand, one: str, other: str, alone: bool, text: Text = ours) -> list[str]:
    """Let two actions meet at every step of the first, on a key of its own each time; return what went wrong.

    `alone`: nobody waits yet, and the second one's commit comes last.
    """
    watcher, left, right = new_hand(), new_hand(), new_hand()
    wrong = []
    for after in range(20):
        on = scene(watcher, waiting=not alone)
        plans = ACTIONS[one](on), ACTIONS[other](on)
        if not meet(Player(left, plans[0], text), partial(Player, right, plans[1], text), after, watcher, alone):
            return wrong
        if watcher.do("select key from ordering_pending where key = %(key)s", {"key": on.key}):
            # What the leader finds in its next round.
            Player(watcher, promote_with_keys([(None, QUEUE, None, on.key)], RULES)).finish()
        found = [state(watcher, on.key, queue) for queue in (QUEUE, OTHER)]
        if not all(one.well for one in found):
            wrong.append(f"{other} after {after} steps of {one}: {found}")
    raise AssertionError("a plan does not end")


@pytest.mark.parametrize("alone", [False, True], ids=["some wait", "nobody waits"])
@pytest.mark.parametrize("one", ACTIONS)
def test_no_key_is_left_with_room_and_somebody_waiting(new_hand: NewHand, one: str, alone: bool) -> None:
    hands = [new_hand() for _ in range(3)]
    for other in ACTIONS:
        assert outcomes(cycle(hands).__next__, one, other, alone) == []


def test_it_can_fail(new_hand: NewHand) -> None:
    """Without the lock neither sees what the other does, and who comes to wait is left waiting."""
    hands = [new_hand() for _ in range(3)]
    for one, other in [
        ("complete", "insert"),
        ("insert", "reclaim"),
        ("promote", "complete"),
        ("retry", "bury"),
        ("move", "insert"),
    ]:
        assert outcomes(cycle(hands).__next__, one, other, True, unlocked) != []


def test_a_key_that_nobody_uses_leaves_nothing_behind(new_hand: NewHand) -> None:
    hand = new_hand()
    on = scene(hand)
    Player(hand, ACTIONS["cancel"](on)).finish()
    for job_id in (on.running, on.lost, on.second):
        hand.do("delete from leases where id = %(id)s", {"id": job_id})
    Player(hand, ACTIONS["delete"](on)).finish()
    assert state(hand, on.key).locks == 1
    Player(hand, cancel(members_of([on.running, on.lost, on.second]), ChangeOptions(), RULES)).finish()
    assert tuple(state(hand, on.key)) == (0, 0, 0)


def test_what_was_put_off_since_it_was_named_is_not_promoted(new_hand: NewHand) -> None:
    """Another transaction comes between the read of what is due and the lock of its key."""
    hand = new_hand()
    on = scene(hand)
    where = "select status::text, admitted, rank from jobs where id = %(due)s"
    hand.do("update jobs set run_at = now() + interval '1 hour' where id = %(due)s", on._asdict())
    before = hand.do(where, on._asdict())
    Player(hand, promote_with_keys([(on.due, QUEUE, None, on.key)], RULES)).finish()
    assert hand.do(where, on._asdict()) == before
