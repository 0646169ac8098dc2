"""What a console notifies of: signatures that are new, back, or grown out of their mute; once each, not too often."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from jobconsole.core.alerts import MESSAGE_SECONDS, AlertWatcher, Notices, SignatureWatcher, Thresholds
from jobconsole.core.snapshot import Snapshot
from jobconsole.tui.terminal import LONGEST_NOTIFICATION, notification
from queue_core.model.report import SignatureInfo
from queue_core.model.triage.signatures import (
    ReleaseOrder,
    SignatureCounts,
    SignatureDeaths,
    SignatureFacts,
    SignatureState,
    judge,
)
from tests.tui.still import snapshot as still

START = datetime(2026, 3, 1, 3, 0, tzinfo=UTC)


def group(name: str, after: float = 60.0, count: int = 1, title: str = "") -> SignatureInfo:
    """Return a signature whose first job died so long after the start."""
    died = START + timedelta(seconds=after)
    return replace(
        still().signatures[0], signature=name, title=title or f"OSError: {name}", count=count, first_seen=died
    )


def seen(*groups: SignatureInfo, after: float = 60.0, **states: SignatureState) -> Snapshot:
    """Return a snapshot with these signatures; what has no state is new."""
    found = {one.signature: states.get(one.signature, SignatureState(one.signature, "new")) for one in groups}
    return replace(still(), now=START + timedelta(seconds=after), signatures=groups, states=found)


def sentences(watcher: SignatureWatcher, snapshot: Snapshot) -> list[str]:
    """Return the sentences of a snapshot."""
    return list(watcher.update(snapshot).values())


def begun(*groups: SignatureInfo, **states: SignatureState) -> SignatureWatcher:
    """Return a watcher that has seen the start."""
    watcher = SignatureWatcher()
    assert sentences(watcher, seen(*groups, after=0.0, **states)) == []
    return watcher


def test_a_new_one_is_reported_once() -> None:
    watcher = begun()
    assert sentences(watcher, seen(group("a"))) == ["NEW OSError: a"]
    assert sentences(watcher, seen(group("a"), group("b", 70))) == ["NEW OSError: b"]
    # It was filtered away meanwhile.
    assert sentences(watcher, seen()) == []
    assert sentences(watcher, seen(group("a"), group("b"))) == []


def test_what_was_there_at_the_start_is_not_reported() -> None:
    watcher = begun(group("a", -1))
    assert sentences(watcher, seen(group("a", -1))) == []
    # The filter of the start has hidden it.
    assert sentences(watcher, seen(group("b", -600))) == []


def test_a_release_is_named_where_it_is_suspect() -> None:
    state = SignatureState("a", "new", since="r2\x1b[2J", suspect=True)
    assert sentences(begun(), seen(group("a"), a=state)) == ["NEW OSError: a, since r2␛[2J"]


def test_hostile_titles_and_releases_are_shown_harmless() -> None:
    facts = SignatureFacts("resolved", START.timestamp(), "ana", release="r3")
    back = SignatureState("b", "regressed", facts, START.timestamp() + 10, regressed_on="r4\x1b[2J")
    new, returned = group("a", title="OSError: \x1b]0;x\x07"), group("b", -5)
    assert sentences(begun(returned), seen(new, returned, b=back)) == [
        "NEW OSError: ␛]0;x␇",
        "REGRESSED OSError: b on r4␛[2J",
    ]


def test_one_that_came_back_is_reported_each_time_it_was_resolved() -> None:
    def back(resolved_at: float) -> SignatureState:
        facts = SignatureFacts("resolved", START.timestamp() + resolved_at, "ana", release="r3")
        return SignatureState("a", "regressed", facts, START.timestamp() + resolved_at + 10, regressed_on="r4")

    watcher = begun(group("a", -600), a=SignatureState("a", "resolved", SignatureFacts("resolved", release="r3")))
    assert sentences(watcher, seen(group("a", -600), a=back(60))) == ["REGRESSED OSError: a on r4"]
    assert sentences(watcher, seen(group("a", -600), a=back(60))) == []
    assert sentences(watcher, seen(group("a", -600), a=back(120))) == ["REGRESSED OSError: a on r4"]


def test_what_came_back_before_the_start_is_not_reported() -> None:
    """The filter of the start has hidden it."""
    facts = SignatureFacts("resolved", START.timestamp() - 600, "ana", release="r3")
    state = SignatureState("a", "regressed", facts, START.timestamp() - 1, regressed_on="r4")
    assert sentences(begun(), seen(group("a", -900), a=state)) == []


def test_what_came_back_before_the_start_is_not_reported_when_it_dies_again() -> None:
    """It came back once, with the first death since it was resolved; the others are no return."""
    resolved = START.timestamp() - 600
    facts = SignatureFacts("resolved", resolved, "ana", release="r3")
    order = ReleaseOrder({1: ("r3", 1, resolved - 90), 2: ("r4", 2, resolved - 80)})
    one = SignatureDeaths("a", 2, 5, resolved - 70, START.timestamp() - 60, resolved + 10, resolved + 20)
    watcher = begun(group("a", -900))
    for after in (60.0, 120.0):
        last = one._replace(last_at=START.timestamp() + after)
        state = judge(
            SignatureCounts("a", resolved - 70, 5, ("task",)), facts, [last], (), order, START.timestamp() + after, 900
        )
        assert (state.word, state.regressed_at, state.regressed_on) == ("regressed", resolved + 20, "r4")
        assert sentences(watcher, seen(group("a", -900), after=after, a=state)) == []


def test_a_mute_that_had_ended_by_growth_before_the_start_is_not_reported() -> None:
    """The filter of the start has hidden it, too: nobody has seen the mute last."""
    muted = SignatureFacts("muted", START.timestamp() - 50, "ana", factor=10.0, at_count=12)
    state = SignatureState("a", "known", muted)
    assert sentences(begun(), seen(group("a", -600, 120), a=state)) == []
    later = SignatureState("a", "known", replace(muted, at=START.timestamp() + 10))
    found = sentences(begun(), seen(group("a", -600, 120), a=later))
    assert found == ["no longer muted: OSError: a has grown to 120 jobs"]


def test_a_mute_that_ends_by_growth_is_reported_and_one_that_ends_by_its_time_is_not() -> None:
    muted = SignatureFacts("muted", START.timestamp() - 50, "ana", factor=10.0, at_count=12)
    timed = SignatureFacts("muted", START.timestamp() - 50, "ana", until=START.timestamp() + 60)
    both = (group("a", -600, 12), group("b", -600, 12))
    watcher = begun(*both, a=SignatureState("a", "muted", muted), b=SignatureState("b", "muted", timed))
    grown = (group("a", -600, 120), group("b", -600, 120))
    after = {"a": SignatureState("a", "known", muted), "b": SignatureState("b", "known", timed)}
    assert sentences(watcher, seen(*grown, **after)) == ["no longer muted: OSError: a has grown to 120 jobs"]
    assert sentences(watcher, seen(*grown, **after)) == []
    assert sentences(begun(*grown, **after), seen(*grown, **after)) == [], "it was there at the start"


def test_muted_and_resolved_ones_are_silent() -> None:
    silent = {
        "a": SignatureState("a", "muted", SignatureFacts("muted", until=4e9)),
        "b": SignatureState("b", "resolved", SignatureFacts("resolved", release="next")),
        "c": SignatureState("c", "known"),
    }
    assert sentences(begun(), seen(group("a"), group("b"), group("c"), **silent)) == []


def test_a_threshold_is_crossed_where_it_is_met_and_again_once_it_was_clearly_below() -> None:
    watcher, start = AlertWatcher(Thresholds(dead=100)), seen()

    def after(dead: int) -> int:
        return len(watcher.update(replace(start, totals=replace(start.totals, dead=dead))))

    assert [after(dead) for dead in (99, 100, 101, 95, 100, 90, 100, 89, 100)] == [0, 1, 0, 0, 0, 0, 0, 0, 1]


def test_one_message_in_a_while_with_what_came_meanwhile() -> None:
    notices = Notices(Thresholds(dead=1))
    assert notices.due(0.0) == ""
    notices.take(seen(after=0.0))
    assert notices.due(100.0).endswith("dead jobs (threshold 1)")
    notices.take(seen(*(group(name) for name in "abcde")))
    assert notices.due(100.0 + MESSAGE_SECONDS - 0.1) == ""
    assert notices.due(100.0 + MESSAGE_SECONDS) == "NEW OSError: a; NEW OSError: b; NEW OSError: c; and 2 more"
    assert notices.due(900.0) == ""


def test_what_is_no_longer_so_when_its_message_goes_out_is_left_out() -> None:
    """A message waits for the one before it: meanwhile the signature is taken, or filtered away, which says nothing."""
    notices = Notices(Thresholds())
    notices.take(seen(after=0.0))
    notices.take(seen(group("a")))
    assert notices.due(0.0) == "NEW OSError: a"
    notices.take(seen(group("a"), group("b"), group("c")))
    taken = SignatureState("b", "known", SignatureFacts(by="ana", owner="ana"))
    notices.take(seen(group("a"), group("b"), b=taken))
    assert notices.due(MESSAGE_SECONDS) == "NEW OSError: c"
    notices.take(seen(group("d")))
    notices.take(seen(group("d"), d=SignatureState("d", "muted", SignatureFacts("muted", until=4e9))))
    assert notices.due(900.0) == "", "and no bell rings"


def test_a_message_of_which_nothing_is_so_any_more_is_named() -> None:
    """As when someone takes the only signature that it was about; a threshold stays crossed."""
    notices = Notices(Thresholds(dead=1))
    assert notices.take(seen(after=0.0)) == ""
    assert notices.due(0.0).endswith("(threshold 1)")
    known = {name: SignatureState(name, "known", SignatureFacts(by="ana", owner="ana")) for name in "ab"}
    assert notices.take(seen(group("a"), group("b"))) == ""
    assert notices.due(MESSAGE_SECONDS) == "NEW OSError: a; NEW OSError: b"
    assert notices.take(seen(group("a"), group("b"), a=known["a"])) == "", "the other one is still new"
    assert notices.take(seen(group("a"), group("b"), **known)) == "NEW OSError: a; NEW OSError: b"
    assert notices.take(seen(group("a"), group("b"), **known)) == "", "named once"


def test_a_setting_turns_those_of_signatures_off() -> None:
    notices = Notices(Thresholds(signatures=False))
    notices.take(seen(after=0.0))
    notices.take(seen(group("a")))
    assert notices.due(0.0) == ""


HOSTILE = "OSError: \x1b]52;c;aGk=\x07\x9c\u202e\n" + "a" * 10_000


def test_a_notification_is_safe() -> None:
    text = notification("PROD", HOSTILE, {})
    nine, other, rest = text.split("\x07")
    assert (nine[:9], other[:18], rest) == ("\x1b]9;PROD:", "\x1b]777;notify;PROD;", "")
    shown = nine.removeprefix("\x1b]9;PROD: ")
    assert shown.isprintable()
    assert ";" not in shown
    assert len(shown) <= LONGEST_NOTIFICATION


def test_a_terminal_that_knows_both_kinds_gets_one() -> None:
    for environ in ({"TERM": "xterm-kitty"}, {"TERM": "foot"}, {"TERM": "xterm-256color", "TERM_PROGRAM": "WezTerm"}):
        assert notification("PROD", "x", environ) == "\x1b]9;PROD: x\x07"


def test_tmux_hands_it_on() -> None:
    assert notification("PROD", "x", {"TERM": "foot", "TMUX": "/tmp/1"}) == "\x1bPtmux;\x1b\x1b]9;PROD: x\x07\x1b\\"
