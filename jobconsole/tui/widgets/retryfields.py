"""The fields of a retry's sheet: rollout, delay, queue and priority."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from textual.app import ComposeResult
from textual.containers import Vertical

from jobconsole.actions.plan import Plan
from jobconsole.format.humanize import duration, plural, rate
from jobconsole.tui.base.host import host_of
from jobconsole.tui.widgets.fields import ChoiceField, Field
from queue_core.errors import InvalidArgument
from queue_core.model.operation import ChangeOptions, Rollout
from queue_core.model.rules import parse_priority
from queue_core.model.validation import check_delay, check_name, parse_duration

CANARIES = (("none", 0), ("1", 1), ("10", 10), ("100", 100))
RATES = (("at once", None), ("1000/s", 1000.0), ("200/s", 200.0), ("50/s", 50.0), ("10/s", 10.0), ("1/s", 1.0))
STOPS = (("5%", 5.0), ("10%", 10.0), ("20%", 20.0), ("50%", 50.0), ("never", None))
DELAYS = (("now", 0.0), ("1m", 60.0), ("10m", 600.0), ("1h", 3600.0))
SPREADS = (("none", 0.0), ("1m", 60.0), ("10m", 600.0), ("1h", 3600.0))
PRIORITIES = (("as it was", None), ("urgent", 20), ("high", 10), ("normal", 5), ("low", 0))

AT_ONCE = "They run now, attempts start over."
SKIPPED = "Jobs that change before their turn are skipped."
ONE_LINE = 70
"""Characters of what will happen up to which there is room for that, too."""
HINTS = {
    "canary": "so many first, the rest only once these succeed; type another number",
    "rate": "jobs per second, so that live jobs still get through; type another number",
    "stop": "stops and waits for you above this share of failures; type another percentage",
    "delay": "when they are due once they are retried; type 90s, 15m, 2h",
    "spread": "their due times are spread at random over this time; type 90s, 15m, 2h",
    "queue": "another queue that takes them; arrows or type its name",
    "priority": "another priority; arrows or type a number from -128 to 127",
}


class RetryFields(Vertical):
    """All fields but the reason."""

    def compose(self) -> ComposeResult:
        """One line each."""
        queues = self._queues()
        whole, time = "0123456789", "0123456789.smhdw"
        yield ChoiceField("canary", HINTS["canary"], CANARIES, id="canary", parse=_canary, letters=whole)
        yield ChoiceField("rate", HINTS["rate"], RATES, id="rate", parse=_rate, letters=whole + ".")
        yield ChoiceField("stop if", HINTS["stop"], STOPS, id="stop", parse=_percent, letters=whole + ".")
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
        for name, value in zip(("canary", "rate", "stop"), rollout[:3], strict=True):
            self._field(name).put(value)

    def rollout(self) -> Rollout:
        """Return the rollout that the fields hold.

        Raises:
            ValueError: what was typed is invalid.
        """
        return Rollout(self._field("canary").value, self._field("rate").value, self._field("stop").value)

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
        careful = 0 < rollout.canary < number or (plan is None and rollout.canary > 0)
        parts = [f"{plural(rollout.canary, 'job')} first, the rest once these succeed"] if careful else []
        if rollout.rate:
            takes = f", takes {duration(number / rollout.rate)}" if number > rollout.rate else ""
            parts.append(f"{rate(rollout.rate)}{takes}")
        if rollout.stop_percent is not None and (careful or number > 1):
            parts.append(f"stops above {rollout.stop_percent:g}% failed")
        text = f"{'; '.join(parts)}." if parts else AT_ONCE
        return f"{text} {SKIPPED}" if len(text) < ONE_LINE else text

    def _fields(self) -> Iterator[Field]:
        return iter(self.query(Field).results(Field))

    def _field(self, name: str) -> ChoiceField[Any]:
        return self.query_one(f"#{name}", ChoiceField)

    def _queues(self) -> list[tuple[str, str | None]]:
        snapshot = host_of(self).model.snapshot
        return [("as it was", None), *((queue.label, queue.name) for queue in (snapshot.queues if snapshot else ()))]


def _canary(text: str) -> int:
    return int(text)


def _rate(text: str) -> float | None:
    number = _number(text)
    if not number:
        raise InvalidArgument("a rate is more than 0 jobs a second")
    return number


def _percent(text: str) -> float | None:
    number = _number(text)
    if number > 100:
        raise InvalidArgument("a threshold is 0 to 100 percent")
    return number


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
    return check_name(text, "the queue's name")
