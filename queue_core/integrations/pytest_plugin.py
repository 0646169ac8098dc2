"""A pytest plugin: queues in memory, whose due jobs run on the test's call, and assertions on what was enqueued.

Every run of pytest where this package is installed loads this module, so it imports nothing of the queue by itself.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from queue_core.blocking.client import BlockingQueue
    from queue_core.client.tasks import Duration, Task
    from queue_core.model.job import Job
    from queue_core.model.settings import JobsSettings
    from queue_core.queue import JobQueue
    from queue_core.testing import InProcess

MAX_ASSERTED_JOBS = 1000
"""Jobs of a test that assertions read."""
IDLE_TICK = 0.02
"""Seconds between two checks whether a worker on a real store has run everything that was due."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of this plugin."""
    group = parser.getgroup("jobs", "job queue")
    group.addoption(
        "--jobs-store",
        metavar="URL",
        help="run jobs_inline on a real store: postgresql://…, redis://… or sqlite (default: in memory)",
    )
    parser.addini("jobs_store", "the default of --jobs-store")
    parser.addini("jobs_queue", "the queue object of the fixture jobs_queue, as package.module:jobs")


def pytest_configure(config: pytest.Config) -> None:
    """Refuse a store that cannot be, once and before any test."""
    if url := _store_of(config):
        from queue_core.errors import ConfigurationError

        try:
            _settings_of(url, "jobs_test", Path("jobs.db"))
        except ConfigurationError as error:
            raise pytest.UsageError(f"--jobs-store: {error}") from None


def _store_of(config: pytest.Config) -> str:
    return str(config.getoption("--jobs-store") or config.getini("jobs_store") or "")


@pytest.fixture
def jobs_queue(request: pytest.FixtureRequest) -> JobQueue:
    """The queue object under test: that of the ini value `jobs_queue`, else a new one. A conftest may override it."""
    from queue_core.queue import JobQueue

    target = request.config.getini("jobs_queue")
    if not target:
        return JobQueue(memory=True)
    from queue_core.worker.process import load_target

    return load_target(target)


@pytest.fixture
def jobs_inline(
    request: pytest.FixtureRequest, jobs_queue: JobQueue, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[InlineJobs]:
    """The queue object in memory, or on the store of `--jobs-store`, empty; its jobs run on the test's call."""
    url = _store_of(request.config)
    with ExitStack() as stack:
        if not url:
            yield stack.enter_context(_in_memory(jobs_queue))
            return
        from queue_core.errors import QueueCoreError

        worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
        name = f"{worker}_{uuid.uuid4().hex[:8]}"
        try:
            settings = stack.enter_context(own_store(url, name, tmp_path_factory.mktemp("jobs")))
            inline = stack.enter_context(_on_store(jobs_queue, settings))
        except QueueCoreError as error:
            raise pytest.fail.Exception(f"--jobs-store: {error}", pytrace=False) from None
        yield inline


@pytest.fixture
def assert_enqueued(jobs_inline: InlineJobs) -> Callable[..., Job]:
    """See `InlineJobs.assert_enqueued`."""
    return jobs_inline.assert_enqueued


@pytest.fixture
def refute_enqueued(jobs_inline: InlineJobs) -> Callable[..., None]:
    """See `InlineJobs.refute_enqueued`."""
    return jobs_inline.refute_enqueued


@pytest.fixture
def run_due(jobs_inline: InlineJobs) -> Callable[..., Any]:
    """See `InlineJobs.run_due`."""
    return jobs_inline.run_due


class InlineJobs:
    """What a test does with the queue object: run what is due, let time pass, look at what was enqueued."""

    def __init__(self, jobs: JobQueue, runs: InProcess | StoreRuns, read: Callable[[], list[Job]]) -> None:
        self.jobs = jobs
        self._runs = runs
        self._read = read

    async def run_due(self, most: int = MAX_ASSERTED_JOBS) -> int:
        """Run every job that is due, those included that these enqueue; return how many attempts ran.

        Raises:
            RuntimeError: more than `most` ran, so that there seems to be no end.
        """
        return await self._runs.run_due(most)

    def run_due_now(self, most: int = MAX_ASSERTED_JOBS) -> int:
        """Do the same in a test that is a plain function.

        Raises:
            RuntimeError: this is an async test, which awaits `run_due()`; or as there.
        """
        import asyncio

        from queue_core.blocking.guard import running_loop

        if running_loop() is not None:
            raise RuntimeError("run_due_now() is for plain tests; in an async one it is: await jobs_inline.run_due()")
        return asyncio.run(self._runs.run_due(most))

    def advance(self, time: Duration) -> None:
        """Let this much time pass for the jobs in memory: seconds, "1h" or a timedelta; nothing runs before `run_due`.

        Raises:
            InvalidArgument: it is no duration.
            RuntimeError: a real store has a clock of its own.
        """
        self._runs.advance(time)

    def enqueued(self) -> list[Job]:
        """Return the jobs that were enqueued in this test, the first one first, those included that have run."""
        return self._read()

    def assert_enqueued(
        self,
        task: Task[..., Any] | str,
        payload: Mapping[str, Any] | None = None,
        *,
        count: int | None = None,
        **facts: Any,
    ) -> Job:
        """Return the job that was enqueued of a task, or of a type by its name, with these values in its payload.

        `facts` are attributes of the job, such as queue="mail", priority="high", tags=("x",), ordering_key="a". Of
        several that match it is the first; `count` is how many have to.

        Raises:
            AssertionError: none does, or not so many; the sentence has the difference of the nearest one.
        """
        __tracebackhide__ = True
        if count == 0:
            raise TypeError("assert_enqueued expects a job: refute_enqueued expects none")
        type_, wanted = _wanted(task, payload, facts)
        jobs = [job for job in self._read() if job.type == type_]
        found = [job for job in jobs if not differences(job, wanted)]
        if not found or (count is not None and len(found) != count):
            raise AssertionError(_missing(type_, wanted, jobs, len(found), count, self._read()))
        return found[0]

    def refute_enqueued(
        self, task: Task[..., Any] | str, payload: Mapping[str, Any] | None = None, **facts: Any
    ) -> None:
        """Make sure that no such job was enqueued; see `assert_enqueued`.

        Raises:
            AssertionError: one was.
        """
        __tracebackhide__ = True
        type_, wanted = _wanted(task, payload, facts)
        found = [job for job in self._read() if job.type == type_ and not differences(job, wanted)]
        if found:
            raise AssertionError(
                f"{_spelled(type_, wanted)} was enqueued: job {found[0].id} in queue '{found[0].queue}', "
                f"payload {found[0].payload!r}" + (f" (and {len(found) - 1} more)" if len(found) > 1 else "")
            )


# What is compared: the values of the payload as "payload.path", and attributes of the job by their names.


def _wanted(task: Any, payload: Mapping[str, Any] | None, facts: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    from dataclasses import fields

    from pydantic_core import to_jsonable_python

    from queue_core.client.tasks import Task
    from queue_core.errors import InvalidArgument
    from queue_core.model.job import Job
    from queue_core.model.rules import parse_priority

    if not isinstance(task, Task | str):
        raise InvalidArgument(f"what was enqueued is named by a task or by its name, not {task!r}")
    if not isinstance(payload, Mapping | None):
        raise InvalidArgument(f"values of the payload go into a mapping such as {{'order': 7}}, not {payload!r}")
    known = {field.name for field in fields(Job)}
    if unknown := sorted(facts.keys() - known):
        raise TypeError(f"a job has no '{unknown[0]}'; values of its payload go into a mapping, as the second argument")
    if "priority" in facts:
        facts["priority"] = int(parse_priority(facts["priority"]))
    if "tags" in facts:
        facts["tags"] = tuple(facts["tags"])
    type_ = task if isinstance(task, str) else task.name
    # As payloads are stored: dates, enums, models and tuples have a JSON form.
    return type_, {f"payload.{name}": value for name, value in to_jsonable_python(payload or {}).items()} | facts


_ABSENT = object()


def differences(job: Job, wanted: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    """Return what a job has otherwise than wanted: the name, the job's value and the wanted one."""
    found = []
    for name, value in wanted.items():
        inside = name.removeprefix("payload.")
        has = getattr(job, name) if inside == name else (job.payload or {}).get(inside, _ABSENT)
        if has != value:
            found.append((name, has, value))
    return found


def _missing(
    type_: str, wanted: dict[str, Any], jobs: list[Job], found: int, count: int | None, every: list[Job]
) -> str:
    spelled = _spelled(type_, wanted)
    if found:
        return f"{spelled} was enqueued {'once' if found == 1 else f'{found} times'}, not {count}"
    if not jobs:
        others = sorted({job.type for job in every})
        return f"{spelled} was not enqueued; " + (f"enqueued were {', '.join(others)}" if others else "no job was")
    nearest = min(jobs, key=lambda job: len(differences(job, wanted)))
    lines = [
        f"  {name.removeprefix('payload.')}: {'nothing' if has is _ABSENT else repr(has)}, not {value!r}"
        for name, has, value in differences(nearest, wanted)
    ]
    return "\n".join([f"{spelled} was not enqueued; the nearest of {len(jobs)} has", *lines])


def _spelled(type_: str, wanted: dict[str, Any]) -> str:
    values = ", ".join(f"{name.removeprefix('payload.')}={value!r}" for name, value in wanted.items())
    return f"a job of '{type_}' with {values}" if values else f"a job of '{type_}'"


# Where the jobs are.


def _by_arrival(jobs: Iterable[Job]) -> list[Job]:
    return sorted(jobs, key=lambda job: (job.created_at, job.id))


@contextmanager
def _in_memory(jobs: JobQueue) -> Iterator[InlineJobs]:
    from queue_core.model.filters import parse
    from queue_core.stores.sql.callers import run_now

    testing = jobs.testing()
    run_now(testing.__aenter__())

    def read() -> list[Job]:
        return _by_arrival(run_now(jobs.inspector.jobs(parse(""), MAX_ASSERTED_JOBS)).jobs)

    try:
        yield InlineJobs(jobs, testing, read)
    finally:
        run_now(testing.__aexit__(None, None, None))


class StoreRuns:
    """Runs what is due on a real store, by a worker that ends when nothing is left to do."""

    def __init__(self, jobs: JobQueue) -> None:
        self._jobs = jobs

    async def run_due(self, most: int = MAX_ASSERTED_JOBS) -> int:
        """Run every job that is due; return how many attempts ran."""
        import asyncio

        from queue_core.client.middleware import Middleware, SettledJob
        from queue_core.worker.worker import Worker

        ran = 0

        class Counting(Middleware):
            async def after_settle(self, job: SettledJob) -> None:
                nonlocal ran
                ran += 1

        jobs = self._jobs
        counting = Counting()
        jobs.hooks.add(counting)
        worker = Worker(jobs, concurrency=1)
        running = asyncio.create_task(worker.run())
        try:
            while ran <= most and not await self._is_idle(worker.id):
                done, _ = await asyncio.wait([running], timeout=IDLE_TICK)
                if done:
                    break
        finally:
            worker.stop()
            await running
            jobs.hooks.remove(counting)
        if ran > most:
            raise RuntimeError(f"{most} jobs ran and more are due; does a job enqueue or reschedule itself for ever?")
        return ran

    async def _is_idle(self, worker: str) -> bool:
        """Return whether the worker is known to the store and has nothing to do, now."""
        jobs = self._jobs
        if all(one.id != worker for one in (await jobs.inspector.overview()).workers):
            return False
        due = await jobs.store.next_due()
        if (due is not None and due <= 0) or await jobs.count("status:running"):
            return False
        queues = [name for name, paused in (await jobs.store.queues()).items() if not paused]
        return not await jobs.store.list_claimable_in(queues, 1) and not await jobs.count("status:running")

    def advance(self, time: Duration) -> None:
        """Refuse: a real store has a clock of its own."""
        raise RuntimeError("a real store has a clock of its own: advance() is for jobs in memory")


@contextmanager
def _on_store(jobs: JobQueue, settings: JobsSettings) -> Iterator[InlineJobs]:
    from queue_core.queue import JobQueue
    from queue_core.runtime import is_served

    before = jobs.use(settings)
    reader: BlockingQueue
    with JobQueue(settings=settings).blocking() as reader:

        def read() -> list[Job]:
            return _by_arrival(reader.list(limit=MAX_ASSERTED_JOBS).jobs)

        try:
            yield InlineJobs(jobs, StoreRuns(jobs), read)
        finally:
            home = jobs.home
            if home is not None and not is_served(home):
                home.run_until_complete(jobs.close())
            jobs.use(before)


@contextmanager
def own_store(url: str, name: str, folder: Path) -> Iterator[JobsSettings]:
    """Give settings of a store of one test alone, which is gone afterwards: a schema, a prefix of keys, or a file."""
    from queue_core.backends import drop, migrate

    own = f"jobs_test_{name}"
    settings = _settings_of(url, own, folder / "jobs.db")
    migrate(settings)
    try:
        yield settings
    finally:
        drop(settings)


def _settings_of(url: str, name: str, path: Path) -> JobsSettings:
    """Return the settings of a store in a schema, a prefix or a file of this name.

    Raises:
        ConfigurationError: the address is none.
    """
    from queue_core.errors import ConfigurationError
    from queue_core.model.addresses import POSTGRES_SCHEMES, REDIS_SCHEMES, mask
    from queue_core.model.settings import settings_from

    scheme = url.partition(":")[0]
    if url == "sqlite":
        return settings_from(sqlite=path)
    if scheme in POSTGRES_SCHEMES:
        return settings_from(postgres=url, schema=name)
    if scheme in REDIS_SCHEMES:
        return settings_from(redis=url, prefix=f"{name}:")
    raise ConfigurationError(f"a store is postgresql://…, redis://… or sqlite, not '{mask(url)}'")
