"""What a console notifies of, once each: metrics that cross their limits, and signatures that are new or back."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from jobconsole.core.latency import word
from jobconsole.core.snapshot import Snapshot
from jobconsole.format.humanize import elapsed, exact, plural, seconds_between
from queue_core.model.report import SignatureInfo
from queue_core.model.text import safe
from queue_core.model.triage.signatures import grown_out


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The limits from which a notification is sent, in the unit of each metric; None: never."""

    # jobs in the DLQ
    dead: int | None = None
    # deaths within the time window of the console, at most an hour
    deaths: int | None = None
    # jobs that are ready
    queued: int | None = None
    # seconds that the oldest ready job waits
    oldest: float | None = None
    # workers whose heartbeats stopped
    lost_workers: int | None = None
    # also of signatures that are new, that came back, or whose mute ended because they grew
    signatures: bool = True
    # ring the bell of the terminal, send it a notification (OSC 9 and 777)
    bell: bool = True
    notify: bool = True


@dataclass(frozen=True, slots=True)
class _Measure:
    name: str
    value: Callable[[Snapshot], float]
    # of its value, and over which time deaths are counted
    sentence: Callable[[float, str], str]


def _oldest(snapshot: Snapshot) -> float:
    return seconds_between(snapshot.totals.oldest, snapshot.now) or 0.0


def _lost(number: int) -> str:
    return f"{plural(number, 'worker')} lost"


_MEASURES = (
    _Measure("dead", lambda one: one.totals.dead, lambda value, _: plural(int(value), "dead job")),
    _Measure("deaths", lambda one: one.deaths, lambda value, span: f"{plural(int(value), 'job')} died in {span}"),
    _Measure("queued", lambda one: one.totals.queued, lambda value, _: f"{plural(int(value), 'job')} ready"),
    _Measure("oldest", _oldest, lambda value, _: f"the oldest ready job has waited {elapsed(value)}"),
    _Measure("lost_workers", lambda one: one.totals.lost_workers, lambda value, _: _lost(int(value))),
)
REARM = 0.9
"""A metric has to fall below this part of its threshold before it alerts again: one that fluctuates alerts once."""


class AlertWatcher:
    """Compares snapshots with the thresholds and remembers which ones have alerted."""

    def __init__(self, thresholds: Thresholds) -> None:
        self.thresholds = thresholds
        self._alerted: set[str] = set()

    def update(self, snapshot: Snapshot) -> list[str]:
        """Return a sentence for each threshold that was crossed since the metric was last below it."""
        sentences: list[str] = []
        for measure in _MEASURES:
            limit = getattr(self.thresholds, measure.name)
            if limit is None:
                continue
            value = measure.value(snapshot)
            if value >= limit and measure.name not in self._alerted:
                self._alerted.add(measure.name)
                sentence = measure.sentence(value, word(snapshot.span.total_seconds()))
                sentences.append(f"{sentence} (threshold {_limit(measure.name, limit)})")
            elif value < limit * REARM:
                self._alerted.discard(measure.name)
        return sentences


TITLE = 80
"""Characters of a signature's title in a sentence."""


Change = tuple[str, str, float]
"""A signature, what has become of it, and when its state was set."""


class SignatureWatcher:
    """Remembers which signatures needed attention; those that did at the first snapshot are never reported."""

    def __init__(self) -> None:
        # the store's time at the first snapshot
        self._since = 0.0
        # what was reported, or was there at the start
        self._reported: set[Change] = set()
        # the mutes that were seen to last
        self._muted: set[tuple[str, float]] = set()

    def update(self, snapshot: Snapshot) -> dict[Change, str]:
        """Return a sentence for each signature that has become new, came back or grew out of its mute."""
        start = not self._since
        self._since = self._since or snapshot.now.timestamp()
        found = [one for group in snapshot.signatures if (one := self._change(group, snapshot)) is not None]
        fresh = {change: sentence for change, sentence in found if change not in self._reported}
        self._reported.update(fresh)
        return {} if start else fresh

    def over(self, changes: Iterable[Change], snapshot: Snapshot) -> set[Change]:
        """Return the changes that the snapshot shows to hold no more, as when someone has taken the signature."""
        shown = {group.signature: self._change(group, snapshot) for group in snapshot.signatures}
        return {one for one in changes if one[0] in shown and ((now := shown[one[0]]) is None or now[0] != one)}

    def _change(self, group: SignatureInfo, snapshot: Snapshot) -> tuple[Change, str] | None:
        state = snapshot.states.get(group.signature)
        if state is None:
            return None
        name, set_at, title = group.signature, state.facts.at, safe(group.title, TITLE)
        if state.word == "new" and group.first_seen.timestamp() >= self._since:
            since = f", since {safe(state.since, TITLE)}" if state.since and state.suspect else ""
            return (name, "new", 0.0), f"NEW {title}{since}"
        if state.word == "regressed" and (state.regressed_at or 0.0) >= self._since:
            on = f" on {safe(state.regressed_on, TITLE)}" if state.regressed_on else ""
            return (name, "regressed", set_at), f"REGRESSED {title}{on}"
        if state.facts.state != "muted":
            return None
        if state.word == "muted":
            self._muted.add((name, set_at))
        elif grown_out(state.facts, group.count) and ((name, set_at) in self._muted or set_at >= self._since):
            return (name, "grown", set_at), f"no longer muted: {title} has grown to {plural(group.count, 'job')}"
        return None


MESSAGE_SECONDS = 10.0
"""Between two messages, at least: what comes meanwhile goes into the next one."""
MAX_SENTENCES = 3
"""Sentences of a message; of others it has the number."""


class Notices:
    """Gathers what a console notifies of into messages that do not come too often."""

    def __init__(self, thresholds: Thresholds) -> None:
        self._metrics = AlertWatcher(thresholds)
        self._signatures = SignatureWatcher() if thresholds.signatures else None
        # sentences that wait, of thresholds and of signatures
        self._crossed: list[str] = []
        self._changed: dict[Change, str] = {}
        # the last message, and the changes that it is about where it is about nothing else
        self._last: tuple[str, frozenset[Change]] = ("", frozenset())
        # by the clock of its caller
        self._next_at = 0.0

    def take(self, snapshot: Snapshot) -> str:
        """Note what there is to notify of, and forget what is no longer so.

        Return the last message once nothing of it is so any more; "" otherwise.
        """
        self._crossed += self._metrics.update(snapshot)
        if self._signatures is None:
            return ""
        for change in self._signatures.over(self._changed, snapshot):
            del self._changed[change]
        self._changed |= self._signatures.update(snapshot)
        text, changes = self._last
        if not changes or self._signatures.over(changes, snapshot) != changes:
            return ""
        self._last = ("", frozenset())
        return text

    def due(self, now: float) -> str:
        """Return the message that is to go out now, by a steady clock; "" for none."""
        waiting = [*self._crossed, *self._changed.values()]
        if not waiting or now < self._next_at:
            return ""
        self._next_at = now + MESSAGE_SECONDS
        shown, more = waiting[:MAX_SENTENCES], len(waiting) - MAX_SENTENCES
        text = "; ".join([*shown, *([f"and {more} more"] if more > 0 else [])])
        self._last = (text, frozenset() if self._crossed else frozenset(self._changed))
        self._crossed, self._changed = [], {}
        return text


def _limit(name: str, limit: float) -> str:
    return elapsed(limit) if name == "oldest" else exact(int(limit))
