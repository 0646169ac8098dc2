"""Traces and run times for OpenTelemetry, by the conventions for messaging; the extra `otel`.

    jobs.middleware(Tracing())

An enqueue is a PRODUCER span, whose context travels with its jobs as the header `traceparent`. A job's first attempt is
its child. Each further one begins a trace of its own that is linked to it: it may run days later, when the first trace
has long been stored.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from opentelemetry import metrics, trace
from opentelemetry.context import Context
from opentelemetry.propagate import get_global_textmap
from opentelemetry.propagators.textmap import TextMapPropagator
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode

from queue_core.client.context import JobContext
from queue_core.client.middleware import Middleware
from queue_core.errors import InvalidJob
from queue_core.model.job import NewJob
from queue_core.model.retry import Reschedule
from queue_core.model.signature import class_name, message_of, readable
from queue_core.model.text import safe
from queue_core.model.validation import check_headers

NAME = "queue_core"
"""The name of the tracer and the meter, and `messaging.system`."""
DURATION_BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""Seconds; the bounds that the conventions advise, and some more, as jobs run longer than messages."""


class Tracing(Middleware):
    """Makes spans of enqueues and attempts, and a histogram of run times with exemplars.

    `tracer_provider`, `meter_provider`, `propagator`: the global ones when left out, as they are when a job comes.
    Without a provider nothing is recorded; the header of a trace that began elsewhere is passed on all the same.
    """

    def __init__(
        self,
        tracer_provider: trace.TracerProvider | None = None,
        meter_provider: metrics.MeterProvider | None = None,
        propagator: TextMapPropagator | None = None,
    ) -> None:
        self._tracer = trace.get_tracer(NAME, tracer_provider=tracer_provider)
        meter = metrics.get_meter(NAME, meter_provider=meter_provider)
        self._run_time = meter.create_histogram(
            "messaging.process.duration",
            unit="s",
            description="Duration of processing operation.",
            explicit_bucket_boundaries_advisory=DURATION_BOUNDS,
        )
        self._propagator = propagator

    async def before_enqueue(self, jobs: Sequence[NewJob]) -> None:
        """Make a span of the call, and give its context to the jobs that have none of their own."""
        if not jobs:
            return
        first = jobs[0]
        with self._tracer.start_as_current_span(
            f"send {first.queue}", kind=SpanKind.PRODUCER, attributes=_attributes("send", first.queue, first.type)
        ) as span:
            if span.is_recording():
                if len(jobs) == 1:
                    span.set_attribute("messaging.message.id", first.id)
                else:
                    span.set_attribute("messaging.batch.message_count", len(jobs))
            if not span.get_span_context().is_valid:
                return
            carrier: dict[str, str] = {}
            self._carry().inject(carrier)
        for job in jobs:
            _give(job, carrier)

    async def around_run(self, ctx: JobContext, call: Callable[[], Awaitable[Any]]) -> Any:
        """Make a span of the attempt, and record how long it ran."""
        parent, links = self._origin(ctx.headers, first=ctx.attempt == 1)
        attributes = _attributes("process", ctx.queue, ctx.type)
        own = {
            "messaging.message.id": ctx.job_id,
            "messaging.client.id": ctx.worker,
            "queue_core.job.attempt": ctx.attempt,
        }
        started = time.perf_counter()
        with self._tracer.start_as_current_span(
            f"process {ctx.queue}",
            context=parent,
            kind=SpanKind.CONSUMER,
            attributes=attributes | own,
            links=links,
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            failed = ""
            try:
                return await call()
            except BaseException as error:
                failed = _note(span, error, ctx.stopping)
                raise
            finally:
                if failed:
                    attributes["error.type"] = failed
                # Within the span, so that it is the exemplar's.
                self._run_time.record(time.perf_counter() - started, attributes)

    def _carry(self) -> TextMapPropagator:
        return self._propagator or get_global_textmap()

    def _origin(self, headers: Mapping[str, str], first: bool) -> tuple[Context, list[Link]]:
        """Return the context of an attempt's span and its links."""
        if not headers:
            return Context(), []
        context = self._carry().extract(headers, Context())
        producer = trace.get_current_span(context).get_span_context()
        if first or not producer.is_valid:
            return context, []
        return Context(), [Link(producer)]


def _attributes(operation: str, queue: str, type_: str) -> dict[str, Any]:
    return {
        "messaging.system": NAME,
        "messaging.operation.name": operation,
        "messaging.operation.type": operation,
        "messaging.destination.name": queue,
        "queue_core.job.type": type_,
    }


def _give(job: NewJob, carrier: Mapping[str, str]) -> None:
    """Add headers that the job does not have; where there is no room for them, it goes without: it is worth more."""
    with suppress(InvalidJob):
        check_headers({**carrier, **job.headers})
        for name, value in carrier.items():
            job.headers.setdefault(name, value)


def _note(span: Span, error: BaseException, stopping: str) -> str:
    """Note on a span how its attempt ended early; return the kind of its failure, or "" where it did not fail."""
    if isinstance(error, Reschedule):
        span.set_attribute("queue_core.job.outcome", "rescheduled")
        return ""
    if isinstance(error, asyncio.CancelledError) and stopping and stopping not in {"timeout", "soft_timeout"}:
        span.set_attribute("queue_core.job.outcome", stopping)
        return ""
    late = isinstance(error, asyncio.CancelledError) and bool(stopping)
    failed = "timeout" if late else class_name(error)
    span.set_attribute("error.type", failed)
    span.set_status(Status(StatusCode.ERROR, safe(message_of(error))))
    try:
        span.record_exception(error)
    except BaseException:  # noqa: BLE001 - a job's own class, which may raise anything
        span.record_exception(readable(error))
    return failed
