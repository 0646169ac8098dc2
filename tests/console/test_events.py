"""The tail of events: bounded, numbered, narrowed, harmless."""

from __future__ import annotations

import pytest

from jobconsole.core.events import EventTail, matches, unknown
from queue_core.model.events import Event, EventBatch
from queue_core.model.filters import Filter, parse

DEAD = Event("dead", "mail", "0197b3c2-aaaa", "send", 7, {"error": "E: \x1b[2J smtp", "signature": "9f31c2aaaaaa"})


def batch(*events: Event) -> EventBatch:
    return EventBatch("mail", "g", 1, 12.5, events)


def test_the_newest_first_and_no_more_than_are_kept() -> None:
    tail = EventTail(kept=100)
    for number in range(1_000):
        tail.add(batch(Event("created", "q", f"id-{number}", "t")))
    lines = tail.newest(Filter(), 1_000)
    assert (tail.total, len(lines), lines[0].id, lines[-1].id) == (1_000, 100, "id-999", "id-900")
    assert [line.number for line in lines] == list(range(1_000, 900, -1))
    assert len(tail.newest(Filter(), 3)) == 3


def test_texts_are_harmless() -> None:
    tail = EventTail()
    tail.add(batch(DEAD))
    (line,) = tail.newest(Filter(), 1)
    assert "\x1b" not in line.details
    assert "smtp" in line.details


@pytest.mark.parametrize(
    ("where", "holds"),
    [
        ("", True),
        ("type:send", True),
        ("type:sen", False),
        ("type:~SEN", True),
        ("!queue:mail", False),
        ("id:0197b3c2", True),
        ("sig:9f31", True),
        ("err:~smtp", True),
        ("worker:w", False),
        ("!worker:w", True),
        ("dead", True),
        ("smtp queue:mail", True),
        ("nosuch", False),
    ],
)
def test_what_matches(where: str, holds: bool) -> None:
    assert matches(DEAD, parse(where)) is holds


def test_what_events_do_not_have_is_named() -> None:
    assert unknown(parse("type:x age:<1h")) == "age"
    assert unknown(parse("type:x payload.a=1")) == "payload.a"
    assert unknown(parse("type:x smtp")) == ""


def test_what_a_filter_matches_outlives_what_it_does_not() -> None:
    tail, where = EventTail(kept=10), parse("type:send")
    tail.add(batch(DEAD))
    assert tail.latest(where) == 1
    tail.add(batch(*[Event("created", "q", f"id-{number}", "t") for number in range(50)], DEAD))
    assert [line.number for line in tail.newest(where, 5)] == [52, 1]
    assert (tail.latest(where), tail.latest(Filter())) == (52, 52)
    assert tail.latest(parse("type:t")) == 51, "another filter looks through what is kept"
    assert [line.number for line in tail.newest(parse("type:t"), 3)] == [51, 50, 49]


def test_what_a_filter_matches_is_bounded() -> None:
    tail, where = EventTail(kept=10), parse("type:send")
    assert tail.latest(where) == 0
    for _ in range(30):
        tail.add(batch(DEAD))
    assert len(tail.newest(where, 100)) == 10
