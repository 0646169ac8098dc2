"""How far operations are, as a console shows it: rates, what is left, the canary, and pages without gaps."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from jobconsole.core.progress import (
    ActiveOperations,
    OperationLine,
    OperationPages,
    canary_words,
    matching,
    operation_line,
    unknown,
)
from queue_core.model.filters import parse
from queue_core.model.operation import Outcomes, Rollout
from tests.console.making import operation


class Steady:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def watched(*seen: tuple[float, int], total: int = 1_000, **given: object) -> OperationLine:
    """Return an operation that was seen to have come so far after so many seconds."""
    steady = Steady()
    underway = ActiveOperations(steady)
    for seconds, done in seen:
        steady.now = 1_000.0 + seconds
        underway.adopt([operation(1, total=total, done=done, processed=done, **given)], {})  # type: ignore[arg-type]
    (line,) = underway.lines
    return line


def test_a_rate_is_what_was_seen_lately() -> None:
    assert watched((0, 0), (2, 400)).rate == pytest.approx(200)
    assert watched((0, 0), (5, 1), (10, 2), (15, 12), (20, 22)).rate == pytest.approx(2)
    assert watched((0, 400), (0.1, 420)).rate is None
    assert watched((0, 5), rollout=Rollout(rate=4.0)).rate == pytest.approx(4)


def test_what_is_left_follows_from_it() -> None:
    line = watched((0, 0), (2, 400))
    assert (line.percent, line.seconds_left) == (40, pytest.approx(3))
    assert (watched((0, 0), total=0).percent, watched((0, 0), total=0, state="done").percent) == (0, 100)
    assert watched((0, 400), (2, 400)).seconds_left is None, "nothing moves"
    assert watched((0, 0), (2, 10), barrier=10, rollout=Rollout(10)).seconds_left is None, "the canary is waited for"
    assert watched((0, 0), (2, 10), state="paused").rate is None


def test_what_has_ended_is_forgotten() -> None:
    underway = ActiveOperations(Steady())
    underway.adopt([operation(2, state="paused"), operation(1)], {})
    assert (underway.moving, underway.of(1) is not None) == (True, True)
    underway.adopt([operation(2, state="paused")], {})
    assert (underway.moving, underway.of(1)) == (False, None)


@pytest.mark.parametrize(
    ("given", "canary", "said"),
    [
        ({"total": 100, "done": 4, "processed": 4, "barrier": 10}, None, "canary 4 of 10"),
        ({"total": 100, "done": 7, "processed": 4, "skipped": 3, "barrier": 13}, None, "canary 4 of 10"),
        (
            {"total": 100, "done": 10, "processed": 10, "barrier": 10}, Outcomes(10, 3, 1, 6),
            "canary 10 of 10: 3 completed, 1 failed again, 6 not ended",
        ),
        ({"total": 100, "done": 20, "barrier": 100}, None, "canary of 10 passed"),
        ({"total": 8, "done": 3}, None, ""),
        ({"total": 100, "done": 0, "barrier": 0, "state": "preparing"}, None, ""),
        ({"total": 100, "done": 3, "barrier": 100, "verb": "delete"}, None, ""),
    ],
)  # fmt: skip
def test_a_canary_says_how_it_goes(given: dict[str, object], canary: Outcomes | None, said: str) -> None:
    underway = ActiveOperations(Steady())
    underway.adopt([operation(1, rollout=Rollout(10, None, 20.0), **given)], {1: canary} if canary else {})  # type: ignore[arg-type]
    assert canary_words(underway.lines[0]) == said


def test_texts_are_harmless_where_they_come_in() -> None:
    line = operation_line(operation(1, why="\x1b[2J", label="a\nb", note="\u202e"))
    assert all(text.isprintable() for text in (line.why, line.label, line.note))


def test_a_filter_looks_at_words_and_signatures() -> None:
    lines = [operation_line(operation(1, why="relay is back", signatures=("9f31c2aaaaaa",))), line_of(2, verb="delete")]
    for text, found in (
        ("RELAY", [1]),
        ("!delete", [1]),
        ("#2", [2]),
        ("sig:9f31", [1]),
        ("ana", [1, 2]),
        ("x ana", []),
    ):
        assert [line.number for line in matching(lines, parse(text))] == found, text
    assert (unknown(parse("queue:x")), unknown(parse("ana sig:9f"))) == ("queue", "")


def line_of(number: int, **given: object) -> OperationLine:
    return operation_line(operation(number, **given))  # type: ignore[arg-type]


def done(*numbers: int) -> Sequence[OperationLine]:
    return [line_of(number, state="done") for number in numbers]


def test_pages_are_put_together() -> None:
    audit = OperationPages()
    audit.take(done(9, 8, 7), None, 3)
    assert (audit.oldest, audit.full, audit.loaded) == (7, False, True)
    audit.take(done(6, 5), 7, 3)
    assert ([line.number for line in audit.newest_first], audit.full) == ([9, 8, 7, 6, 5], True)
    audit.take(done(10, 9, 8), None, 3)
    assert ([line.number for line in audit.newest_first], audit.full) == ([10, 9, 8, 7, 6, 5], True)


def test_a_flood_of_new_ones_leaves_no_gap() -> None:
    audit = OperationPages()
    audit.take(done(3, 2), None, 3)
    audit.take(done(30, 29, 28), None, 3)
    assert ([line.number for line in audit.newest_first], audit.full) == ([30, 29, 28], False)


def test_what_goes_on_is_followed_and_what_was_missed_is_read() -> None:
    audit = OperationPages()
    audit.take([line_of(9), *done(8, 7)], None, 3)
    audit.take([line_of(6), *done(5, 4)], 7, 3)
    further = line_of(9, total=10, done=5)
    assert audit.follow([further, line_of(6)], 3) == ()
    assert audit.lines[9] == further
    assert audit.follow([line_of(10), further, line_of(6)], 3) == (None,), "a new one"
    assert audit.follow([line_of(6)], 3) == (None,), "one of the first page has ended"
    assert audit.follow([further], 3) == (7,), "one further down has ended"
