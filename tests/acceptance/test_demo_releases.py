"""The releases of the demo's workers: which breaks what, and when each comes."""

import argparse
import math
from itertools import islice

import pytest

from jobconsole.demo.orders import CODE, orders, receipt
from jobconsole.demo.releases import HEED_SECONDS, STORY, Deployment, Requests, Timetable, hints, parse_deployments
from jobconsole.tui.base.host import Hint
from queue_core.model.signature import sign

NOTHING = Requests()


def failures(release: str) -> list[tuple[str, str]]:
    """Return the region of each of some orders that a release cannot write a receipt for, and the signature."""
    found = []
    for order in islice(orders(), 160):
        try:
            receipt(release, order["number"], order["currency"], order["address"], order["lines"])
        except KeyError as problem:
            found.append((order["region"], sign(problem).signature))
    return found


def test_one_release_breaks_what_the_next_one_mends_and_a_later_one_breaks_again() -> None:
    broken = failures("r2")
    assert {region for region, _ in broken} == {"eu"}
    assert 20 <= len(broken) <= 60
    assert failures("r4") == broken
    assert not failures("r1") + failures("r3") + failures("r5") + failures("some other")


def test_a_receipt_has_the_tax_of_its_address() -> None:
    lines = [{"sku": "MUG-BLUE", "quantity": 2, "price": "12.50"}]
    text, total = receipt("r3", "A-1", "USD", {"country": "US", "state": "NY"}, lines)
    assert str(total) == "26.00"
    assert "tax 4 %" in text
    assert "receipt for order A-1" in text


def test_releases_come_at_their_times() -> None:
    times = Timetable(STORY)
    moments = {release: now for now in range(1000) if (release := times.due(float(now), NOTHING))}
    assert moments == {"r2": 15, "r3": 240, "r4": 420}
    assert times.next == Deployment("r5", math.inf)


def test_a_release_that_a_retry_waits_for_comes_soon() -> None:
    times = Timetable((Deployment("r3", math.inf), Deployment("r4", math.inf)))
    waiting = Requests(frozenset({"r3", "r9"}))
    assert times.due(10.0, waiting) is None
    # A request is not taken back by an operation that ends meanwhile.
    assert times.due(10.0 + HEED_SECONDS, NOTHING) == "r3"
    assert times.due(900.0, waiting) is None


def test_what_was_resolved_is_broken_again_soon() -> None:
    times = Timetable((Deployment("r3", math.inf), Deployment("r4", math.inf)))
    resolved = Requests(resolved=True)
    # Nothing hurries the release that mends it.
    assert times.due(500.0, resolved) is None
    assert times.due(500.0, Requests(frozenset({"r3"}), True)) is None
    assert times.due(500.0 + HEED_SECONDS, resolved) == "r3"
    assert times.due(510.0, resolved) is None
    assert times.due(510.0 + HEED_SECONDS, resolved) == "r4"
    assert times.next is None
    assert times.due(9999.0, resolved) is None


def test_the_help_says_when_they_come_and_what_mends_the_receipts() -> None:
    lines = hints(STORY)
    assert "release r2 is deployed 15s after the start: it breaks write_receipt" in lines
    assert any("a retry waits for it, 4m00 after the start at the latest" in line for line in lines)
    assert [Hint.parse(line).about for line in lines].count("write_receipt") == 1
    assert hints(()) == []


def test_deployments_are_read() -> None:
    assert parse_deployments("none") == ()
    assert parse_deployments("r2=0,r3=2m,r4=never") == (
        Deployment("r2", 0.0),
        Deployment("r3", 120.0),
        Deployment("r4", math.inf),
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("r9=1s", "'r9=1s' names no release of the demo: r2, r3, r4, r5"),
        ("r1=1s", "names no release"),
        ("r2", "r2: '' is no duration"),
        ("r2=soon", "r2: 'soon' is no duration"),
        ("r3=1s,r2=2s", "in their order, not r3 r2"),
        ("r2=1s,r2=2s", "once each"),
    ],
)
def test_deployments_that_cannot_be_are_refused(text: str, words: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=words):
        parse_deployments(text)


def test_every_release_of_the_story_has_its_code() -> None:
    assert [one.release for one in STORY] == sorted(CODE)[1:]
