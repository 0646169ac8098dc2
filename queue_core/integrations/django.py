"""A backend of Django Tasks: Django's own since 6.0, else those of the package django-tasks. Extra `django`.

    TASKS = {"default": {"BACKEND": "queue_core.integrations.django.JobsBackend", "QUEUES": ["default", "mail"]}}

A task's jobs have its module path as their type, and {"args": […], "kwargs": {…}} as their payload. Workers run
`queue_core.integrations.django:jobs`.
"""

from __future__ import annotations

import atexit
import contextlib
import inspect
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

import django
from asgiref.sync import ThreadSensitiveContext, sync_to_async
from django.apps import apps
from django.core import checks
from django.db import close_old_connections, connections, transaction
from django.utils import timezone
from django.utils.module_loading import autodiscover_modules, import_string

try:
    from django.tasks import task_backends
    from django.tasks.backends.base import BaseTaskBackend
    from django.tasks.base import Task, TaskContext, TaskError, TaskResult, TaskResultStatus
    from django.tasks.exceptions import InvalidTask, TaskResultDoesNotExist
    from django.tasks.signals import task_enqueued, task_finished, task_started
except ImportError:  # before Django 6
    from django_tasks import task_backends
    from django_tasks.backends.base import BaseTaskBackend
    from django_tasks.base import Task, TaskContext, TaskError, TaskResult, TaskResultStatus
    from django_tasks.exceptions import InvalidTaskError as InvalidTask
    from django_tasks.exceptions import TaskResultDoesNotExist
    from django_tasks.signals import task_enqueued, task_finished, task_started

from queue_core.blocking.client import BlockingQueue
from queue_core.client.context import JobContext
from queue_core.client.middleware import Middleware, SettledJob
from queue_core.client.tasks import TaskArguments
from queue_core.errors import ConfigurationError, InvalidArgument, JobNotFound, QueueCoreError, ResultExpired
from queue_core.model.job import Attempt, Job
from queue_core.model.retry import Retry
from queue_core.model.states import Status
from queue_core.queue import JobQueue

DEFAULT = "default"
"""The alias of the backend whose tasks `queue_core.integrations.django:jobs` runs."""
OPTIONS = ("jobs", "database")

_STATUS: Mapping[Status, Any] = {
    Status.RUNNING: TaskResultStatus.RUNNING,
    Status.COMPLETED: TaskResultStatus.SUCCESSFUL,
    Status.DEAD: TaskResultStatus.FAILED,
    Status.CANCELLED: TaskResultStatus.FAILED,
}
"""All other states are READY: a job that is retried later, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTask(Task):  # type: ignore[misc]  # Django is checked as if not installed
    """A task of Django's, as `@task` makes it, with the options that the queue has beyond: `@task(retry=Retry(…))`."""

    # the queue's defaults where it is None
    retry: Retry | None = None
    # of an attempt: seconds, "5m" or a timedelta; 0 = none
    timeout: float | str | None = None


class JobsBackend(BaseTaskBackend):  # type: ignore[misc]
    """Makes jobs of Django's tasks. Each option may be left out:

    OPTIONS["jobs"]: "shop.queue:jobs", a queue object; else one that is made from the configuration.
    OPTIONS["database"]: an alias of DATABASES; jobs are written through this connection and its `atomic()` block.
    """

    task_class = JobTask
    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def validate_task(self, task: Any) -> None:
        """Check a task, each time that one is made; workers run those that have been made.

        Raises:
            InvalidTask: see Django's own check.
        """
        super().validate_task(task)
        _declared.setdefault(self.alias, {}).setdefault(task.module_path, task)

    @property
    def client(self) -> BlockingQueue:
        """The queue's client, which all threads share.

        Raises:
            ConfigurationError: a setting is missing, unknown or contradictory.
        """
        with _lock:
            return _client(self.options.get("jobs"))

    def enqueue(self, task: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Make a job of a call and return its result, which is READY.

        Raises:
            InvalidTask: the task cannot be enqueued here.
            QueueFull, StoreUnavailable: nothing was written.
            django.db.Error: the same, on a connection of Django's.
        """
        self.validate_task(task)
        result = _new_result(task, args, kwargs, self.alias)
        options: dict[str, Any] = {"queue": task.queue_name, "priority": task.priority, "run_at": _aware(task)}
        if isinstance(task, JobTask) and task.retry is not None:
            policy = task.retry.resolved(self.client.jobs.settings.defaults)
            options["max_retries"] = policy.max_retries
        payload = {"args": result.args, "kwargs": result.kwargs}
        with _in_transaction(self.options.get("database")) as connection:
            handle = self.client.enqueue(task.module_path, payload, connection=connection, **options)
        result = replace(result, id=handle.id, enqueued_at=timezone.now())
        task_enqueued.send(type(self), task_result=result)
        return result

    def get_result(self, result_id: str) -> Any:
        """Return what is known about a call by its id.

        Raises:
            TaskResultDoesNotExist: no such job, no job of a task, or a result that is over its retention.
        """
        try:
            job = self.client.get(result_id)
            failed = job.failure_kind is not None or job.retry_count or job.losses or job.crashes
            if job.status is Status.COMPLETED and job.result is None:
                self.client.result(job.id)
            return result_of(job, self.failures(job.id) if failed else (), self.alias)
        except (JobNotFound, ResultExpired, InvalidArgument):
            raise TaskResultDoesNotExist(result_id) from None

    def failures(self, job_id: str) -> Sequence[Attempt]:
        """Return the failed attempts of a job, oldest first."""
        return self.client.call(self.client.jobs.inspector.attempts, job_id)

    def check(self, **kwargs: Any) -> Iterable[Any]:
        """Yield what is wrong with the settings, for `manage.py check`."""
        for name in self.options.keys() - set(OPTIONS):
            known = " and ".join(OPTIONS)
            yield checks.Error(f"TASKS: {self.alias}: there is no option {name!r}, only {known}", id="queue_core.E001")
        try:
            self.client  # noqa: B018  made at the first use
        except ConfigurationError as error:
            yield checks.Error(f"TASKS: {self.alias}: {error}", id="queue_core.E002")
        if (alias := self.options.get("database")) is not None and alias not in connections:
            yield checks.Error(f"TASKS: {self.alias}: DATABASES has no {alias!r}", id="queue_core.E003")


_declared: dict[str, dict[str, Any]] = {}
"""The tasks that were made in this process: by alias and module path."""


_lock = threading.Lock()
"""Held while a client is made."""


@cache
def _client(target: str | None) -> BlockingQueue:
    """Return the one client of this process for a queue object; Django makes a backend for each thread."""
    if target is None:
        jobs = JobQueue.from_settings()
    else:
        from queue_core.worker.process import load_target

        jobs = load_target(target)
    client = jobs.blocking()
    atexit.register(_close, client)
    return client


def _close(client: BlockingQueue) -> None:
    """Finish what is on its way at the end of the process."""
    with contextlib.suppress(QueueCoreError):
        client.close()


@contextlib.contextmanager
def _in_transaction(alias: str | None) -> Iterator[Any]:
    """Yield a connection of Django's in a transaction, new or that of an `atomic()` block; None without an alias."""
    if alias is None:
        yield None
        return
    connection = connections[alias]
    with contextlib.ExitStack() as stack:
        if not connection.in_atomic_block:
            stack.enter_context(transaction.atomic(using=alias))
        stack.enter_context(connection.wrap_database_errors)
        yield connection


def _aware(task: Any) -> Any:
    """Return when a task is due, with its zone: that of the settings where it has none, as everywhere in Django."""
    due = task.run_after
    return due if due is None or timezone.is_aware(due) else timezone.make_aware(due, timezone.get_default_timezone())


# -- results


def _new_result(task: Any, args: Sequence[Any], kwargs: Mapping[str, Any], alias: str) -> Any:
    return TaskResult(
        task=task,
        id="",
        status=TaskResultStatus.READY,
        enqueued_at=None,
        started_at=None,
        finished_at=None,
        last_attempted_at=None,
        args=list(args),
        kwargs=dict(kwargs),
        backend=alias,
        errors=[],
        worker_ids=[],
    )


def result_of(job: Job, attempts: Sequence[Attempt], alias: str) -> Any:
    """Return a job and its failed attempts as Django's record of a call.

    Raises:
        JobNotFound: it is no job of a task.
    """
    payload = job.payload
    if payload is None or not isinstance(payload.get("args"), list) or not isinstance(payload.get("kwargs"), dict):
        raise JobNotFound(job.id)
    workers = [one.worker for one in attempts if one.worker]
    if job.worker is not None and job.status in {Status.RUNNING, Status.COMPLETED}:
        workers.append(job.worker)
    first = attempts[0].started_at if attempts else None
    result = replace(
        _new_result(_task_of(job, alias), payload["args"], payload["kwargs"], alias),
        id=job.id,
        status=_STATUS.get(job.status, TaskResultStatus.READY),
        enqueued_at=job.created_at,
        started_at=first or job.started_at,
        finished_at=job.completed_at,
        last_attempted_at=job.started_at,
        errors=[TaskError(exception_class_path=_path(one), traceback=one.traceback) for one in attempts],
        worker_ids=workers,
    )
    object.__setattr__(result, "_return_value", job.result)
    return result


def _task_of(job: Job, alias: str) -> Any:
    """Return the task of a job, as it was enqueued."""
    task = _declared.get(alias, {}).get(job.type)
    if task is None:
        try:
            task = import_string(job.type)
        except ImportError:
            task = None
        if not isinstance(task, Task):
            raise JobNotFound(job.id)
    due = job.run_at if job.status is Status.SCHEDULED else None
    try:
        return task.using(priority=job.priority, queue_name=job.queue, run_after=due, backend=alias)
    except InvalidTask:  # an operator has moved the job to a queue that is not one of the settings
        return task


def _path(attempt: Attempt) -> str:
    """Return where the class of an attempt's exception is; a worker's end is no exception of the task."""
    if attempt.kind not in {"error", "timeout", "invalid_payload"}:
        return "queue_core.errors.JobFailed"
    return attempt.exception if "." in attempt.exception else f"builtins.{attempt.exception}"


# -- workers


class _Handler:
    """Runs a task of Django's as a task of the queue."""

    def __init__(self, task: Any, backend: JobsBackend) -> None:
        self._task = task
        self._backend = backend

    def run(self, ctx: JobContext, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """Run a plain function in its thread, whose connections it leaves as a request does."""
        close_old_connections()
        try:
            return self._task.func(*self._begin(ctx, args, kwargs), **kwargs)
        finally:
            close_old_connections()

    async def arun(self, ctx: JobContext, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """Run a coroutine; as for a request, all that Django does for it in threads is done in one, which then ends."""
        async with ThreadSensitiveContext():
            try:
                return await self._task.func(*await sync_to_async(self._begin)(ctx, args, kwargs), **kwargs)
            finally:
                await sync_to_async(connections.close_all)()

    def _begin(self, ctx: JobContext, args: list[Any], kwargs: dict[str, Any]) -> list[Any]:
        """Send Django's signal, and return the arguments by place, with the context where the task takes one."""
        before = self._backend.failures(ctx.job_id) if ctx.attempt > 1 else ()
        now = timezone.now()
        result = replace(
            _new_result(self._task, args, kwargs, self._backend.alias),
            id=ctx.job_id,
            status=TaskResultStatus.RUNNING,
            started_at=(before[0].started_at if before else None) or now,
            last_attempted_at=now,
            errors=[TaskError(exception_class_path=_path(one), traceback=one.traceback) for one in before],
            worker_ids=[*(one.worker or "" for one in before), ctx.worker],
        )
        task_started.send(type(self._backend), task_result=result)
        return [TaskContext(task_result=result), *args] if self._task.takes_context else args


class _Finished(Middleware):
    """Sends Django's signal of ends, once they are stored."""

    def __init__(self, backend: JobsBackend, types: Mapping[str, Any]) -> None:
        self._backend = backend
        self._types = types

    async def after_settle(self, job: SettledJob) -> None:
        """Send `task_finished`; a job that is retried has not finished."""
        if job.type in self._types and job.outcome in {"completed", "dead", "cancelled"}:
            await sync_to_async(self._send)(job.id)

    def _send(self, job_id: str) -> None:
        with contextlib.suppress(TaskResultDoesNotExist):
            task_finished.send(type(self._backend), task_result=self._backend.get_result(job_id))


@cache
def worker_queue(alias: str = DEFAULT) -> JobQueue:
    """Return the queue object of a backend, with each task registered that the modules `tasks` of all apps make.

    Raises:
        ConfigurationError: Django's settings or those of the queue are wrong, or a module cannot be imported.
    """
    try:
        if not apps.ready:
            django.setup()
        autodiscover_modules("tasks")
        backend = task_backends[alias]
    except QueueCoreError:
        raise
    except Exception as error:
        raise ConfigurationError(f"Django: {type(error).__name__}: {error}") from error
    if not isinstance(backend, JobsBackend):
        raise ConfigurationError(f"Django: the BACKEND of TASKS[{alias!r}] is not {__name__}.JobsBackend")
    jobs, types = backend.client.jobs, _declared.setdefault(alias, {})
    for name, task in types.items():
        _register(jobs, name, task, backend)
    jobs.middleware(_Finished(backend, types))
    return jobs


def _register(jobs: JobQueue, name: str, task: Any, backend: JobsBackend) -> None:
    handler = _Handler(task, backend)
    run: Callable[..., Any] = handler.arun if inspect.iscoroutinefunction(task.func) else handler.run
    options: TaskArguments = {"name": name, "queue": task.queue_name, "priority": task.priority}
    if isinstance(task, JobTask):
        options |= {"retry": task.retry, "timeout": task.timeout}
    jobs.task(**options)(run)


if TYPE_CHECKING:
    jobs: JobQueue
else:  # for which each name would be there, also one with a typing error

    def __getattr__(name: str) -> JobQueue:
        """Return the queue object of the backend "default" as `jobs`: the target of workers."""
        if name == "jobs":
            return worker_queue()
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
