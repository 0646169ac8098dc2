"""docs/events.md: each of its blocks."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import shutil
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from jobconsole.cli.root import parser_of
from jobconsole.web.stream import EventStreams, parse_query
from queue_core import JobContext, JobQueue
from queue_core.model.events import EventName
from queue_core.model.rules import QueueRules
from queue_core.model.settings import JobsSettings
from tests.conformance.modes import settings_of
from tests.conformance.working import PATIENCE, working
from tests.exporter.test_server import serving

PAGE = (Path(__file__).parents[2] / "docs" / "events.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


@pytest.fixture
def stored(request: pytest.FixtureRequest) -> JobsSettings:
    rules = {"mail": QueueRules(publish_results=True)}
    return settings_of("redis", request).model_copy(update={"queues": rules})


async def ended(jobs: JobQueue) -> str:
    """Run a job of the page and return its id."""
    if "send" not in jobs.tasks:

        @jobs.task(queue="mail")
        async def send(ctx: JobContext) -> dict[str, int]:
            return {"sent": 1}

    async with working(jobs):
        handle = await jobs.enqueue("send")
        await handle.result(PATIENCE)
    return handle.id


async def test_one_job_is_followed(capsys: pytest.CaptureFixture[str]) -> None:
    found: dict[str, Any] = {}
    exec("from typing import Any\nfrom queue_core import JobHandle\n" + blocks("python")[0], found)
    async with JobQueue(memory=True) as jobs:
        handle = await jobs.enqueue("send", queue="mail")
        following = asyncio.create_task(found["follow"](handle))
        await asyncio.sleep(0)
        await jobs.cancel(handle.id)
        await asyncio.wait_for(following, PATIENCE)
    assert capsys.readouterr().out.splitlines()[0].startswith("state {'status': ")


def test_curl_reads_the_exporter(stored: JobsSettings) -> None:
    serve, read = blocks("sh")[0].splitlines()
    assert callable(parser_of().parse_args(shlex.split(serve)[1:]).run)
    words = shlex.split(read)
    if shutil.which(words[0]) is None:
        pytest.skip("curl is not installed")
    with serving(stored) as exporter:
        words[-1] = words[-1].replace("http://127.0.0.1:9808/events", exporter.events_url)
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            assert process.stdout is not None
            lines = iter(process.stdout.readline, "")
            assert "event: live\n" in lines

            async def run() -> str:
                async with JobQueue(settings=stored) as jobs:
                    return await ended(jobs)

            ran = threading.Thread(target=lambda: asyncio.run(run()))
            ran.start()
            assert "event: completed\n" in lines
            ran.join(PATIENCE)
        finally:
            process.kill()
            process.wait()
            process.stdout.close()


async def test_an_application_mounts_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JOBS__QUEUE_BACKEND", "memory")
    found: dict[str, Any] = {}
    exec(blocks("python")[1], found)
    sent: asyncio.Queue[Any] = asyncio.Queue()
    scope = {"type": "http", "method": "GET", "path": "/", "query_string": b"", "headers": []}
    task = asyncio.create_task(found["app"](scope, asyncio.Event().wait, sent.put))
    assert (await asyncio.wait_for(sent.get(), PATIENCE))["status"] == 200
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await found["jobs"].close()


def shown(text: str) -> list[tuple[str, ...]]:
    """Return the fields of a stream, of data its keys."""
    found: list[tuple[str, ...]] = []
    for line in text.splitlines():
        name, _, value = line.partition(": ")
        if name == "data":
            found.append((name, *json.loads(value)))
        elif line:
            found.append((name, "" if name == "id" else value))
    return found


async def test_a_stream_is_as_it_is_shown() -> None:
    (example,) = blocks("text")
    async with JobQueue(memory=True) as jobs:
        reading = EventStreams(jobs.feed, jobs.inspector).read(parse_query("queue=mail&event=completed"))
        text = (await anext(reading)).decode() + (await anext(reading)).decode()
        await ended(jobs)
        text += (await anext(reading)).decode()
        await reading.aclose()
    assert shown(text) == shown(example)


def test_every_event_is_in_the_table() -> None:
    named = set(re.findall(r"`(\w+)`", "".join(line.split("|")[1] for line in PAGE.splitlines() if line[:3] == "| `")))
    assert named == {*EventName, "state", "gap", "live"}


async def test_messages_are_as_they_are_shown(stored: JobsSettings) -> None:
    end, events = map(json.loads, blocks("json"))
    assert stored.redis.url is not None
    client = Redis.from_url(stored.redis.url.get_secret_value(), decode_responses=True)
    pubsub = client.pubsub()
    channels = [f"{stored.redis.prefix}events", f"{stored.redis.prefix}{{mail}}:job:*:done"]
    await pubsub.psubscribe(*channels)
    async with JobQueue(settings=stored) as jobs:
        job_id = await ended(jobs)
    messages: dict[str, dict[str, Any]] = {}
    async with asyncio.timeout(PATIENCE):
        while len(messages) < 2:
            message = await pubsub.get_message(ignore_subscribe_messages=True, timeout=None)
            body = json.loads(message["data"]) if message else None
            if isinstance(body, dict) and (job_id in message["channel"] or "completed" in message["data"]):
                messages[message["pattern"]] = body
    await pubsub.aclose()  # type: ignore[no-untyped-call]
    await client.aclose()
    assert list(messages[channels[1]]) == list(end)
    assert messages[channels[1]]["result"] == end["result"]
    found = messages[channels[0]]
    assert list(found) == list(events)
    (completed,) = [event for event in found["events"] if event["event"] == "completed"]
    assert list(completed) == list(events["events"][0])


def test_the_browsers_code_can_be_read() -> None:
    if (node := shutil.which("node")) is None:
        pytest.skip("node is not installed")
    (code,) = blocks("js")
    subprocess.run([node, "--check", "--input-type=module", "-"], input=code.encode(), check=True, capture_output=True)
