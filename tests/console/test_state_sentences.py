"""A state is one sentence: what it is, where it was resolved and by whom, and when it came back."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from jobconsole.present.signature import since_mark, state_sentence
from queue_core.model.triage.signatures import NEXT, NOW, SignatureFacts, SignatureState, grown_out

AT = datetime(2026, 3, 1, 1, 40, tzinfo=UTC).timestamp()
BACK: dict[str, Any] = {"regressed_at": AT + 5_100, "regressed_on": "r125"}


@pytest.mark.parametrize(
    ("release", "state", "sentence"),
    [
        ("r125", {"word": "resolved"}, "resolved in r125 by bo at 01:40:00"),
        (NEXT, {"word": "resolved"}, "resolved in the next release by bo at 01:40:00"),
        (NOW, {"word": "resolved"}, "resolved by bo at 01:40:00"),
        ("r123", {"word": "regressed", **BACK}, "REGRESSED 03:05:00 on r125; bo resolved it in r123 at 01:40:00"),
        (NOW, {"word": "regressed", **BACK}, "REGRESSED 03:05:00 on r125; bo resolved it at 01:40:00"),
        ("r123", {"word": "known", **BACK}, "known, came back 03:05:00 on r125; bo resolved it in r123 at 01:40:00"),
    ],
)
def test_what_was_resolved_and_came_back(release: str, state: dict[str, Any], sentence: str) -> None:
    facts = SignatureFacts(state="resolved", at=AT, by="bo", release=release)
    now = datetime(2026, 3, 1, 4, 0, tzinfo=UTC)
    assert state_sentence(SignatureState("9f31c2aa04d1", facts=facts, **state), now) == sentence


@pytest.mark.parametrize(
    ("state", "mark"),
    [
        ({"since": "r2", "suspect": True}, "r2!"),
        ({"since": "r2"}, "r2"),
        ({}, "-"),
        ({"word": "regressed", "since": "r2", "suspect": True, "regressed_on": "r4"}, "r4"),
        ({"word": "regressed", "since": "r2", "suspect": True}, "?"),
        ({"word": "resolved", "since": "r2", "suspect": True}, "r2!"),
        ({"word": "known", "since": "r2", "suspect": True, "regressed_on": "r4"}, "r2!"),
    ],
)
def test_since_is_the_first_release_and_of_what_is_back_the_one_on_which_it_came(
    state: dict[str, Any], mark: str
) -> None:
    assert since_mark(SignatureState("9f31c2aa04d1", **state)) == mark


@pytest.mark.parametrize(("at_count", "factor", "number"), [(0, 3.0, 3), (1, 1.2, 2), (310, 10.0, 3_100)])
def test_a_mute_names_the_count_that_ends_it(at_count: int, factor: float, number: int) -> None:
    facts = SignatureFacts(state="muted", factor=factor, at_count=at_count)
    state = SignatureState("9f31c2aa04d1", "muted", facts)
    assert state_sentence(state) == f"muted until there are {number:,} jobs"
    assert (grown_out(facts, number - 1), grown_out(facts, number)) == (False, True)
