"""For how long a signature is muted, as it is written."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from jobconsole.actions.states import Mute, parse_mute
from queue_core.errors import InvalidArgument

NOW = datetime(2026, 3, 1, 9, 0, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "mute"),
    [
        ("90m", Mute(seconds=5400.0)),
        ("2d", Mute(seconds=172_800.0)),
        ("10x", Mute(factor=10.0)),
        ("1.5×", Mute(factor=1.5)),
        ("9:30", Mute(until=datetime(2026, 3, 1, 9, 30, tzinfo=UTC))),
        # The next one: this minute has begun.
        ("09:00", Mute(until=datetime(2026, 3, 2, 9, 0, tzinfo=UTC))),
        ("00:00", Mute(until=datetime(2026, 3, 2, tzinfo=UTC))),
    ],
)
def test_what_can_be_written(text: str, mute: Mute) -> None:
    assert parse_mute(text, NOW) == mute
    assert parse_mute(text, NOW.astimezone(timezone(timedelta(hours=5)))) == mute


@pytest.mark.parametrize("text", ["", "1x", "0x", "0.5x", "24:00", "09:60", "soon", "-5m", "5", "10x "])
def test_what_cannot_be(text: str) -> None:
    with pytest.raises(InvalidArgument):
        parse_mute(text, NOW)
