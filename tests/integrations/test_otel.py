"""Spans of enqueues and attempts as an in-memory exporter gets them, and the histogram of run times."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import HistogramDataPoint, InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from queue_core import JobContext, JobFailed, JobQueue, Reschedule, Retry
from queue_core.integrations.otel import Tracing
from tests.conformance.working import PATIENCE, until_status, working
from tests.examples.blocks import blocks
from tests.hostile import Nameless


class Recorded:
    """A queue object in memory with traces and metrics of its own."""

    def __init__(self) -> None:
        self.jobs = JobQueue(memory=True)
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self._reader = InMemoryMetricReader()
        self.jobs.middleware(Tracing(self.provider, MeterProvider([self._reader])))

    def spans(self, name: str) -> list[ReadableSpan]:
        """Return the ended spans of this name in the order of their starts."""
        found = [span for span in self._exporter.get_finished_spans() if span.name == name]
        return sorted(found, key=lambda span: span.start_time or 0)

    def run_times(self) -> list[HistogramDataPoint]:
        data = self._reader.get_metrics_data()
        assert data is not None
        (metric,) = data.resource_metrics[0].scope_metrics[0].metrics
        assert (metric.name, metric.unit) == ("messaging.process.duration", "s")
        return list(metric.data.data_points)  # type: ignore[arg-type]


@pytest.fixture
def recorded() -> Recorded:
    return Recorded()


async def test_a_first_attempt_is_a_child_and_retries_are_linked_roots(recorded: Recorded) -> None:
    jobs = recorded.jobs

    @jobs.task(queue="images", retry=Retry(max_retries=2, delay=0))
    async def thumbnail(ctx: JobContext) -> None:
        with recorded.provider.get_tracer("app").start_as_current_span("decode"):
            if ctx.attempt < 3:
                raise ValueError("no \x1b image")

    async with jobs, working(jobs) as worker:
        with recorded.provider.get_tracer("app").start_as_current_span("request") as request:
            handle = await thumbnail.enqueue()
        await handle.result(PATIENCE)
        headers = (await jobs.inspector.get(handle.id)).headers
    (sent,) = recorded.spans("send images")
    first, second, third = recorded.spans("process images")
    assert sent.kind is SpanKind.PRODUCER
    assert sent.parent is not None
    assert sent.parent.span_id == request.get_span_context().span_id
    assert headers.keys() == {"traceparent"}
    assert headers["traceparent"].startswith(f"00-{sent.context.trace_id:032x}-{sent.context.span_id:016x}-")
    assert first.kind is SpanKind.CONSUMER
    assert first.parent is not None
    assert (first.parent.span_id, first.context.trace_id) == (sent.context.span_id, sent.context.trace_id)
    assert first.links == ()
    for later in (second, third):
        assert later.parent is None
        assert [link.context.span_id for link in later.links] == [sent.context.span_id]
    assert len({span.context.trace_id for span in (first, second, third)}) == 3
    assert dict(third.attributes or {}) == {
        "messaging.system": "queue_core",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": "images",
        "messaging.message.id": handle.id,
        "messaging.client.id": worker.id,
        "queue_core.job.type": "thumbnail",
        "queue_core.job.attempt": 3,
    }
    assert [span.status.status_code for span in (first, third)] == [StatusCode.ERROR, StatusCode.UNSET]
    assert first.status.description == "no ␛ image"
    assert (first.attributes or {})["error.type"] == "ValueError"
    assert [event.name for event in first.events] == ["exception"]
    inner = recorded.spans("decode")
    assert [span.parent and span.parent.span_id for span in inner] == [
        span.context.span_id for span in (first, second, third)
    ]


async def test_run_times_have_exemplars(recorded: Recorded) -> None:
    jobs = recorded.jobs

    @jobs.task(retry=Retry(max_retries=0))
    def work(fails: bool) -> None:
        if fails:
            raise OSError

    async with jobs, working(jobs):
        done, failed = await work.enqueue(False), await work.enqueue(True)
        await done.result(PATIENCE)
        with pytest.raises(JobFailed):
            await failed.result(PATIENCE)
    points = {(point.attributes or {}).get("error.type"): point for point in recorded.run_times()}
    assert points.keys() == {None, "OSError"}
    spans = {span.context.span_id: span for span in recorded.spans("process default")}
    for point in points.values():
        assert point.count == 1
        (exemplar,) = point.exemplars
        assert exemplar.span_id in spans
        assert (point.attributes or {})["queue_core.job.type"] == "work"


async def test_a_list_is_one_span(recorded: Recorded) -> None:
    """What a caller has given stays, and so does a job that has no room for another header."""
    jobs = recorded.jobs
    full = {str(number): "" for number in range(32)}
    async with jobs:
        handles = await jobs.enqueue_many("any", [{}, {}])
        own = await jobs.enqueue("any", headers={"traceparent": "mine"})
        filled = await jobs.enqueue("any", headers=full)
        assert await jobs.enqueue_many("any", []) == []
        headers = [(await jobs.inspector.get(one.id)).headers for one in (*handles, own, filled)]
    many = recorded.spans("send default")[0]
    assert (many.attributes or {})["messaging.batch.message_count"] == 2
    assert headers[0] == headers[1]
    assert re.fullmatch(r"00-[0-9a-f]{32}-[0-9a-f]{16}-0[13]", headers[0]["traceparent"])
    assert headers[2:] == [{"traceparent": "mine"}, full]


async def test_an_attempt_that_was_stopped_did_not_fail(recorded: Recorded) -> None:
    jobs = recorded.jobs
    started = asyncio.Event()

    @jobs.task(timeout=0)
    async def forever() -> None:
        started.set()
        await asyncio.sleep(600)

    @jobs.task(retry=Retry(max_retries=0), timeout=0.1)
    async def late() -> None:
        await asyncio.sleep(600)

    @jobs.task
    async def again(ctx: JobContext) -> None:
        raise Reschedule(delay=3600)

    async with jobs, working(jobs):
        cancelled = await forever.enqueue()
        await asyncio.wait_for(started.wait(), PATIENCE)
        await jobs.cancel(cancelled.id)
        with pytest.raises(JobFailed):
            await (await late.enqueue()).result(PATIENCE)
        rescheduled = await again.enqueue()
        await until_status(jobs, rescheduled.id, "scheduled")
        await until_status(jobs, cancelled.id, "cancelled")
    found = {}
    for span in recorded.spans("process default"):
        attributes: dict[str, Any] = dict(span.attributes or {})
        ended = (attributes.get("error.type"), attributes.get("queue_core.job.outcome"))
        found[attributes["queue_core.job.type"]] = (*ended, span.status.status_code)
    assert found == {
        "forever": (None, "cancel", StatusCode.UNSET),
        "late": ("timeout", None, StatusCode.ERROR),
        "again": (None, "rescheduled", StatusCode.UNSET),
    }


async def test_a_class_that_does_not_answer_what_it_is_called_is_named_all_the_same(recorded: Recorded) -> None:
    jobs = recorded.jobs

    @jobs.task(retry=Retry(max_retries=0))
    async def hostile() -> None:
        raise Nameless("the disk is full")

    async with jobs, working(jobs):
        with pytest.raises(JobFailed, match="Nameless: the disk is full"):
            await (await hostile.enqueue()).result(PATIENCE)
    (span,) = recorded.spans("process default")
    assert (span.attributes or {})["error.type"] == "tests.hostile.Nameless"
    assert span.status.description == "the disk is full"
    assert [event.name for event in span.events] == ["exception"]


async def test_without_a_provider_nothing_is_added() -> None:
    jobs = JobQueue(memory=True)
    jobs.middleware(Tracing(trace.NoOpTracerProvider()))

    @jobs.task
    async def read(ctx: JobContext) -> dict[str, str]:
        return ctx.headers

    async with jobs, working(jobs):
        assert await (await read.enqueue()).result(PATIENCE) == {}


async def test_the_program_of_the_documentation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOBS__QUEUE_BACKEND", "memory")
    exporter = InMemorySpanExporter()
    (block,) = blocks("tracing.md", "## OpenTelemetry")
    names: dict[str, Any] = {"exporter": exporter}
    block = re.sub(r"^from opentelemetry\.exporter.*\n", "", block, flags=re.MULTILINE)
    block = block.replace("OTLPSpanExporter()", "exporter")
    exec(compile(block, "program", "exec", dont_inherit=True), names)
    async with names["jobs"] as jobs, working(jobs):
        await (await names["thumbnail"].enqueue(path="a.png")).result(PATIENCE)
    # The lifespan has sent what was gathered.
    assert {span.name for span in exporter.get_finished_spans()} == {"send images", "process images"}
