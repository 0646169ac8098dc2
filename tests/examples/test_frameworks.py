"""docs/frameworks.md: each of its applications, on a real database, called by its framework's own client."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import httpx
import psycopg
import pytest
from fastapi import Depends, FastAPI
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from tests.conformance.working import PATIENCE, until, until_status, working
from tests.examples.blocks import blocks

LIMIT = 2


@pytest.fixture
def database(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[psycopg.Connection[Any]]:
    """The database of queue and application, both configured as the page has it."""
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        # Checked at the commit only: two orders of one item.
        connection.execute(
            "create table orders (id serial primary key, item text unique deferrable initially deferred)"
        )
        monkeypatch.setenv("DATABASE_URL", postgres_url.replace("postgresql://", "postgresql+psycopg://"))
        monkeypatch.setenv("JOBS_CONFIG", "/dev/null")
        monkeypatch.setenv("JOBS__QUEUE_BACKEND", "postgres")
        monkeypatch.setenv("JOBS__POSTGRES__URL", postgres_url)
        monkeypatch.setenv("JOBS__QUEUES", json.dumps({"mail": {"limit": LIMIT, "retry_after": "30s"}}))
        yield connection


def counts(connection: psycopg.Connection[Any]) -> tuple[int, int]:
    """Return the number of orders and of jobs."""
    found = connection.execute("select (select count(*) from orders), (select count(*) from jobs)").fetchone()
    assert found is not None
    return found[0], found[1]


@asynccontextmanager
async def serving(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(app.router.lifespan_context(app))
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        yield await stack.enter_async_context(httpx.AsyncClient(transport=transport, base_url="http://shop"))


async def test_fastapi(database: psycopg.Connection[Any]) -> None:
    names: dict[str, Any] = {"__name__": "shop"}
    for block in blocks("frameworks.md", "## FastAPI"):
        exec(block, names)
    jobs = names["jobs"]
    async with serving(names["app"]) as client:
        answer = await client.post("/orders", params={"item": "lamp"})
        assert answer.status_code == 202
        assert counts(database) == (1, 1)
        # The commit fails, and the client hears of it.
        for path in ("/orders", "/orders/again"):
            assert (await client.post(path, params={"item": "lamp"})).status_code == 500
        assert counts(database) == (1, 1)
        assert (await client.post("/orders/again", params={"item": "desk"})).status_code == 202
        answer = await client.post("/orders", params={"item": "chair"})
        assert (answer.status_code, answer.headers["Retry-After"]) == (503, "30")
        assert counts(database) == (LIMIT, LIMIT)

        found = (await jobs.list(order="oldest")).jobs[0]
        async with working(jobs):
            await until_status(jobs, found.id, "completed")
        answer = await client.get(f"/jobs/{found.id}")
        assert answer.json() == {"status": "completed", "progress": 100, "result": "receipt of order 1"}
        assert (await client.get("/jobs/01976f7e-5d6c-7b5e-8b7a-0c2f4d6e8a90")).status_code == 404

        # A reader of the events leaves when it has seen another job.
        read, gone = bytearray(), asyncio.Event()

        def note(message: Any) -> None:
            read.extend(message.get("body", b""))
            if b"event: created\n" in read:
                gone.set()

        watching = asyncio.create_task(_call(names["app"], "GET", "/events/", b"queue=mail", note, gone))
        async with asyncio.timeout(PATIENCE):
            await until(lambda: _holds(read, b"event: live\n"))
            await jobs.enqueue("send_receipt", {"order": 1}, queue="mail", delay="1h")
            await watching


async def _holds(text: bytearray, part: bytes) -> bool:
    return part in text


async def test_a_commit_of_a_dependency_comes_after_the_response(database: psycopg.Connection[Any]) -> None:
    """The trap that the page describes: the client reads 202, and there is neither an order nor a job."""
    names: dict[str, Any] = {"__name__": "shop"}
    exec(blocks("frameworks.md", "## FastAPI")[0], names)
    app, send_order = names["app"], names["order"]

    @app.post("/late", status_code=202)
    async def late(item: str, session: AsyncSession = Depends(names["transaction"])) -> dict[str, str]:  # noqa: B008
        made: dict[str, str] = await send_order(item, session)
        return made

    async with serving(app) as client:
        assert (await client.post("/orders", params={"item": "lamp"})).status_code == 202
        messages: list[Any] = []
        with pytest.raises(IntegrityError):
            await _call(app, "POST", "/late", b"item=lamp", messages.append, asyncio.Event())
        assert [message["type"] for message in messages] == ["http.response.start", "http.response.body"]
        assert messages[0]["status"] == 202
        assert counts(database) == (1, 1)


async def _call(
    app: Callable[..., Awaitable[None]],
    method: str,
    path: str,
    query: bytes,
    sent: Callable[[Any], None],
    gone: asyncio.Event,
) -> None:
    """Call an application as a server does, and note what it sends, until the client is gone."""
    body = [{"type": "http.request", "body": b"", "more_body": False}]

    async def send(message: Any) -> None:
        sent(message)

    async def receive() -> dict[str, Any]:
        if body:
            return body.pop()
        await gone.wait()
        return {"type": "http.disconnect"}

    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": query,
        "headers": [],
        "scheme": "http",
        "root_path": "",
        "server": ("shop", 80),
        "client": ("127.0.0.1", 1),
        "http_version": "1.1",
    }
    await app(scope, receive, send)


async def test_flask(database: psycopg.Connection[Any]) -> None:
    (block,) = blocks("frameworks.md", "## Flask")
    names: dict[str, Any] = {"__name__": "shop"}
    exec(block, names)
    client, jobs = names["app"].test_client(), names["jobs"]

    def post(item: str) -> Any:
        return client.post("/orders", query_string={"item": item})

    def orders() -> str:
        first = post("lamp")
        assert first.status_code == 202
        assert post("lamp").status_code == 500
        assert counts(database) == (1, 1)
        assert post("desk").status_code == 202
        answer = post("chair")
        assert (answer.status_code, answer.headers["Retry-After"]) == (503, "30")
        assert counts(database) == (LIMIT, LIMIT)
        names["queue"].close()
        return str(first.json["job"])

    job_id = await asyncio.to_thread(orders)
    names["queue"] = jobs.blocking()
    async with jobs, working(jobs):
        await until_status(jobs, job_id, "completed")

        def look() -> None:
            assert client.get(f"/jobs/{job_id}").json["result"] == "receipt of order 1"
            assert client.get("/jobs/01976f7e-5d6c-7b5e-8b7a-0c2f4d6e8a90").status_code == 404

        await asyncio.to_thread(look)
    names["sessions"].kw["bind"].dispose()
