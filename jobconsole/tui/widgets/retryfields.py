"""The fields of a retry: when it begins, canary, ramp, rate and threshold; folded, delay, queue and priority."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical

from jobconsole.actions.plan import Plan
from jobconsole.core.snapshot import Snapshot, live_releases
from jobconsole.format.humanize import duration, exact, moment_of, plural, rate
from jobconsole.format.spans import Line
from jobconsole.tui.base.host import host_of
from jobconsole.tui.widgets.fields import ChoiceField, Field
from queue_core.errors import InvalidArgument
from queue_core.model.operation import ChangeOptions, Rollout
from queue_core.model.rules import parse_priority
from queue_core.model.text import safe
from queue_core.model.validation import check_delay, check_queue_name, check_rollout, parse_duration

VERDICTS = (("first failure", True), ("at the end", False))
RAMPS: tuple[tuple[str, tuple[int, ...]], ...] = (
    ("none", ()),
    ("1,10,100", (1, 10, 100)),
    ("1,10,100,1000", (1, 10, 100, 1000)),
)
CANARIES = (("none", 0), ("1", 1), ("10", 10), ("100", 100))
RATES = (("at once", None), ("1000/s", 1000.0), ("200/s", 200.0), ("50/s", 50.0), ("10/s", 10.0), ("1/s", 1.0))
STOPS = (("5%", 5.0), ("10%", 10.0), ("20%", 20.0), ("50%", 50.0), ("never", None))
DELAYS = (("now", 0.0), ("1m", 60.0), ("10m", 600.0), ("1h", 3600.0))
SPREADS = (("none", 0.0), ("1m", 60.0), ("10m", 600.0), ("1h", 3600.0))
PRIORITIES = (("as it was", None), ("urgent", 20), ("high", 10), ("normal", 5), ("low", 0))

RELEASES, OTHERS = 2, 1
"""Live releases, and known ones that are not live, that a retry is offered to wait for; any other can be typed."""

AT_ONCE = "They run now, attempts start over."
THEN = "They run then, attempts start over."
SKIPPED = "Jobs that change before their turn are skipped."
ONE_LINE = 70
"""Characters of what will happen up to which there is room for that, too."""
NO_CONSOLE = "No console need stay open."
HINTS = {
    "begins": "now; or type a release, to wait until it is live where these jobs run; or a time: 09:00 (UTC), 30m",
    "verdict": "of the canary: count a job at its first failed attempt, or when it has no retries left",
    "ramp": "so many, then so many, then the rest; each step waits for its jobs, as a canary does; type 5,50",
    "more": "Enter unfolds them: when jobs are due, over how long, another queue, another priority",
    "replaced": "a ramp is chosen, and has the first steps: no canary runs before it; ramp none brings it back",
    "canary": "so many first, the rest only once these succeed; type another number",
    "rate": "jobs per second, so that live jobs still get through; type another number",
    "stop": "stops and waits for you above this share of failures; type another percentage",
    "delay": "when they are due once they are retried; type 90s, 15m, 2h",
    "spread": "their due times are spread at random over this time; type 90s, 15m, 2h",
    "queue": "another queue that takes them; arrows or type its name",
    "priority": "another priority; arrows or type a number from -128 to 127",
}


class MoreField(Field):
    """In place of the fields that are folded; posts `Unfolded`."""

    class Unfolded(Field.Changed):
        """They are to be shown."""

    def __init__(self) -> None:
        super().__init__("more", HINTS["more"], id="more")

    def accepts(self, character: str) -> bool:
        """Whether it is typed in: never."""
        return False

    def step(self, step: int) -> None:
        """Unfold them."""
        self.post_message(self.Unfolded())

    def on_key(self, event: events.Key) -> None:
        """Unfold with Enter, too."""
        if event.key == "enter":
            self.step(1)
            event.stop()
            event.prevent_default()

    def span(self) -> Line:
        """What they hold."""
        return ((" delay none · spread none · queue and priority as they were", "faint"),)


class BeginsField(ChoiceField[datetime | str | None]):
    """When a retry begins; while a release is typed, those that the store knows are offered behind it."""

    @property
    def offered(self) -> str:
        """The newest release that begins with what is typed and is longer; "" for none."""
        return next((name for name in known_releases(host_of(self).model.snapshot) if self._completes(name)), "")

    def _completes(self, name: str) -> bool:
        return bool(self.typed) and name.startswith(self.typed) and name != self.typed

    def step(self, step: int) -> None:
        """Complete what is typed with the key to the right, else choose the next value."""
        if step > 0 and self.offered:
            self._type(self.offered)
        else:
            super().step(step)

    def span(self) -> Line:
        """The values; behind what is typed how it goes on."""
        if not self.offered:
            return super().span()
        live = " is live" if self.offered in live_releases_of(self) else " is not live yet"
        rest = safe(self.offered[len(self.typed) :], 40)
        return (*super().span(), (f" {self.typed}{rest}{live}; right arrow takes it", "muted"))


def live_releases_of(field: Field) -> list[str]:
    """Return the releases of live workers."""
    snapshot = host_of(field).model.snapshot
    return live_releases(snapshot) if snapshot is not None else []


def known_releases(snapshot: Snapshot | None) -> list[str]:
    """Return the releases that the store knows, the newest first."""
    found = snapshot.releases if snapshot is not None else ()
    return [one.name for one in sorted(found, key=lambda one: one.place, reverse=True)]


class RetryFields(Vertical):
    """All fields but the reason."""

    def compose(self) -> ComposeResult:
        """One line each."""
        whole = "0123456789"
        begins: list[tuple[str, datetime | str | None]] = [("now", None)]
        begins += [(f"when {safe(name, 20)} is live", name) for name in self._releases()]
        yield BeginsField("begins", HINTS["begins"], begins, id="begins", parse=self._begin, letters="")
        with Horizontal(id="canary-line"):
            yield ChoiceField("canary", HINTS["canary"], CANARIES, id="canary", parse=_canary, letters=whole)
            verdict = ChoiceField("verdict", HINTS["verdict"], VERDICTS, id="verdict", parse=bool, letters=None)
            verdict.put(False)
            yield verdict
        yield ChoiceField("ramp", HINTS["ramp"], RAMPS, id="ramp", parse=_ramp, letters=whole + ",")
        yield ChoiceField("rate", HINTS["rate"], RATES, id="rate", parse=_rate, letters=whole + ".")
        yield ChoiceField("stop if", HINTS["stop"], STOPS, id="stop", parse=_percent, letters=whole + ".")
        yield MoreField()
        with Vertical(id="more-fields"):
            yield from self._folded()

    def _folded(self) -> ComposeResult:
        queues, whole, time = self._queues(), "0123456789", "0123456789.smhdw"
        yield ChoiceField("delay", HINTS["delay"], DELAYS, id="delay", parse=_delay, letters=time)
        yield ChoiceField("spread", HINTS["spread"], SPREADS, id="spread", parse=_delay, letters=time)
        yield ChoiceField("queue", HINTS["queue"], queues, id="queue", parse=_queue, letters="")
        yield ChoiceField(
            "priority", HINTS["priority"], PRIORITIES, id="priority", parse=parse_priority, letters=whole + "-"
        )

    @property
    def problem(self) -> str:
        """Why what was typed somewhere cannot be; "" when all can."""
        return next((f"{field.label}: {field.problem}" for field in self._fields() if field.problem), "")

    def put(self, rollout: Rollout) -> None:
        """Show a rollout as the default."""
        for name, value in (("canary", rollout.canary), ("rate", rollout.rate), ("stop", rollout.stop_percent)):
            self._field(name).put(value)

    @on(MoreField.Unfolded)
    def unfold(self) -> None:
        """Show the folded fields, and move the focus to the first of them."""
        self.add_class("-unfolded")
        self._field("delay").focus()

    @property
    def height(self) -> int:
        """Lines that they take."""
        return 9 if self.has_class("-unfolded") else 6

    def rollout(self) -> Rollout:
        """Return the rollout that the fields hold.

        Raises:
            ValueError: what was typed is invalid.
        """
        ramp, stop = self._field("ramp").value, self._field("stop").value
        canary = 0 if ramp else self._field("canary").value
        early = self._field("verdict").value and stop is not None and bool(ramp or canary)
        begins = self._field("begins").value
        at, release = (begins, None) if isinstance(begins, datetime) else (None, begins)
        return check_rollout(Rollout(canary, self._field("rate").value, stop, early, ramp, at, release))

    @on(Field.Changed)
    def weigh(self) -> None:
        """Take the canary's mark away where a ramp is chosen: it has the first steps then."""
        canary, ramp = self._field("canary"), self._field("ramp")
        canary.replaced = not ramp.problem and bool(ramp.value)
        canary.hint = HINTS["replaced" if canary.replaced else "canary"]
        canary.repaint()

    def options(self) -> ChangeOptions:
        """Return delay, spread, queue and priority that the fields hold.

        Raises:
            ValueError: what was typed is invalid.
        """
        return ChangeOptions(*(self._field(name).value for name in ("delay", "spread", "queue", "priority")))

    def summary(self, plan: Plan | None) -> str:
        """Return a sentence on what will happen, or the problem of a field."""
        if self.problem:
            return self.problem
        rollout, number = self.rollout(), len(plan.ids) if plan else 0
        steps = [step for step in rollout.first_steps if plan is None or step < number]
        careful, parts = bool(steps), []
        if careful and rollout.ramp:
            parts = [f"{', then '.join(map(exact, steps))}, then the rest; each waits until the jobs before it succeed"]
        elif careful:
            these = "it succeeds" if rollout.canary == 1 else "these succeed"
            parts = [f"{plural(rollout.canary, 'job')} first, the rest once {these}"]
        if rollout.rate:
            takes = f", takes {duration(number / rollout.rate)}" if number > rollout.rate else ""
            parts.append(f"{rate(rollout.rate)}{takes}")
        if rollout.stop_percent is not None and (careful or number > 1):
            parts.append(f"stops above {rollout.stop_percent:g}% failed")
        if careful and rollout.first_failure:
            parts[-1] += " at their first attempt"
        later = rollout.begin_at is not None or rollout.when_release is not None
        text = f"{'; '.join(parts)}." if parts else THEN if later else AT_ONCE
        if rollout.begin_at is not None:
            text = f"Begins at {moment_of(rollout.begin_at, self._now())}. {text}"
        if rollout.when_release is not None:
            text = f"Begins when a live worker that runs these jobs announces {safe(rollout.when_release, 40)}. {text}"
        if careful or later:
            return f"{text} {NO_CONSOLE}"
        return f"{text} {SKIPPED}" if len(text) < ONE_LINE else text

    def _begin(self, text: str) -> datetime | str | None:
        """Return when it is 09:00 next, or so long from now; everything else is a release."""
        now = self._now()
        if match := re.fullmatch(r"(\d{1,2}):(\d{2})", text):
            hour, minute = int(match[1]), int(match[2])
            if hour > 23 or minute > 59:
                raise InvalidArgument(f"'{text}' is no time of a day")
            at = now.replace(hour=hour, minute=minute, second=0, microsecond=0)
            return at if at > now else at + timedelta(days=1)
        if text not in self._releases() and re.fullmatch(r"\d+(\.\d+)?(ms|s|m|h|d|w)", text):
            return now + timedelta(seconds=_delay(text))
        return check_rollout(Rollout(when_release=text.strip())).when_release

    def _releases(self) -> list[str]:
        """Return the releases of live workers, that of the youngest worker first, and the newest of the others."""
        snapshot = host_of(self).model.snapshot
        live = [worker for worker in (snapshot.workers if snapshot else ()) if worker.release and not worker.lost]
        live.sort(key=lambda worker: worker.started_at, reverse=True)
        found = list(dict.fromkeys(worker.release for worker in live if worker.release))
        others = [name for name in known_releases(snapshot) if name not in found]
        return [*found[:RELEASES], *others[:OTHERS]]

    def _now(self) -> datetime:
        return host_of(self).model.now.astimezone(UTC)

    def _fields(self) -> Iterator[Field]:
        return iter(self.query(Field).results(Field))

    def _field(self, name: str) -> ChoiceField[Any]:
        return self.query_one(f"#{name}", ChoiceField)

    def _queues(self) -> list[tuple[str, str | None]]:
        snapshot = host_of(self).model.snapshot
        return [("as it was", None), *((queue.label, queue.name) for queue in (snapshot.queues if snapshot else ()))]


def _ramp(text: str) -> tuple[int, ...]:
    steps = tuple(int(step) for step in text.split(",") if step)
    return check_rollout(Rollout(ramp=steps)).ramp


def _canary(text: str) -> int:
    return int(text)


def _rate(text: str) -> float | None:
    return check_rollout(Rollout(rate=_number(text))).rate


def _percent(text: str) -> float | None:
    return check_rollout(Rollout(stop_percent=_number(text))).stop_percent


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidArgument(f"'{text}' is no number") from None


def _delay(text: str) -> float:
    seconds = parse_duration(text)
    check_delay(seconds)
    return seconds


def _queue(text: str) -> str | None:
    return check_queue_name(text)
