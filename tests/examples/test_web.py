"""The web application of the documentation, called as a server calls it."""

import asyncio
import importlib.util
import json
from collections.abc import AsyncIterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from queue_core import JobQueue
from queue_core.model.rules import QueueRules
from queue_core.model.settings import JobsSettings, SqliteSettings
from tests.conformance.working import PATIENCE, until_status, working

FILE = Path(__file__).parents[2] / "docs" / "examples" / "web.py"
LIMIT = 3


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("web_example", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Answer:
    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[bytes, bytes] = {}
        self.body: Any = None

    async def take(self, message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status, self.headers = message["status"], dict(message["headers"])
        else:
            self.body = json.loads(message["body"])


class Server:
    """Runs the lifespan beside the requests, as ASGI servers do."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self._told: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.said: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._living: asyncio.Task[None] | None = None

    async def start(self) -> str:
        self._living = asyncio.create_task(self._app({"type": "lifespan"}, self._told.get, self.said.put))
        await self._told.put({"type": "lifespan.startup"})
        return str((await asyncio.wait_for(self.said.get(), PATIENCE))["type"])

    async def stop(self) -> str:
        assert self._living is not None
        await self._told.put({"type": "lifespan.shutdown"})
        await asyncio.wait_for(self._living, PATIENCE)
        return str(self.said.get_nowait()["type"])

    async def ask(self, method: str, path: str, *parts: bytes) -> Answer:
        waiting = [{"type": "http.request", "body": part, "more_body": True} for part in parts]
        waiting.append({"type": "http.request", "body": b"", "more_body": False})

        async def receive() -> dict[str, Any]:
            return waiting.pop(0)

        answer = Answer()
        await self._app({"type": "http", "method": method, "path": path}, receive, answer.take)
        return answer


@pytest.fixture
def jobs(tmp_path: Path) -> JobQueue:
    settings = JobsSettings(
        queue_backend="sqlite",
        sqlite=SqliteSettings(path=str(tmp_path / "jobs.db")),
        queues={"images": QueueRules(limit=LIMIT)},
    )
    return JobQueue(settings=settings)


@pytest.fixture
async def server(jobs: JobQueue) -> AsyncIterator[Server]:
    server = Server(load().Application(jobs))
    assert await server.start() == "lifespan.startup.complete"
    yield server
    assert await server.stop() == "lifespan.shutdown.complete"


async def test_an_order_and_its_result(server: Server, jobs: JobQueue) -> None:
    answer = await server.ask("POST", "/thumbnails", b'{"path":', b' "a.png"}')
    assert answer.status == 202

    @jobs.task(queue="images")
    async def thumbnail(path: str) -> str:
        return f"{path}@200"

    async with working(jobs):
        await until_status(jobs, answer.body["id"], "completed")
    found = await server.ask("GET", f"/thumbnails/{answer.body['id']}")
    assert (found.status, found.body["status"], found.body["result"]) == (200, "completed", "a.png@200")


async def test_while_the_queue_is_full_it_says_when_to_come_again(server: Server, jobs: JobQueue) -> None:
    answers = await asyncio.gather(*(server.ask("POST", "/thumbnails", b"{}") for _ in range(3 * LIMIT)))
    assert sorted(answer.status for answer in answers) == [202] * LIMIT + [503] * 2 * LIMIT
    refused = next(answer for answer in answers if answer.status == 503)
    assert refused.headers[b"retry-after"] == b"60"
    assert "queue 'images' is full" in refused.body["error"]
    taken = next(answer for answer in answers if answer.status == 202)
    await jobs.cancel(taken.body["id"])
    assert (await server.ask("POST", "/thumbnails", b"{}")).status == 202


async def test_what_is_wrong_is_said(server: Server) -> None:
    assert (await server.ask("POST", "/thumbnails", b"[]")).status == 400
    assert (await server.ask("POST", "/thumbnails", b"{")).status == 400
    assert (await server.ask("POST", "/thumbnails", b"[" * 60_000)).status == 400
    assert (await server.ask("POST", "/thumbnails", b" " * (1 << 17))).status == 413
    assert (await server.ask("GET", "/thumbnails/nobody")).status == 404
    assert (await server.ask("DELETE", "/thumbnails")).status == 404


async def test_a_store_that_cannot_be_used_is_said_at_the_start() -> None:
    jobs = JobQueue(postgres="postgresql://127.0.0.1:1/nowhere")
    server = Server(load().Application(jobs))
    assert await server.start() == "lifespan.startup.failed"
    answer = await server.ask("POST", "/thumbnails", b"{}")
    assert (answer.status, answer.headers[b"retry-after"]) == (503, b"5")
    await jobs.close()
