"""Lifecycle events as Server-Sent Events: ids, resuming from the store, heartbeats, filters.

What a client missed is not kept event by event: after a resume, or after events were lost, the stream has one `state`
for each job that has changed since, as the store has it, and then goes on with events.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing, suppress
from itertools import count
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

from queue_core.client.feed import EventFeed, EventReader, Gap, Received
from queue_core.errors import JobNotFound, QueueCoreError
from queue_core.model.events import STATE, Event, EventName, state_event
from queue_core.model.filters import Filter, Term
from queue_core.model.job import Job, parse_id
from queue_core.model.validation import check_name
from queue_core.ports.inspector import Inspector

HEARTBEAT = 15.0
"""Seconds of silence after which a comment is sent: proxies close silent connections after 30 to 60 s."""
RETRY_MS = 2000
"""Milliseconds after which a browser connects again."""
RESUME_SECONDS = 3600.0
"""How far back a stream is resumed from the store."""
SLACK_SECONDS = 5.0
"""Seconds by which clocks may differ, and that a message may take: changes of that time are shown again."""
MAX_CHANGED, PAGE_JOBS = 1000, 200
"""Jobs that are read for one resume, and for one page of it."""
RESUMED_AT_ONCE = 4
"""Resumes that read the store at the same time: after an interruption all clients come back at once."""
MAX_JOBS = 100
"""Jobs that a client can choose."""
PART_EVENTS = 200
"""Events that are sent together."""

CONTENT_TYPE = "text/event-stream"
HEADERS = {"X-Accel-Buffering": "no"}
"""Proxies of the nginx kind hold answers back otherwise."""

_NAMES = frozenset(EventName)
_OF_NO_JOB = frozenset({EventName.WORKER, EventName.QUEUE})
_PARAMETERS = ("queue", "type", "job", "event", "last_event_id")


class EventQuery(NamedTuple):
    """Which events a client wants; of each kind none means all."""

    queues: frozenset[str] = frozenset()
    types: frozenset[str] = frozenset()
    jobs: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    # the id of the last event that it has received
    last: str = ""

    def wants(self, event: Event) -> bool:
        """Whether an event is wanted, or may be: one that is `homeless` has to be looked up first."""
        if event.event not in _NAMES or (self.jobs and event.id not in self.jobs):
            return False
        if self.names and event.event not in self.names:
            return False
        if self.homeless(event):
            return True
        return (not self.queues or event.queue in self.queues) and (not self.types or event.type in self.types)

    def homeless(self, event: Event) -> bool:
        """Whether it is not known if this event is wanted: an operator's change is published without queue and type."""
        return bool((self.queues or self.types) and not event.queue and event.event not in _OF_NO_JOB)

    def shows(self, job: Job) -> bool:
        """Whether the state of a job is wanted."""
        return (
            (not self.queues or job.queue in self.queues)
            and (not self.types or job.type in self.types)
            and (not self.jobs or job.id in self.jobs)
        )


def parse_query(query: str, last_event_id: str = "") -> EventQuery:
    """Return what a query such as `queue=mail&event=dead` asks for; the header Last-Event-ID wins over the parameter.

    Raises:
        ValueError: a parameter or an event that does not exist, an id that is none, or too many.
    """
    found: dict[str, set[str]] = {name: set() for name in _PARAMETERS}
    for name, value in parse_qsl(query, keep_blank_values=True, max_num_fields=2 * MAX_JOBS):
        if name not in found:
            raise ValueError(f"no parameter '{name[:40]}'; there are {', '.join(_PARAMETERS)}")
        found[name].add(value)
    if unknown := sorted(found["event"] - _NAMES):
        raise ValueError(f"no event '{unknown[0][:40]}'; there are {', '.join(EventName)}")
    if len(found["job"]) > MAX_JOBS:
        raise ValueError(f"at most {MAX_JOBS} jobs can be chosen")
    jobs = frozenset(parse_id(job_id) for job_id in found["job"])
    queues = frozenset(check_name(name, "the queue's name") for name in found["queue"])
    types = frozenset(check_name(name, "the type's name") for name in found["type"])
    last = last_event_id or max(found["last_event_id"], default="")
    return EventQuery(queues, types, jobs, frozenset(found["event"]), last)


class EventStreams:
    """Streams over one feed; what a client missed is read from the store."""

    def __init__(
        self,
        feed: EventFeed,
        inspector: Inspector,
        heartbeat: float = HEARTBEAT,
        resuming: asyncio.Semaphore | None = None,
    ) -> None:
        """`resuming`: shared with other streams over the same store, of which so many resume at a time."""
        self._feed = feed
        self._inspector = inspector
        self._heartbeat = heartbeat
        self._resuming = asyncio.Semaphore(RESUMED_AT_ONCE) if resuming is None else resuming

    async def read(self, query: EventQuery) -> AsyncGenerator[bytes, None]:
        """Yield a stream's parts, without end; it ends when the feed is closed."""
        yield f"retry: {RETRY_MS}\n\n".encode()
        now, since = time.time(), _time_of(query.last)
        only = next(iter(query.jobs)) if len(query.jobs) == 1 else None
        async with self._feed.reading(query.wants, job_id=only) as reader:
            if query.last:
                async with aclosing(self._catch_up(query, since, now)) as states:
                    async for part in states:
                        yield part
            else:
                yield _live(now, complete=True)
            with suppress(QueueCoreError):  # the feed was closed
                async with aclosing(self._follow(query, reader, now)) as events:
                    async for part in events:
                        yield part

    async def _follow(self, query: EventQuery, reader: EventReader, caught_up: float) -> AsyncGenerator[bytes, None]:
        held: Received | Gap | None = None
        numbers = count(1)
        while True:
            item = held if held is not None else await reader.next(self._heartbeat)
            held = None
            if item is None:
                yield b": heartbeat\n\n"
            elif isinstance(item, Received) and not query.homeless(item.event):
                parts = [_event(item, next(numbers))]
                while reader.pending and len(parts) < PART_EVENTS and held is None:
                    more = await reader.next(0.0)
                    if isinstance(more, Received) and not query.homeless(more.event):
                        parts.append(_event(more, next(numbers)))
                    else:
                        held = more
                yield b"".join(parts)
            else:
                since = item.at if isinstance(item, Received) else item.since
                if isinstance(item, Gap):
                    yield _message("gap", {"since": round(since, 3), "dropped": item.dropped})
                elif since <= caught_up:
                    continue
                caught_up = time.time()
                async with aclosing(self._catch_up(query, since, caught_up)) as states:
                    async for part in states:
                        yield part

    async def _catch_up(self, query: EventQuery, since: float, now: float) -> AsyncGenerator[bytes, None]:
        """Yield the states of the jobs that have changed since, then from where on events follow."""
        known = 0.0 <= now - since + SLACK_SECONDS <= RESUME_SECONDS
        try:
            async with self._resuming:
                jobs, complete = await self._changed(
                    query, max(0.0, now - since) + SLACK_SECONDS if known else RESUME_SECONDS
                )
        except QueueCoreError:
            jobs, complete = [], False
        for job in jobs:
            event = state_event(job)
            yield _message(STATE, _body(event, job.updated_at.timestamp()))
        yield _live(now, complete and (known or bool(query.jobs)))

    async def _changed(self, query: EventQuery, seconds: float) -> tuple[list[Job], bool]:
        """Return the jobs that have changed within these last seconds, and whether these are all."""
        if query.jobs:
            return await self._chosen(query), True
        where = Filter((Term("age", "<", repr(seconds)), *_terms("queue", query.queues), *_terms("type", query.types)))
        found: list[Job] = []
        cursor = None
        for _ in range(MAX_CHANGED // PAGE_JOBS):
            page = await self._inspector.jobs(where, PAGE_JOBS, cursor)
            found += filter(query.shows, page.jobs)
            cursor = page.cursor
            if cursor is None:
                return found, True
        return found, False

    async def _chosen(self, query: EventQuery) -> list[Job]:
        found: list[Job] = []
        for job_id in sorted(query.jobs):
            try:
                found.append(await self._inspector.get(job_id))
            except JobNotFound:
                continue
        return list(filter(query.shows, found))


def _terms(field: str, values: Iterable[str]) -> list[Term]:
    """Return the condition of a filter, whose terms must all hold: of several values none is a condition."""
    chosen = list(values)
    return [Term(field, "=", chosen[0])] if len(chosen) == 1 else []


def _time_of(last: str) -> float:
    """Return the time in the id of an event; one that is no id of ours is older than everything."""
    match = re.fullmatch(r"([0-9]{1,15})-[0-9]{1,15}", last)
    return int(match[1]) / 1000 if match else float("-inf")


def _live(now: float, complete: bool) -> bytes:
    return _message("live", {"at": round(now, 3), "complete": complete}, f"{int(now * 1000)}-0")


def _event(item: Received, number: int) -> bytes:
    return _message(item.event.event, _body(item.event, item.at), f"{int(item.at * 1000)}-{number}")


def _body(event: Event, at: float) -> dict[str, Any]:
    return {"queue": event.queue, "at": round(at, 3), **event.body()}


def _message(name: str, body: dict[str, Any], event_id: str | None = None) -> bytes:
    # JSON in ASCII has no line breaks: nothing in a job's text can begin a line of the stream.
    data = json.dumps({"v": 1, **body}, separators=(",", ":"))
    numbered = "" if event_id is None else f"id: {event_id}\n"
    return f"{numbered}event: {name}\ndata: {data}\n\n".encode()
