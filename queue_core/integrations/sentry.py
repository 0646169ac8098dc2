"""Reports of dead jobs to Sentry, grouped as the console groups them; the extra `sentry`.

    jobs.middleware(Reports(context="prod"))

A death is one event: its fingerprint is the job's error signature, so that an issue there is a group of the DLQ here.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any
from urllib.parse import quote

import sentry_sdk
from sentry_sdk.integrations.logging import ignore_logger
from sentry_sdk.utils import event_from_exception

from queue_core.client.context import JobContext
from queue_core.client.logs import logger
from queue_core.client.middleware import Middleware, SettledJob
from queue_core.model.retry import Reschedule, RetryLater

LINK = "jobconsole://"
MAX_WAITING_EXCEPTIONS = 1000
"""Exceptions of failed attempts that wait for the end of their attempt to be stored; the oldest go first."""


class Reports(Middleware):
    """Sends an event for each death, and marks what handlers send by themselves with the ids of their job.

    `every`: also for failed attempts that are retried, as warnings. `context`: the console's name of this place, for
    the links; without one, a link opens at the place where the reader is.
    """

    def __init__(self, *, every: bool = False, context: str = "") -> None:
        self._every = every
        self._context = context
        # by job and token
        self._raised: OrderedDict[tuple[str, int], BaseException] = OrderedDict()
        # Its lines are about the same deaths.
        ignore_logger(logger.name)

    async def around_run(self, ctx: JobContext, call: Callable[[], Awaitable[Any]]) -> Any:
        """Run the handler in a scope of its own, and keep its exception until the end of the attempt is stored."""
        with sentry_sdk.isolation_scope() as scope:
            scope.set_transaction_name(ctx.type)
            for name, value in _tags(ctx.job_id, ctx.type, ctx.queue).items():
                scope.set_tag(name, value)
            scope.set_tag("attempt", ctx.attempt)
            scope.set_tag("worker", ctx.worker)
            try:
                return await call()
            except (Reschedule, asyncio.CancelledError):
                raise
            except BaseException as error:
                own = error.__cause__ if isinstance(error, RetryLater) else None
                self._raised[ctx.job_id, ctx.token] = own or error
                if len(self._raised) > MAX_WAITING_EXCEPTIONS:
                    self._raised.popitem(last=False)
                raise

    async def after_settle(self, job: SettledJob) -> None:
        """Send a death, or a failed attempt."""
        raised = self._raised.pop((job.id, job.token), None)
        if job.error is None or (job.outcome != "dead" and not self._every):
            return
        event, hint = self._event(job, raised)
        with sentry_sdk.new_scope() as scope:
            scope.set_transaction_name(job.type)
            sentry_sdk.capture_event(event, hint)

    def _event(self, job: SettledJob, raised: BaseException | None) -> tuple[Any, Any]:
        options = sentry_sdk.get_client().options
        # In another process, by its time limit, or with its process: what is stored is all there is.
        event: Any = {"message": job.error, "extra": {"traceback": job.traceback}}
        hint: Any = {}
        if raised is not None:
            mechanism = {"type": "queue_core", "handled": False}
            # A job's own class may raise anything where its names are read.
            with suppress(BaseException):
                event, hint = event_from_exception(raised, client_options=options, mechanism=mechanism)
        event["level"] = "error" if job.outcome == "dead" else "warning"
        event["logger"] = logger.name
        if job.signature:
            event["fingerprint"] = [job.signature]
        event["tags"] = _tags(job.id, job.type, job.queue) | {"signature": job.signature or "", "outcome": job.outcome}
        event["contexts"] = {
            **event.get("contexts", {}),
            "job": {
                "id": job.id,
                "run": round(job.run, 3),
                "open": self._link(f"job/{job.id}"),
                "open group": self._link(f"signature/{job.signature}") if job.signature else None,
            },
        }
        return event, hint

    def _link(self, place: str) -> str:
        return f"{LINK}{quote(self._context, safe='')}/{place}"


def _tags(job_id: str, type_: str, queue: str) -> dict[str, str]:
    return {"job_id": job_id, "job_type": type_, "queue": queue}
