"""JobQueue: the public face that composes a mode from settings."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar, Unpack, overload
from weakref import WeakSet

from queue_core.backends import Housed, open_backend
from queue_core.client.context import JobContext
from queue_core.client.effects import Effects
from queue_core.client.enqueue import Enqueuer
from queue_core.client.feed import EventFeed
from queue_core.client.finding.inspector import finding
from queue_core.client.health import Health, Stats, health, stats
from queue_core.client.joblist import JobList
from queue_core.client.lifespan import LifespanFunction, Lifespans
from queue_core.client.middleware import Hooks, Middleware
from queue_core.client.operating.filters import SavedFilters
from queue_core.client.operating.signatures import Signatures
from queue_core.client.operations import Operations, this_author
from queue_core.client.results import JobHandle, Results
from queue_core.client.schedules import Schedules
from queue_core.client.tasks import (
    NO_OPTIONS,
    Duration,
    EnqueueArguments,
    EnqueueOptions,
    Task,
    TaskArguments,
    TaskDecorator,
    TaskRegistry,
    define,
    known_options,
    task_options,
)
from queue_core.client.verbs import JobVerbs
from queue_core.delivery.pairing import Pairing
from queue_core.errors import ConfigurationError, QueueFull, StoreUnavailable, not_reduced
from queue_core.model.events import Event
from queue_core.model.job import Inserted, NewJob
from queue_core.model.retry import Retry
from queue_core.model.rules import Priority, PriorityName, QueueArguments, QueueRules, rules_from, rules_of
from queue_core.model.settings import JobsSettings, settings_from, with_release
from queue_core.model.states import Status
from queue_core.model.triage.rules import RuleBook
from queue_core.model.validation import (
    check_id,
    check_name,
    check_payloads,
    check_timeout,
    time_limits,
)
from queue_core.ports.backend import Backend
from queue_core.ports.delivery import Dispatcher, EventBus
from queue_core.ports.inspector import Inspector
from queue_core.ports.schedules import ScheduleStore
from queue_core.ports.store import JobStore

if TYPE_CHECKING:
    from queue_core.blocking.client import BlockingQueue
    from queue_core.testing import InProcess


P = ParamSpec("P")
R = TypeVar("R")
M = TypeVar("M", bound=Middleware)
F = TypeVar("F", bound=LifespanFunction)


class JobQueue(Housed, JobVerbs):
    """Put jobs in, register tasks, wait for results; `inspector` (reads) and `operations` (changes) are for operators.

    Addresses are given here, or everything comes from the configuration with `from_settings`:

        jobs = JobQueue(postgres="postgresql://app@db/app", redis="redis://localhost:6379/0")

    `release`: of this program, such as "r124", in place of the settings'; its workers announce it.

    Opening happens at the first use, or with `async with jobs:`. No global state: any number of objects in a process.
    """

    __reduce__ = not_reduced

    def __init__(
        self,
        *,
        postgres: str | None = None,
        schema: str | None = None,
        redis: str | None = None,
        prefix: str | None = None,
        sqlite: str | os.PathLike[str] | None = None,
        memory: bool = False,
        settings: JobsSettings | None = None,
        release: str | None = None,
    ) -> None:
        settings = settings or settings_from(
            postgres=postgres, schema=schema, redis=redis, prefix=prefix, sqlite=sqlite, memory=memory
        )
        self.settings = settings if release is None else with_release(settings, release)
        super().__init__()
        # queues that have rules from the program
        self._declared: set[str] = set()
        # what every new task passes through, once there is a blocking client; see queue_core.blocking.guard
        self.guard: Callable[[Task[Any, Any]], None] | None = None
        self.made: WeakSet[Task[Any, Any]] = WeakSet()
        self._compose(open_backend(self.settings), opened=False)
        self.tasks = TaskRegistry()
        self.hooks = Hooks()
        self.lifespans = Lifespans()
        self.schedules = Schedules(self)

    def _compose(self, backend: Backend, opened: bool) -> None:
        inspector = finding(backend.inspector, lambda: this_author().user, self._read_rules)
        self._backend = backend = backend._replace(inspector=inspector)
        self._open = opened
        self._home.renew()
        self._enqueuer = Enqueuer(backend, self.settings)
        self._results = Results(backend)
        self._manual = None
        # the workers on this backend, in this process
        self.workers: WeakSet[object] = WeakSet()
        self.operations = Operations(
            backend.operations, Effects(backend.dispatcher, backend.bus), backend.store, backend.inspector
        )
        rules = self.settings.triage
        self.signatures = Signatures(backend.inspector, backend.operations, self.operations, rules)
        self.filters = SavedFilters(backend.inspector, backend.operations, self.operations)

    async def _read_rules(self) -> RuleBook:
        return await self.signatures.rules()

    @classmethod
    def from_settings(cls, settings: JobsSettings | None = None) -> Self:
        """Return a queue made from these settings, or from the environment (`JOBS__…`) and the file (jobs.yaml).

        Raises:
            ConfigurationError: a setting is missing, unknown or contradictory.
        """
        if settings is None:
            from queue_core.configuration import load

            settings = load().settings
        return cls(settings=settings)

    @property
    def parts(self) -> Backend:
        """The parts of this queue's mode, whether they are open or not; `backend()` opens them."""
        return self._backend

    @property
    def store(self) -> JobStore:
        """The durable store's hot path."""
        return self._backend.store

    @property
    def inspector(self) -> Inspector:
        """What people and exporters ask of the store; it changes nothing."""
        return self._backend.inspector

    @property
    def schedule_store(self) -> ScheduleStore:
        """The store's schedules; `schedules` is for programs and operators."""
        return self._backend.schedules

    @property
    def dispatcher(self) -> Dispatcher | None:
        """The fast delivery path; None where the store alone delivers."""
        return self._backend.dispatcher

    @property
    def pairing(self) -> Pairing | None:
        """Whether Redis, or none, is the one that works with the database, where there is one."""
        return self._backend.pairing

    @property
    def bus(self) -> EventBus:
        """Lifecycle events."""
        return self._backend.bus

    @property
    def feed(self) -> EventFeed:
        """Lifecycle events for many readers of this process, which share one subscription."""
        return self._results.feed

    async def close(self) -> None:
        """Finish what is on its way and disconnect; doing it twice is safe."""
        with self._home.lock:
            if self._home.gone():
                self._reset()
        with self._home.closing():
            if self._manual is not None:
                await self._manual.close()
                self._manual = None
            await self._enqueuer.drain()
            await self._results.close()
            self._open = False
            try:
                await self._backend.close()
            finally:
                self._leave()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # -- tasks

    @overload
    def task(self, function: Callable[Concatenate[JobContext, P], Awaitable[R]], /) -> Task[P, R]: ...
    @overload
    def task(self, function: Callable[P, Awaitable[R]], /) -> Task[P, R]: ...
    @overload
    def task(self, function: Callable[Concatenate[JobContext, P], R], /) -> Task[P, R]: ...
    @overload
    def task(self, function: Callable[P, R], /) -> Task[P, R]: ...
    @overload
    def task(
        self,
        function: None = None,
        /,
        *,
        name: str | None = None,
        queue: str = "default",
        priority: int | PriorityName | Priority = Priority.NORMAL,
        retry: Retry | None = None,
        timeout: Duration | None = None,
        soft_timeout: Duration | None = None,
        process: bool = False,
        runbook: str | None = None,
    ) -> TaskDecorator: ...

    def task(  # noqa: PLR0913 - each is an option of a task
        self,
        function: Callable[..., Any] | None = None,
        /,
        *,
        name: str | None = None,
        queue: str = "default",
        priority: int | PriorityName | Priority = Priority.NORMAL,
        retry: Retry | None = None,
        timeout: Duration | None = None,
        soft_timeout: Duration | None = None,
        process: bool = False,
        runbook: str | None = None,
    ) -> Any:
        """Register a function, async or plain, as a task; plain ones run in threads.

        `timeout` is the attempt's time limit; 0 means none. After `soft_timeout` an async handler gets a
        SoftTimeLimitExceeded where it waits, and `ctx.stopping` is set. With `process` it runs in a child process:
        killing that fails its attempt and nothing else. A first parameter annotated `JobContext`, or named
        `ctx`, gets the context. `runbook`, such as an address, is where to read what to do when its jobs die.

        Raises:
            ConfigurationError: the name is taken, the function cannot be called by parameter names, or a limit is none.
        """
        if retry is not None and not isinstance(retry, Retry):
            raise ConfigurationError(f"retry is a Retry, such as Retry(max_retries=3), not {retry!r}")
        policy = (retry or Retry()).resolved(self.settings.defaults)
        options = task_options(queue, priority, policy)
        hard, soft = time_limits(timeout, soft_timeout, self.settings.defaults.timeout)

        def register(function: Callable[..., Any]) -> Task[Any, Any]:
            definition = define(function, name, policy, hard, options, process, soft, runbook)
            self.tasks.add(definition)
            task: Task[Any, Any] = Task(self, definition, options)
            self.made.add(task)
            if self.guard is not None:
                self.guard(task)
            return task

        return register if function is None else register(function)

    def cron(
        self, cron: str, tz: str = "UTC", payload: Mapping[str, Any] | None = None, **options: Unpack[TaskArguments]
    ) -> TaskDecorator:
        """Register a function as a task, like `task`, and a schedule of the same name, like `schedule`.

        Raises:
            ConfigurationError: the expression or the zone is wrong, or the name is taken.
            InvalidJob: the payload does not fit the function's parameters.
        """

        def register(function: Callable[..., Any]) -> Task[Any, Any]:
            task: Task[Any, Any] = self.task(**options)(function)
            self.schedules.add(task.name, cron, task.name, payload, tz=tz)
            return task

        return register

    def schedule(
        self,
        name: str,
        cron: str,
        type_: str,
        payload: Mapping[str, Any] | None = None,
        *,
        tz: str = "UTC",
        queue: str | None = None,
        priority: int | PriorityName | Priority | None = None,
    ) -> None:
        """Enqueue a job of a type at the times of a cron expression in a time zone; see
        queue_core.model.schedule.

        Workers of this object write the schedule to the store when they start. Each tick inserts one job, however
        many workers run, and all ticks missed while none ran insert one. Omitted options come from the task.

        Raises:
            ConfigurationError: the expression or the zone is wrong, or the name is taken.
            InvalidJob: what it brings would be no job.
        """
        self.schedules.add(name, cron, type_, payload, tz=tz, queue=queue, priority=priority)

    def middleware(self, hook: M) -> M:
        """Register hooks around the jobs of this object, before its workers start; see queue_core.client.middleware."""
        self.hooks.add(hook)
        return hook

    def lifespan(self, function: F) -> F:
        """Register what handlers share, before the workers start: an async function that fills a state and yields once.

            @jobs.lifespan
            async def connections(state):
                async with httpx.AsyncClient() as state.http:
                    yield

        Handlers find it as `ctx.state`. Each worker, and each of its child processes, enters it before its first job
        and leaves it after its last one; in a worker, the same loop runs it and the async handlers.

        Raises:
            ConfigurationError: it is no async function of one parameter that yields.
        """
        return self.lifespans.add(function)

    def queue(self, name: str, **rules: Unpack[QueueArguments]) -> QueueRules:
        """Give a queue rules, as in `jobs.queue("mail", rate="50/s", concurrency=5)`, and return those that hold now.

        The configuration wins key by key, so that it may change them without a release; `"*"` is a rule for all
        queues, over which a queue's own one wins. Before the first use of this object.

        Raises:
            ConfigurationError: a rule cannot be, the queue has some from here already, or the object was used.
        """
        queue = check_name(name, "the queue's name")
        if queue in self._declared:
            raise ConfigurationError(f"queue '{queue}' has rules from this program already; give them in one call")
        if self._open:
            raise ConfigurationError(f"the rules of queue '{queue}' come too late: give them before the first use")
        declared = rules_from(queue, rules)
        self._declared.add(queue)
        given = self.settings.queues
        own = given[queue].over(declared) if queue in given else declared
        self.use(self.settings.model_copy(update={"queues": {**given, queue: own}}))
        return rules_of(self.settings.rules, queue)

    def use(self, settings: JobsSettings) -> JobsSettings:
        """Work with other settings from now on, while this object is not open; return those before."""
        before, self.settings = self.settings, settings
        self._compose(open_backend(settings), opened=False)
        return before

    def swap(self, backend: Backend, opened: bool = False) -> tuple[Backend, bool]:
        """Work on another backend from now on; return the one before, and whether it was open. For `testing`."""
        before = (self._backend, self._open)
        self._home.free()
        self._compose(backend, opened)
        if opened:
            self._home.settle()
        return before

    async def health(self) -> Health:
        """Return how the queue is; a store that cannot be read or written makes it unhealthy and raises nothing."""
        return await health(self._backend, self.settings.mode)

    async def stats(self) -> Stats:
        """Return how many jobs there are, by band of priority and by queue.

        Raises:
            StoreUnavailable: the store did not answer in time.
        """
        await self.backend()
        return await stats(self._backend.inspector)

    def testing(self) -> InProcess:
        """Return what runs this object's jobs in process and in memory, with a fake clock; see queue_core.testing."""
        from queue_core.testing import InProcess

        return InProcess(self)

    def blocking(self) -> BlockingQueue:
        """Return a client for callers without asyncio, which opens and closes this object; see queue_core.blocking.

        From then on the methods that would have to be awaited raise in plain functions, with the name of the client's.
        """
        from queue_core.blocking.client import BlockingQueue

        return BlockingQueue(self)

    # -- producers

    async def enqueue(
        self, type_: str, payload: Mapping[str, Any] | None = None, **options: Unpack[EnqueueArguments]
    ) -> JobHandle[Any]:
        """Enqueue a job by the name of its type; this process need not have the handler.

        Options, of which each takes the task's or the queue's default when it is left out:
            queue: its name.
            priority: a number or a name, such as "high"; higher runs first.
            delay: seconds, "5m" or a timedelta from now; or run_at: a datetime with its zone.
            max_retries: attempts beyond the first.
            tags: words to find it by.
            ordering_key: jobs of a queue with the same one run one at a time, in the order of their enqueues.
            unique: no second job of this type and queue with the same one; the handle is the first job's, with
                `created` False. unique_for: for how long, whatever becomes of the job; else while it is unfinished.
            headers: texts by their names that travel with the job, as `ctx.headers`; 32, and 4 KiB together, at most.
            connection: a psycopg connection, or an SQLAlchemy session or Django connection over psycopg, whose
                transaction the job joins; in mode sqlite one to the same file.

        Raises:
            InvalidJob: refused before anything was written; the message gives the reason.
            QueueFull: a limit of the queue refuses it for now; the error has the seconds after which to retry.
            QueueClosed: an operator has closed the queue.
            StoreUnavailable: the store did not answer in time, or this object was closed meanwhile.
        """
        given = EnqueueOptions(**known_options(options)) if options else NO_OPTIONS
        (handle,) = await self.enqueue_payloads(type_, [{} if payload is None else payload], given)
        return handle

    async def try_enqueue(
        self, type_: str, payload: Mapping[str, Any] | None = None, **options: Unpack[EnqueueArguments]
    ) -> JobHandle[Any] | None:
        """Enqueue a job, or return None where a limit of its queue refuses it; see `enqueue`."""
        try:
            return await self.enqueue(type_, payload, **options)
        except QueueFull:
            return None

    async def enqueue_many(
        self, type_: str, payloads: Sequence[Mapping[str, Any]], **options: Unpack[EnqueueArguments]
    ) -> list[JobHandle[Any]]:
        """Enqueue one job a payload, all or none; see `enqueue`."""
        given = EnqueueOptions(**known_options(options))
        return await self.enqueue_payloads(type_, check_payloads(payloads), given)

    async def enqueue_payloads(
        self, type_: str, payloads: Sequence[Mapping[str, Any]], options: EnqueueOptions
    ) -> list[JobHandle[Any]]:
        """Enqueue one job a payload, all or none; omitted options come from the registered task."""
        closes = self._home.closes
        try:
            listed = self._list_of(type_, payloads, options)
            if listed.is_long and not self.hooks.before:
                await self.backend()
                inserted = await self._enqueuer.insert_list(listed, options.connection)
            else:
                jobs = await self._built(listed)
                inserted = await self._enqueuer.insert(jobs, options.connection)
        except StoreUnavailable as error:
            raise self._home.reason(error, closes) from error.__cause__
        return [JobHandle(self, one.id, one.queue, type_, one.created) for one in inserted]

    async def prepare_payloads(
        self, type_: str, payloads: Sequence[Mapping[str, Any]], options: EnqueueOptions
    ) -> Callable[[Any], Coroutine[Any, Any, list[Inserted]]]:
        """Build the jobs of a call; return what writes them on a blocking connection, in the thread of its owner."""
        jobs = await self._built(self._list_of(type_, payloads, options))
        return await self._enqueuer.prepare(jobs)

    async def _built(self, listed: JobList) -> Sequence[NewJob]:
        jobs: Sequence[NewJob] = await listed.whole()
        if self.hooks.before:
            jobs = await self.hooks.before_enqueue(jobs)
        await self.backend()
        return jobs

    def _list_of(self, type_: str, payloads: Sequence[Mapping[str, Any]], options: EnqueueOptions) -> JobList:
        dump = partial(self.tasks.dumped, type_)
        return self._enqueuer.list_of(type_, payloads, self._completed(type_, options), dump)

    def _completed(self, type_: str, options: EnqueueOptions) -> EnqueueOptions:
        if type_ not in self.tasks or None not in (options.queue, options.priority, options.max_retries):
            return options
        known = self.tasks.get(type_).options
        if options is NO_OPTIONS:
            return known
        return replace(
            options,
            queue=known.queue if options.queue is None else options.queue,
            priority=known.priority if options.priority is None else options.priority,
            max_retries=known.max_retries if options.max_retries is None else options.max_retries,
        )

    # -- results

    async def result(self, job_id: str, timeout: float | None = None) -> Any:
        """Wait until a job has completed and return its result; `timeout` in seconds, None for ever.

        Raises:
            JobFailed, JobCancelled, JobNotFound, ResultExpired, ResultTimeout: see JobHandle.result.
        """
        await self.backend()
        job = await self._backend.inspector.get(check_id(job_id))
        return await self.wait_for(job.queue, job.id, timeout)

    async def wait_for(self, queue: str, job_id: str, timeout: float | None) -> Any:
        """Wait for a job of a known queue; see `result`."""
        await self.backend()
        return await self._results.wait(queue, check_id(job_id), check_timeout(timeout), self._may_run)

    def _may_run(self) -> bool:
        """Return whether anything may run the jobs: with a queue in memory, in this process alone."""
        return bool(self._backend.store.name != "memory" or self.workers or self._manual)

    async def status_of(self, job_id: str) -> Status:
        """Return where a job is in its life.

        Raises:
            JobNotFound: no job has this id.
        """
        await self.backend()
        return (await self._results.result(check_id(job_id))).status

    async def events_of(self, job_id: str) -> AsyncIterator[Event]:
        """Yield what happens to a job, up to its end; see JobHandle.events."""
        await self.backend()
        async for event in self._results.events(check_id(job_id)):
            yield event
