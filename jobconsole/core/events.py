"""The last events, as they came: a bounded tail that can be held still and filtered."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from math import isfinite

from jobconsole.core.rows import LONGEST_LINE, LONGEST_NAME
from jobconsole.format.humanize import duration, elapsed
from queue_core.model.events import Event, EventBatch, EventName
from queue_core.model.filters import Filter, Term
from queue_core.model.text import safe

KEPT = 5_000
"""Events that are kept; at 5,000 a second one second of them."""
_FIELDS = frozenset({"type", "queue", "id", "worker", "signature", "error", "word"})


@dataclass(frozen=True, slots=True)
class EventLine:
    """One event as a list shows it."""

    # its sequence number among all events that this console has received, from 1
    number: int
    # seconds since the epoch by the publisher's clock
    at: float
    event: str
    id: str
    type: str
    queue: str
    details: str

    @property
    def key(self) -> str:
        """What a cursor holds on to."""
        return str(self.number)


class EventTail:
    """The latest events. Adding one is a single append; its line is formatted when it is drawn.

    What a filter matches is kept apart from the first look through it on, however many others come after it.
    """

    def __init__(self, kept: int = KEPT) -> None:
        self._events: deque[tuple[float, Event]] = deque(maxlen=kept)
        # how many have come in over all
        self.total = 0
        self._where = Filter()
        # number, time and event of what the filter matches, oldest first
        self._matched: deque[tuple[int, float, Event]] = deque(maxlen=kept)

    def add(self, batch: EventBatch) -> None:
        """Take the events of a message in."""
        at = batch.at
        self._events.extend((at, event) for event in batch.events)
        if self._where.terms:
            numbered = enumerate(batch.events, self.total + 1)
            self._matched.extend((number, at, event) for number, event in numbered if matches(event, self._where))
        self.total += len(batch.events)

    def latest(self, where: Filter) -> int:
        """Return the number of the newest event that matches, 0 when there is none."""
        if not where.terms:
            return self.total
        self._filter(where)
        return self._matched[-1][0] if self._matched else 0

    def newest(self, where: Filter, limit: int) -> list[EventLine]:
        """Return the newest events that match, the newest first."""
        if where.terms:
            self._filter(where)
            return [event_line(*found) for found in islice(reversed(self._matched), limit)]
        numbered = zip(range(self.total, 0, -1), reversed(self._events), strict=False)
        return [event_line(number, at, event) for number, (at, event) in islice(numbered, limit)]

    def _filter(self, where: Filter) -> None:
        if where == self._where:
            return
        self._where = where
        self._matched.clear()
        numbered = enumerate(self._events, self.total - len(self._events) + 1)
        self._matched.extend((number, at, event) for number, (at, event) in numbered if matches(event, where))


def unknown(where: Filter) -> str:
    """Return the field of a filter that events do not have; "" when they have all."""
    return next((term.field for term in where.terms if term.field not in _FIELDS), "")


def matches(event: Event, where: Filter) -> bool:
    """Return whether an event meets all terms; what it does not have matches nothing."""
    return all(_holds(event, term) is not term.negated for term in where.terms)


def _holds(event: Event, term: Term) -> bool:
    if term.field == "word":
        return any(term.value.lower() in text.lower() for text in _texts(event))
    value = _value(event, term.field)
    if value is None:
        return False
    if term.field == "id":
        return value.replace("-", "").startswith(term.value)
    if term.field == "signature":
        return value.startswith(term.value)
    return term.value.lower() in value.lower() if term.operator == "~" else value == term.value


def _value(event: Event, field: str) -> str | None:
    if field in {"type", "queue", "id"}:
        return str(getattr(event, field))
    value = (event.extra or {}).get(field)
    return None if value is None else str(value)


def _texts(event: Event) -> Iterable[str]:
    yield from (event.event, event.type, event.queue, event.id)
    yield from (str(value) for value in (event.extra or {}).values())


def event_line(number: int, at: float, event: Event) -> EventLine:
    """Return an event as a list shows it, its texts harmless."""
    job_id, type_, queue = (safe(text, LONGEST_NAME) for text in (event.id, event.type, event.queue))
    details = safe(", ".join(_words(event, at)), LONGEST_LINE)
    return EventLine(number, at, safe(event.event, 20), job_id, type_, queue, details)


def _words(event: Event, at: float) -> Iterator[str]:
    """Yield what an event carries, in words."""
    extra = dict(event.extra or {})
    if event.event == EventName.PROGRESS:
        yield f"{extra.pop('progress', 0)}%"
    elif event.event == EventName.COMPLETED and _is_time(extra.get("ms")):
        yield f"in {duration(extra.pop('ms') / 1000)}"
    elif event.event == EventName.CLAIMED and "attempt" in extra:
        yield f"attempt {extra.pop('attempt')}"
    due = extra.pop("due", None)
    for name, value in extra.items():
        # The id of a signature has less than its error, which is there, too.
        if value in ("", None) or (name in {"signature", "title", "kind"} and "error" in extra):
            continue
        yield f"{name} {value}" if name in {"priority", "worker", "pid"} else str(value)
    if _is_time(due):
        yield f"due in {elapsed(max(0.0, due - at))}"


def _is_time(value: object) -> bool:
    return isinstance(value, int | float) and isfinite(value) and abs(value) < 1e12
