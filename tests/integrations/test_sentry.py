"""Reports of dead jobs, as a transport that records them gets them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest
import sentry_sdk
from sentry_sdk.envelope import Envelope
from sentry_sdk.transport import Transport

from jobconsole.tui.base.links import Link, parse_link
from queue_core import JobContext, JobFailed, JobQueue, Reschedule, Retry
from queue_core.integrations.sentry import Reports
from tests.conformance.working import PATIENCE, until_status, working
from tests.examples.blocks import blocks
from tests.hostile import Nameless

DSN = "https://key@sentry.invalid/1"
ONCE = Retry(max_retries=1, delay=0)


class Recording(Transport):
    """Keeps events in place of sending them."""

    def __init__(self) -> None:
        super().__init__()
        self.events: list[dict[str, Any]] = []

    def capture_envelope(self, envelope: Envelope) -> None:
        event = envelope.get_event()
        if event is not None:
            self.events.append(dict(event))


@pytest.fixture
def events() -> Iterator[list[dict[str, Any]]]:
    """What is sent, by a client of its own."""
    recording = Recording()
    sentry_sdk.init(DSN, transport=recording, default_integrations=True, auto_enabling_integrations=False)
    yield recording.events
    sentry_sdk.get_client().close()
    sentry_sdk.get_global_scope().set_client(None)


async def dead(jobs: JobQueue, name: str, **payload: Any) -> str:
    handle = await jobs.enqueue(name, payload)
    with pytest.raises(JobFailed):
        await handle.result(PATIENCE)
    return handle.id


async def test_a_death_is_one_event_in_the_group_of_its_signature(events: list[dict[str, Any]]) -> None:
    jobs = JobQueue(memory=True)
    jobs.middleware(Reports(context="prod"))

    @jobs.task(queue="images", retry=ONCE)
    async def thumbnail(number: int) -> None:
        size = number * 2
        raise ValueError(f"no image {size}")

    async with jobs, working(jobs):
        ids = [await dead(jobs, "thumbnail", number=number) for number in (1, 2)]
        signature = (await jobs.inspector.get(ids[0])).signature
    assert [event["tags"]["job_id"] for event in events] == ids
    for event in events:
        assert event["fingerprint"] == [signature]
        assert (event["level"], event["transaction"]) == ("error", "thumbnail")
        tags = event["tags"]
        assert (tags["job_type"], tags["queue"], tags["signature"]) == ("thumbnail", "images", signature)
        job = event["contexts"]["job"]
        assert parse_link(job["open"]) == Link("job", tags["job_id"], "prod")
        assert parse_link(job["open group"]) == Link("signature", str(signature), "prod")
        (raised,) = event["exception"]["values"]
        assert raised["type"] == "ValueError"
        assert raised["stacktrace"]["frames"][-1]["function"] == "thumbnail"


async def test_every_failed_attempt_where_that_is_wanted(events: list[dict[str, Any]]) -> None:
    jobs = JobQueue(memory=True)
    jobs.middleware(Reports(every=True))

    @jobs.task(retry=ONCE)
    def bad() -> None:
        raise ValueError

    async with jobs, working(jobs):
        await dead(jobs, "bad")
    assert [(event["level"], event["tags"]["outcome"]) for event in events] == [
        ("warning", "retrying"),
        ("error", "dead"),
    ]


async def test_what_no_exception_shows_is_reported_as_it_is_stored(events: list[dict[str, Any]]) -> None:
    """A time limit ends an attempt from outside. One that was rescheduled, or completed, is no report."""
    jobs = JobQueue(memory=True)
    jobs.middleware(Reports())

    @jobs.task(retry=Retry(max_retries=0), timeout=0.05)
    async def late() -> None:
        import asyncio

        await asyncio.sleep(600)

    @jobs.task
    async def again() -> None:
        raise Reschedule(delay=3600)

    async with jobs, working(jobs):
        await dead(jobs, "late")
        rescheduled = await jobs.enqueue("again")
        await until_status(jobs, rescheduled.id, "scheduled")
    (event,) = events
    assert event["message"] == "TimeLimitExceeded: ran longer than its time limit of 0.05 s"
    assert "Traceback" in event["extra"]["traceback"]
    assert parse_link(event["contexts"]["job"]["open"]).context == ""


async def test_a_class_that_does_not_answer_what_it_is_called_is_reported_as_it_is_stored(
    events: list[dict[str, Any]],
) -> None:
    jobs = JobQueue(memory=True)
    jobs.middleware(Reports())

    @jobs.task(retry=ONCE)
    async def hostile() -> None:
        raise Nameless("the disk is full")

    async with jobs, working(jobs):
        await dead(jobs, "hostile")
    (event,) = events
    assert event["message"].endswith("Nameless: the disk is full")
    assert event["level"] == "error"


async def test_what_a_handler_sends_has_the_ids_of_its_job(events: list[dict[str, Any]]) -> None:
    jobs = JobQueue(memory=True)
    jobs.middleware(Reports())

    @jobs.task
    def tells(ctx: JobContext) -> None:
        logging.getLogger("app").error("from the handler")

    async with jobs, working(jobs):
        handle = await tells.enqueue()
        await handle.result(PATIENCE)
    logging.getLogger("app").error("from elsewhere")
    inside, outside = events
    assert (inside["tags"]["job_id"], inside["tags"]["attempt"]) == (handle.id, 1)
    assert "job_id" not in outside.get("tags", {})


async def test_the_program_of_the_documentation(monkeypatch: pytest.MonkeyPatch, events: list[dict[str, Any]]) -> None:
    monkeypatch.setenv("JOBS__QUEUE_BACKEND", "memory")
    (block,) = blocks("tracing.md", "## Sentry")
    names: dict[str, Any] = {}
    (line,) = [line for line in block.splitlines() if line.startswith("sentry_sdk.init")]
    exec(compile(block.replace(line, ""), "program", "exec", dont_inherit=True), names)
    async with names["jobs"] as jobs, working(jobs):
        await dead(jobs, "thumbnail", path="a.png")
    assert [event["tags"]["job_type"] for event in events] == ["thumbnail"]
