"""The queue object of the demo and the ledger that its handlers write."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, wraps
from typing import Any, TypeVar, cast

from jobconsole.demo.folder import here
from jobconsole.demo.ledger import LedgerWriter
from queue_core import JobContext, JobQueue
from queue_core.errors import StaleLease

Handler = TypeVar("Handler", bound=Callable[..., Any])

jobs = JobQueue.from_settings()


@cache
def ledger() -> LedgerWriter:
    """Return this process's ledger."""
    return LedgerWriter(here().ledger)


def recorded(handler: Handler) -> Handler:
    """Write each start and each end of a handler into the ledger; its first argument is the context."""
    if inspect.iscoroutinefunction(handler):

        @wraps(handler)
        async def run_async(ctx: JobContext, *args: Any, **kwargs: Any) -> Any:
            with _attempt(ctx):
                return await handler(ctx, *args, **kwargs)

        return cast(Handler, run_async)

    @wraps(handler)
    def run(ctx: JobContext, *args: Any, **kwargs: Any) -> Any:
        with _attempt(ctx):
            return handler(ctx, *args, **kwargs)

    return cast(Handler, run)


class _Refusals(logging.Handler):
    """Notes the writes that the store has refused: the worker logs each with its error."""

    def emit(self, record: logging.LogRecord) -> None:
        """Take one record of the worker's log."""
        for argument in record.args if isinstance(record.args, tuple) else ():
            if isinstance(argument, StaleLease):
                ledger().refused(argument.job_id, argument.token)


logging.getLogger("queue_core.worker").addHandler(_Refusals())


@contextmanager
def _attempt(ctx: JobContext) -> Iterator[None]:
    ledger().start(ctx.job_id, ctx.token, ctx.worker)
    try:
        yield
    except BaseException as problem:
        ledger().fail(ctx.job_id, ctx.token, type(problem).__qualname__)
        raise
    ledger().end(ctx.job_id, ctx.token)
