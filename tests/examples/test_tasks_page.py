"""Blocks of docs/tasks.md, docs/configuration.md and docs/triage.md."""

import asyncio
import re
from typing import Any, cast

import psycopg
import pytest

from queue_core import JobContext, JobQueue, Worker
from queue_core.model.filters import Filter
from tests.conformance.working import PATIENCE, working
from tests.examples.blocks import DOCS, blocks, run


async def test_from_plain_functions() -> None:
    jobs = JobQueue(memory=True)

    @jobs.task(queue="images")
    async def thumbnail(path: str, width: int = 200) -> dict[str, str]:
        return {"made": f"{path}@{width}"}

    worker = Worker(jobs)
    await jobs.open()  # here, so that the client's calls run where the worker does
    running = asyncio.create_task(worker.run())
    (block,) = blocks("tasks.md", "## From plain functions")
    await asyncio.to_thread(asyncio.run, run(block, {"jobs": jobs, "thumbnail": thumbnail}))
    assert (await jobs.store.queues())["images"], "the block pauses it"
    worker.stop()
    await running


async def test_what_handlers_share(monkeypatch: pytest.MonkeyPatch, postgres_url: str) -> None:
    monkeypatch.setenv("JOBS__QUEUE_BACKEND", "memory")
    monkeypatch.setenv("DATABASE_URL", postgres_url.replace("postgresql://", "postgresql+psycopg://"))
    (block,) = blocks("tasks.md", "## What handlers share")
    names: dict[str, Any] = {}
    exec(compile(block, "program", "exec", dont_inherit=True), names)
    async with await psycopg.AsyncConnection.connect(postgres_url, autocommit=True) as connection:
        await connection.execute("CREATE TABLE orders AS SELECT 7 AS customer FROM generate_series(1, 3)")
        async with names["jobs"] as jobs, working(jobs):
            assert await (await names["orders_of"].enqueue(customer=7)).result(PATIENCE) == 3
        await connection.execute("DROP TABLE orders")


async def test_rules_of_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOBS__QUEUE_BACKEND", "memory")
    monkeypatch.setenv("JOBS__QUEUES", '{"*": {"band_limits": {"low": 50}}, "mail": {"concurrency": 2}}')
    names: dict[str, Any] = {"JobQueue": JobQueue}
    for block in blocks("configuration.md"):
        await run(block, names)
    rules = cast(JobQueue, names["jobs"]).settings.rules["mail"]
    assert (rules.rate, rules.concurrency, rules.band_limits.low) == (50, 2, 50)


def test_the_page_names_all_that_a_context_has() -> None:
    page = DOCS.joinpath("tasks.md").read_text(encoding="utf-8")
    section = page.partition("## What ctx has\n")[2].partition("\n## ")[0]
    has = {name for one in JobContext.__mro__ for name in vars(one) if not name.startswith("_")}
    assert set(re.findall(r"ctx\.(\w+)", section)) == has


async def test_headers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOBS__QUEUE_BACKEND", "memory")
    (block,) = blocks("tasks.md", "### Headers")
    names: dict[str, Any] = {}
    exec(compile(block, "program", "exec", dont_inherit=True), names)
    async with names["jobs"] as jobs:
        await asyncio.create_task(names["order_reports"]())
        ids = await jobs.inspector.ids(Filter(), 10)
        async with working(jobs):
            results = {await jobs.result(job_id, PATIENCE) for job_id in ids}
    assert results == {"a report for acme, by the clock", "a report for initech, by peter"}


async def test_states_of_signatures(capsys: pytest.CaptureFixture[str]) -> None:
    signature = "9f31c2aa04d1"
    async with JobQueue(memory=True, release="r124") as jobs:
        handle = await jobs.enqueue("send_email")
        job = await jobs.claim_next(wait=PATIENCE)
        assert job is not None
        await job.fail(TimeoutError("smtp mx-7:25"), retry=False)
        made = (await jobs.get(handle.id)).signature
        assert made is not None
        (block,) = (one for one in blocks("triage.md") if "jobs.signatures.own" in one)
        await run(block.replace(signature, made), {"jobs": jobs})
    assert capsys.readouterr().out == "resolved r124 ana\n"
