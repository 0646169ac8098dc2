"""A web application that takes orders, answers 503 with Retry-After while its queue is full, and gives results.

Plain ASGI, for any server of it: `uvicorn --factory web:make`. In a framework the same three things are a lifespan that
opens the queue object, a handler that enqueues, and an exception handler for `QueueFull`.

    POST /thumbnails {"path": "a.png"}   202 {"id": "…"}, or 503 while the queue is full
    GET  /thumbnails/<id>                200 {"status": "completed", "result": …}, or 404
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from queue_core import InvalidJob, JobNotFound, JobQueue, QueueCoreError, QueueFull, StoreUnavailable

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

LARGEST = 64 << 10
"""Bytes of a request's body."""


class Refused(Exception):
    """An answer that is not what the client hoped for."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class Application:
    """Any number of requests share one queue object, which lives as long as the application does."""

    def __init__(self, jobs: JobQueue) -> None:
        self.jobs = jobs

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer a request, or live from startup to shutdown."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            await self._answer(scope, receive, send)

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()  # lifespan.startup
        try:
            async with self.jobs:
                await send({"type": "lifespan.startup.complete"})
                await receive()  # lifespan.shutdown
        except QueueCoreError as error:  # the server is to log why it does not start
            await send({"type": "lifespan.startup.failed", "message": str(error)})
            return
        await send({"type": "lifespan.shutdown.complete"})

    async def _answer(self, scope: Message, receive: Receive, send: Send) -> None:
        retry_after: float | None = None
        try:
            status, body = await self._route(scope, receive)
        except QueueFull as full:
            status, body, retry_after = 503, {"error": str(full)}, full.retry_after
        except StoreUnavailable:
            status, body, retry_after = 503, {"error": "the queue cannot be reached"}, 5
        except (InvalidJob, ValueError, RecursionError) as error:
            status, body = 400, {"error": str(error)}
        except JobNotFound as error:
            status, body = 404, {"error": str(error)}
        except Refused as refused:
            status, body = refused.status, {"error": str(refused)}
        headers = [(b"content-type", b"application/json")]
        if retry_after is not None:
            headers.append((b"retry-after", str(math.ceil(retry_after)).encode()))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": json.dumps(body).encode()})

    async def _route(self, scope: Message, receive: Receive) -> tuple[int, dict[str, Any]]:
        method, path = scope["method"], scope["path"]
        if (method, path) == ("POST", "/thumbnails"):
            handle = await self.jobs.enqueue("thumbnail", await _json(receive), queue="images")
            return 202, {"id": handle.id}
        if method == "GET" and path.startswith("/thumbnails/"):
            job = await self.jobs.get(path.removeprefix("/thumbnails/"))
            return 200, {"status": job.status, "progress": job.progress, "result": job.result}
        raise Refused(404, "there is nothing here")


async def _json(receive: Receive) -> dict[str, Any]:
    body = b""
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise asyncio.CancelledError
        body += message.get("body", b"")
        more = message.get("more_body", False)
        if len(body) > LARGEST:
            raise Refused(413, f"at most {LARGEST:,} bytes")
    found = json.loads(body)
    if not isinstance(found, dict):
        raise Refused(400, "a JSON object of the task's parameters is expected")
    return found


def make() -> Application:
    """Return the application, configured by file and environment; its limit: jobs.queues.images.limit."""
    return Application(JobQueue.from_settings())
