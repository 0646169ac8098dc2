"""An ASGI application that streams lifecycle events, to mount in any framework or to serve alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, MutableMapping
from contextlib import aclosing
from http import HTTPStatus
from typing import Any

from jobconsole.web.http import STALL_SECONDS
from jobconsole.web.stream import (
    CONTENT_TYPE,
    HEADERS,
    HEARTBEAT,
    RESUMED_AT_ONCE,
    EventQuery,
    EventStreams,
    parse_query,
)
from queue_core.errors import QueueCoreError
from queue_core.queue import JobQueue
from queue_core.runtime import end_tasks

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

MAX_READERS = 256
"""Streams of one application at a time; one more gets status 503 with Retry-After."""


class EventsApp:
    """See `events_app`."""

    def __init__(self, jobs: JobQueue, heartbeat: float = HEARTBEAT, readers: int = MAX_READERS) -> None:
        self._jobs = jobs
        self._heartbeat = heartbeat
        self._most = readers
        self._readers = 0
        # of all its streams: each client has one of its own
        self._resuming = asyncio.Semaphore(RESUMED_AT_ONCE)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer a request; served alone, open the queue object at the start and close it at the end."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            await self._answer(scope, receive, send)

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()  # lifespan.startup
        try:
            async with self._jobs:
                await send({"type": "lifespan.startup.complete"})
                await receive()  # lifespan.shutdown
        except QueueCoreError as error:
            await send({"type": "lifespan.startup.failed", "message": str(error)})
            return
        await send({"type": "lifespan.shutdown.complete"})

    async def _answer(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["method"] not in {"GET", "HEAD"}:
            return await _refuse(send, HTTPStatus.METHOD_NOT_ALLOWED, "GET or HEAD", {"allow": "GET, HEAD"})
        try:
            query = parse_query(scope.get("query_string", b"").decode("latin-1"), _last_event_id(scope))
        except ValueError as error:
            return await _refuse(send, HTTPStatus.BAD_REQUEST, str(error))
        if self._readers >= self._most:
            return await _refuse(send, HTTPStatus.SERVICE_UNAVAILABLE, "too many readers", {"retry-after": "1"})
        self._readers += 1
        try:
            await self._stream(scope, query, receive, send)
        finally:
            self._readers -= 1

    async def _stream(self, scope: Message, query: EventQuery, receive: Receive, send: Send) -> None:
        try:
            await self._jobs.open()
        except QueueCoreError as error:
            return await _refuse(send, HTTPStatus.SERVICE_UNAVAILABLE, str(error), {"retry-after": "5"})
        headers = {"content-type": CONTENT_TYPE, "cache-control": "no-store", **HEADERS}
        await send({"type": "http.response.start", "status": 200, "headers": _encoded(headers.items())})
        if scope["method"] == "HEAD":
            return await send({"type": "http.response.body", "body": b""})
        streams = EventStreams(self._jobs.feed, self._jobs.inspector, self._heartbeat, self._resuming)
        parts = streams.read(query)
        sending = asyncio.create_task(_send_all(parts, send))
        gone = asyncio.create_task(_until_gone(receive))
        try:
            await asyncio.wait({sending, gone}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await end_tasks(sending, gone)
        return None


def events_app(jobs: JobQueue, *, heartbeat: float = HEARTBEAT, readers: int = MAX_READERS) -> EventsApp:
    """Return an ASGI application that streams the events of a queue object as Server-Sent Events.

    Mounted, it works on the queue object that the application around it opens and closes; served alone, it does so
    itself. It has no login: put the one of the application around it. `heartbeat`: seconds of silence after which a
    comment is sent. `readers`: streams at a time; one more gets status 503.
    """
    return EventsApp(jobs, heartbeat, readers)


async def _send_all(parts: AsyncGenerator[bytes, None], send: Send) -> None:
    async with aclosing(parts):
        async for part in parts:
            # A server that waits for a reader which takes nothing: the stream is given up.
            async with asyncio.timeout(STALL_SECONDS):
                await send({"type": "http.response.body", "body": part, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _last_event_id(scope: Message) -> str:
    return next((value.decode("latin-1") for name, value in scope["headers"] if name.lower() == b"last-event-id"), "")


def _encoded(headers: Iterable[tuple[str, str]]) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers]


async def _refuse(send: Send, status: HTTPStatus, sentence: str, headers: dict[str, str] | None = None) -> None:
    head = {"content-type": "text/plain; charset=utf-8", **(headers or {})}
    await send({"type": "http.response.start", "status": status.value, "headers": _encoded(head.items())})
    await send({"type": "http.response.body", "body": f"{sentence}\n".encode()})
