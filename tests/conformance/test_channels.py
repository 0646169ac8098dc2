"""Channels that any program may listen to, with nothing but a SUBSCRIBE or a LISTEN: progress, and ends of jobs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import psycopg
import pytest

from queue_core import JobContext, JobQueue
from queue_core.model.events import Event, EventName, encode_end
from queue_core.model.rules import QueueRules
from queue_core.model.settings import JobsSettings
from queue_core.redis.client import make_client
from tests.conformance.modes import settings_of
from tests.conformance.working import PATIENCE, working

QUEUE = "images"


class Messages:
    """What has come on the channels that were listened to."""

    def __init__(self) -> None:
        self.found: list[tuple[str, dict[str, Any]]] = []
        self._changed = asyncio.Event()

    def add(self, channel: str, text: str) -> None:
        # The plain message is for processes of this product that wait for the job.
        with suppress(ValueError):
            if isinstance(body := json.loads(text), dict):
                self.found.append((channel, body))
                self._changed.set()

    async def until(self, number: int) -> list[dict[str, Any]]:
        async with asyncio.timeout(PATIENCE):
            while len(self.found) < number:
                self._changed.clear()
                await self._changed.wait()
        return [body for _, body in self.found]


def names(settings: JobsSettings, job_id: str) -> tuple[str, str, str]:
    """Return, as docs/events.md names them: progress, the job's own channel, and that of an operator's cancellation."""
    if settings.mode == "postgres":
        begin = f"queue_core_{settings.postgres.schema}"
        return f"{begin}_progress", f"{begin}_done_{job_id}", f"{begin}_done_{job_id}"
    prefix = settings.redis.prefix
    return f"{prefix}progress", f"{prefix}{{{QUEUE}}}:job:{job_id}:done", f"{prefix}{{}}:job:{job_id}:done"


@asynccontextmanager
async def listening(settings: JobsSettings, *channels: str) -> AsyncIterator[Messages]:
    """Listen as a program does that knows nothing of this product."""
    messages = Messages()
    hear = _notified if settings.mode == "postgres" else _subscribed
    ready = asyncio.Event()
    task = asyncio.create_task(hear(settings, channels, messages, ready))
    try:
        await asyncio.wait_for(ready.wait(), PATIENCE)
        yield messages
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _subscribed(settings: JobsSettings, channels: tuple[str, ...], found: Messages, ready: asyncio.Event) -> None:
    client = make_client(settings.redis)
    pubsub = client.pubsub()
    try:
        await pubsub.subscribe(*channels)
        for _ in channels:
            assert await pubsub.get_message(timeout=PATIENCE) is not None
        ready.set()
        while True:
            if message := await pubsub.get_message(ignore_subscribe_messages=True, timeout=None):
                found.add(message["channel"], message["data"])
    finally:
        await pubsub.aclose()  # type: ignore[no-untyped-call]
        await client.aclose()


async def _notified(settings: JobsSettings, channels: tuple[str, ...], found: Messages, ready: asyncio.Event) -> None:
    url = settings.postgres.url
    assert url is not None
    async with await psycopg.AsyncConnection.connect(url.get_secret_value(), autocommit=True) as connection:
        for channel in channels:
            await connection.execute(f'LISTEN "{channel}"')
        ready.set()
        async for one in connection.notifies():
            found.add(one.channel, one.payload)


@pytest.fixture(params=["postgres+redis", "redis", "postgres"])
async def jobs(request: pytest.FixtureRequest) -> AsyncIterator[JobQueue]:
    """An open queue object of a mode with channels, whose one queue publishes results."""
    settings = settings_of(request.param, request)
    rules = {QUEUE: QueueRules(publish_results=True)}
    async with JobQueue(settings=settings.model_copy(update={"queues": rules})) as jobs:
        yield jobs


async def test_results_and_progress(jobs: JobQueue) -> None:
    seen = asyncio.Event()

    @jobs.task(queue=QUEUE)
    async def thumbnail(ctx: JobContext, size: int) -> dict[str, str]:
        await ctx.progress(40, "decoded")
        await seen.wait()
        return {"made": "x" * size}

    @jobs.task(queue=QUEUE)
    async def fails() -> None:
        raise ValueError("no")

    small, large = await thumbnail.enqueue(10), await thumbnail.enqueue(9_000)
    dead = await fails.options(max_retries=0).enqueue()
    progress, _, _ = names(jobs.settings, small.id)
    mine = [names(jobs.settings, handle.id)[1] for handle in (small, large, dead)]
    async with listening(jobs.settings, progress, *mine) as messages:
        async with working(jobs):
            while not any(channel == progress for channel, _ in messages.found):
                await messages.until(len(messages.found) + 1)
            seen.set()
            while len({channel for channel, _ in messages.found}) < 4:
                await messages.until(len(messages.found) + 1)
        ends = {channel: body for channel, body in messages.found if channel != progress}
        body = ends[mine[0]]
        assert body.pop("ms") >= 0
        assert body.pop("at") > 1e9
        assert body.pop("token") > 0
        end = {"v": 1, "id": small.id, "queue": QUEUE, "type": "thumbnail", "status": "completed"}
        assert body == {**end, "result": {"made": "x" * 10}}
        assert (ends[mine[1]]["truncated"], "result" in ends[mine[1]]) == (True, False)
        assert (ends[mine[2]]["status"], "ValueError: no" in ends[mine[2]]["error"]) == ("dead", True)
        events = [event for channel, body in messages.found if channel == progress for event in body["events"]]
        assert {(event["event"], event["progress"], event["message"]) for event in events} == {
            ("progress", 40, "decoded")
        }


async def test_the_end_of_a_waiting_job_that_is_cancelled(jobs: JobQueue) -> None:
    handle = await jobs.enqueue("nothing", queue=QUEUE)
    async with listening(jobs.settings, names(jobs.settings, handle.id)[2]) as messages:
        await jobs.cancel(handle.id)
        (body,) = await messages.until(1)
        assert (body["status"], body["id"]) == ("cancelled", handle.id)


async def test_a_program_without_workers_publishes_them_too(jobs: JobQueue) -> None:
    handle = await jobs.enqueue("nothing", queue=QUEUE)
    async with listening(jobs.settings, names(jobs.settings, handle.id)[1]) as messages:
        claimed = await jobs.claim_next(QUEUE, wait=PATIENCE)
        assert claimed is not None
        await claimed.complete({"a": 1})
        assert (await messages.until(1))[0]["result"] == {"a": 1}


def test_a_result_is_measured_in_bytes() -> None:
    end = Event(EventName.COMPLETED, "q", "1", "t", 7, {"ms": 1.0}, result='"' + "é" * 5_000 + '"')
    assert json.loads(encode_end(end, 0.0))["truncated"] is True
    assert json.loads(encode_end(end._replace(result=None), 0.0))["result"] is None
    assert json.loads(encode_end(end._replace(result=""), 0.0))["truncated"] is True
