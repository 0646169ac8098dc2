"""`jobconsole job enqueue`: new jobs from options, a file or a stream, checked against the schema of their type."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from math import isinf
from typing import TYPE_CHECKING, Any, NoReturn

from jobconsole.actions.schema import SchemaUnusable, validate_payload
from jobconsole.cli.failures import DONE, UsageError, warn
from jobconsole.cli.output import Output
from jobconsole.cli.parser import Parser, add_change, whole
from jobconsole.cli.session import check_target, settings_of
from jobconsole.format.humanize import duration as length
from jobconsole.format.humanize import plural
from jobconsole.present.facts import moment
from jobconsole.settings import queue_of
from queue_core.client.middleware import Middleware
from queue_core.errors import InvalidJob, QueueCoreError, StoreUnavailable
from queue_core.model.codec import distinct, long_number
from queue_core.model.text import safe

if TYPE_CHECKING:
    from queue_core.model.job import NewJob
    from queue_core.ports.inspector import Inspector
    from queue_core.queue import JobQueue


class PayloadCheck(Middleware):
    """Refuses jobs whose payload does not fit; a type of which nothing was announced takes every payload."""

    def __init__(self, inspector: Inspector) -> None:
        self._inspector = inspector

    async def before_enqueue(self, jobs: Sequence[NewJob]) -> None:
        """Validate each payload, after everything else about the jobs has been found good.

        Raises:
            InvalidJob: the sentence names the parameters.
            StoreUnavailable: the schema cannot be read.
        """
        types = await self._inspector.types()
        for job in jobs:
            if job.type not in types:
                continue
            try:
                wrong = validate_payload(types[job.type].schema, json.loads(job.payload))
            except SchemaUnusable as error:
                warn(f"the schema that was announced for the type '{job.type}' cannot be used: {error}")
                continue
            if wrong:
                text = "; ".join(wrong)
                raise InvalidJob(
                    f"the payload does not fit the type '{job.type}': {text}; nothing was enqueued "
                    "(--no-check enqueues it all the same)"
                )


class DryRunEnd(QueueCoreError):
    """A job was found good and is not enqueued: this was only a rehearsal."""

    def __init__(self, job: NewJob) -> None:
        super().__init__(f"a rehearsal of {job.type}")
        self.job = job


class DryRun(Middleware):
    """Stops a job after everything about it has been checked; the hooks before this one have seen it, too."""

    async def before_enqueue(self, jobs: Sequence[NewJob]) -> None:
        """Enqueue nothing.

        Raises:
            DryRunEnd: it carries the job.
        """
        raise DryRunEnd(jobs[0])


_ESCAPED = 6
"""A character takes at most so many bytes more as a JSON escape."""

_KINDS = {
    list: "an array",
    str: "a text",
    int: "a number",
    float: "a number",
    bool: "true or false",
    type(None): "null",
}


def add_arguments(verb: Parser) -> None:
    """Declare the options."""
    verb.add_argument("type", metavar="TYPE", help="the task's name")
    verb.add_argument(
        "payload", nargs="?", default="{}", metavar="JSON", help="an object of parameter names; - reads it"
    )
    verb.add_argument("--queue", metavar="NAME", help="(default: default)")
    verb.add_argument("--priority", metavar="P", help="-128 to 127, or low, normal, high, urgent (default normal)")
    verb.add_argument("--delay", metavar="T", help="due after this time, as in 5m")
    verb.add_argument("--at", metavar="TIME", help="due at this time with its zone, as in 2030-01-31T09:00:00+01:00")
    verb.add_argument("--tag", action="append", default=[], metavar="NAME", help="may be given several times")
    verb.add_argument(
        "--header", action="append", default=[], metavar="NAME=TEXT", help="for the handler; may be given several times"
    )
    verb.add_argument("--ordering-key", metavar="KEY", help="one at a time and in order with the jobs of this key")
    verb.add_argument("--unique", metavar="KEY", help="no second one of this type while the first is unfinished")
    verb.add_argument("--unique-for", metavar="T", help="with --unique: for this time, whatever becomes of the first")
    verb.add_argument("--max-retries", type=whole(0, 1000), metavar="N", help="further attempts after the first")
    verb.add_argument("--strict", action="store_true", help="refuse a type that no live worker announces")
    verb.add_argument("--no-check", action="store_true", help="enqueue a payload that does not fit the type's schema")
    add_change(verb, why=False)


def run(options: argparse.Namespace, output: Output) -> int:
    """Enqueue one job.

    Raises:
        InvalidJob, UsageError, ReadOnly, StoreUnavailable, SchemaError: nothing was written.
    """
    import asyncio

    settings = settings_of(options)
    if not options.dry_run:
        check_target(settings, "job enqueue")
    payload = _payload(options.payload, settings.jobs.limits.payload)
    run_at = None if options.at is None else _time(options.at)

    async def enqueue() -> int:
        jobs = queue_of(settings)
        try:
            return await _enqueue(jobs, options, output, payload, run_at)
        finally:
            await jobs.close()

    return asyncio.run(enqueue())


async def _enqueue(
    jobs: JobQueue, options: argparse.Namespace, output: Output, payload: Any, run_at: datetime | None
) -> int:
    if options.strict:
        await jobs.open()
        await _check_type(jobs, options.queue or "default", options.type)
    if not options.no_check:
        jobs.middleware(PayloadCheck(jobs.inspector))
    if options.dry_run:
        jobs.middleware(DryRun())
    # Not opened before: an error in the job is reported even when no server answers.
    try:
        handle = await jobs.enqueue(
            options.type,
            payload,
            queue=options.queue,
            priority=options.priority,
            delay=options.delay,
            run_at=run_at,
            max_retries=options.max_retries,
            tags=options.tag,
            headers=_headers(options.header),
            ordering_key=options.ordering_key,
            unique=options.unique,
            unique_for=options.unique_for,
        )
    except DryRunEnd as rehearsed:
        return await _report_dry_run(jobs, options, output, rehearsed.job)
    found = "was enqueued" if handle.created else "holds the unique key, and nothing was enqueued"
    output.note_change(f"job {handle.id} {found}")
    if output.as_json:
        output.json({"id": handle.id, "queue": handle.queue, "type": handle.type, "created": handle.created})
    else:
        output.line(handle.id)
    # The job is enqueued: its id must be written even if the question below fails.
    output.flush()
    if not handle.created:
        warn("nothing was enqueued: this is the job that holds the unique key")
        return DONE
    await _warn_of_no_worker(jobs, options, handle.queue)
    return DONE


def _headers(texts: Sequence[str]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if not separator:
            raise UsageError(f"--header is NAME=TEXT, not '{text}'")
        if name in headers:
            raise UsageError(f"--header {name}=… is given twice")
        headers[name] = value
    return headers


async def _report_dry_run(jobs: JobQueue, options: argparse.Namespace, output: Output, job: NewJob) -> int:
    """Report what would have been enqueued; what only the store decides, a limit or a unique key, is not known."""
    if output.as_json:
        body = job._asdict() | {"payload": json.loads(job.payload), "run_at": _moment(job.run_at)}
        output.json({"dry_run": True, "job": {name: value for name, value in body.items() if name != "id"}})
    else:
        due = (
            f", due {moment(_moment(job.run_at))}"
            if job.run_at
            else f", due after {length(job.delay)}"
            if job.delay
            else ""
        )
        tags = f", tags {', '.join(job.tags)}" if job.tags else ""
        where = f"in queue {job.queue} with priority {job.priority}{due}, {plural(job.max_retries, 'retry', 'retries')}"
        output.line(safe(f"would enqueue {job.type} {where}{tags}", 1_000))
        output.line(safe(job.payload, 2_000))
    await jobs.open()
    await _warn_of_no_worker(jobs, options, job.queue)
    return DONE


def _moment(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)


async def _warn_of_no_worker(jobs: JobQueue, options: argparse.Namespace, queue: str) -> None:
    if options.strict:
        return
    announced = True
    with suppress(StoreUnavailable):  # what was asked for is done
        announced = await _announced(jobs, queue, options.type)
    if not announced:
        unannounced = f"no live worker of queue '{queue}' announces the type '{options.type}'"
        warn(f"{unannounced}; the job waits until one does")


async def _announced(jobs: JobQueue, queue: str, type_: str) -> bool:
    overview = await jobs.inspector.overview()
    return any(worker.runs(queue, type_) for worker in overview.workers)


async def _check_type(jobs: JobQueue, queue: str, type_: str) -> None:
    if not await _announced(jobs, queue, type_):
        raise UsageError(f"no live worker of queue '{queue}' announces the type '{type_}'; nothing was enqueued")


def _payload(argument: str, limit: int) -> dict[str, Any]:
    text = argument
    if argument == "-":
        text = sys.stdin.read(limit * _ESCAPED + 1)
        if len(text) > limit * _ESCAPED:
            raise InvalidJob(f"the payload has more than {limit * _ESCAPED:,} bytes; the limit is {limit:,}")
    return checked_object(_decoded(text))


def checked_object(payload: Any) -> dict[str, Any]:
    """Return a payload that is a JSON object.

    Raises:
        InvalidJob: it is something else.
    """
    if not isinstance(payload, dict):
        raise InvalidJob(f"the payload must be a JSON object of parameter names, not {_KINDS[type(payload)]}")
    return payload


def _decoded(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_no_constant, parse_float=_finite, object_pairs_hook=_distinct)
    except RecursionError:
        raise InvalidJob("the payload is not JSON: it is nested too deeply") from None
    except json.JSONDecodeError as error:
        where = f"line {error.lineno} column {error.colno}"
        raise InvalidJob(f"the payload is not JSON: {error.msg} at {where}") from None
    except InvalidJob:
        raise
    except ValueError:  # Python's advice is one for programs
        raise InvalidJob(f"the payload holds {long_number()}") from None


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    try:
        return distinct(pairs)
    except InvalidJob as error:
        raise InvalidJob(f"the payload: {error}") from None


def _finite(text: str) -> float:
    value = float(text)
    if isinf(value):
        raise InvalidJob(f"the payload holds a number that is too large: {safe(text, 40)}")
    return value


def _no_constant(name: str) -> NoReturn:
    raise InvalidJob(f"the payload is not JSON: {name} has no JSON form")


def _time(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise InvalidJob(f"'{text}' is no time; write it as in 2030-01-31T09:00:00+01:00") from None
