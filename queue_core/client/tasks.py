"""Tasks: registered handlers with their options, typed so that a checker knows what `enqueue` takes."""

from __future__ import annotations

import inspect
import json
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    ParamSpec,
    Protocol,
    TypedDict,
    TypeVar,
    Unpack,
    cast,
    overload,
)

from queue_core.client.context import JobContext
from queue_core.client.payloads import PayloadTypes, is_coroutine_function, name_of, signature_of
from queue_core.errors import ConfigurationError, InvalidArgument, InvalidJob, QueueFull, UnknownTask, not_reduced
from queue_core.model.retry import Policy, Retry
from queue_core.model.rules import Priority, PriorityName, parse_priority
from queue_core.model.triage.rules import RUNBOOK_KEY, check_runbook
from queue_core.model.validation import check_max_retries, check_name, check_payloads, check_queue_name

if TYPE_CHECKING:
    from queue_core.client.results import JobHandle

logger = logging.getLogger("queue_core")

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


Duration = float | str | timedelta
"""Seconds, "5m" or a timedelta."""


@dataclass(frozen=True, slots=True)
class EnqueueOptions:
    """How a job is enqueued; None takes the task's or the queue's default."""

    queue: str | None = None
    priority: int | PriorityName | Priority | None = None
    # seconds, "5m" or a timedelta from now
    delay: Duration | None = None
    # a datetime with its zone
    run_at: datetime | None = None
    max_retries: int | None = None
    tags: Sequence[str] | None = None
    # jobs of a queue with the same one run one at a time, in the order in which they were enqueued
    ordering_key: str | None = None
    # no second job of this type and queue with the same one: its handle is the first job's, with created == False
    unique: str | None = None
    # seconds, "5m" or a timedelta for which it is unique, regardless of the job's state; None: while it is unfinished
    unique_for: Duration | None = None
    # texts by their names, which travel with the job
    headers: Mapping[str, str] | None = None
    # a connection to the store's database, whose transaction the jobs commit or roll back with; see JobQueue.enqueue
    connection: Any = None


# all is left to the defaults of the task and the queue
NO_OPTIONS = EnqueueOptions()


class EnqueueArguments(TypedDict, total=False):
    """The options of `enqueue` as keyword arguments; see `EnqueueOptions`."""

    queue: str | None
    priority: int | PriorityName | Priority | None
    delay: Duration | None
    run_at: datetime | None
    max_retries: int | None
    tags: Sequence[str] | None
    ordering_key: str | None
    unique: str | None
    unique_for: Duration | None
    headers: Mapping[str, str] | None
    connection: Any


class TaskArguments(TypedDict, total=False):
    """The options of `JobQueue.task` as keyword arguments."""

    name: str | None
    queue: str
    priority: int | PriorityName | Priority
    retry: Retry | None
    timeout: Duration | None
    soft_timeout: Duration | None
    process: bool
    runbook: str | None


def known_options(options: EnqueueArguments) -> dict[str, Any]:
    """Return the options as they came.

    Raises:
        InvalidArgument: one has a name that no option has.
    """
    for name in options:
        if name not in EnqueueArguments.__annotations__:
            known = ", ".join(EnqueueArguments.__annotations__)
            raise InvalidArgument(f"enqueue has no option '{name}'; it has {known}")
    return dict(options)


class PayloadEnqueuer(Protocol):
    """The methods of a queue that its tasks need."""

    async def enqueue_payloads(
        self, type_: str, payloads: Sequence[Mapping[str, Any]], options: EnqueueOptions
    ) -> list[JobHandle[Any]]:
        """Enqueue one job a payload, all or none."""
        ...


class Task(Generic[P, R]):
    """A registered handler. Calling it runs it here and now; `enqueue` makes a job of the call."""

    guard: Callable[[Task[Any, Any]], None] | None = None
    """Puts refusals in front of this object's methods, where its queue object has a blocking client."""
    __reduce__ = not_reduced

    def __init__(self, owner: PayloadEnqueuer, definition: Definition, options: EnqueueOptions) -> None:
        self._owner = owner
        self.definition = definition
        self._options = options

    @property
    def chosen(self) -> EnqueueOptions:
        """How its jobs are enqueued."""
        return self._options

    def belongs_to(self, owner: object) -> bool:
        """Return whether it was registered with this queue object."""
        return self._owner is owner

    @property
    def name(self) -> str:
        """The task's name, which is the type of its jobs."""
        return self.definition.name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function itself, without the queue."""
        return self.definition.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<Task {self.name}>"

    def options(self, **options: Unpack[EnqueueArguments]) -> Task[P, R]:
        """Return this task with other options for what is enqueued through it; a None leaves one as it is."""
        changed: dict[str, Any] = {name: value for name, value in known_options(options).items() if value is not None}
        task: Task[P, R] = Task(self._owner, self.definition, replace(self._options, **changed))
        if self.guard is not None:
            self.guard(task)
        return task

    async def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle[R]:
        """Make a job of this call.

        Raises:
            InvalidJob: the arguments do not fit the handler, or have no JSON form.
            QueueFull, StoreUnavailable: nothing was written.
        """
        payload = self.definition.bind(args, kwargs)
        (handle,) = await self._owner.enqueue_payloads(self.name, [payload], self._options)
        return cast("JobHandle[R]", handle)

    async def try_enqueue(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle[R] | None:
        """Make a job of this call, or return None where a limit of its queue refuses it.

        Raises:
            InvalidJob, StoreUnavailable: see `enqueue`.
        """
        try:
            return await self.enqueue(*args, **kwargs)
        except QueueFull:
            return None

    async def enqueue_many(self, payloads: Iterable[Mapping[str, Any]]) -> list[JobHandle[R]]:
        """Make a job of each mapping of parameter names, all or none.

        Raises:
            InvalidJob: a mapping does not fit the handler, or has no JSON form.
            QueueFull, StoreUnavailable: nothing was written.
        """
        given = check_payloads(payloads)
        return cast("list[JobHandle[R]]", await self._owner.enqueue_payloads(self.name, given, self._options))

    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema of the payloads that this task takes."""
        return self.definition.payloads.schema()


@dataclass(frozen=True, slots=True)
class Definition:
    """Everything a worker knows about a task."""

    name: str
    function: Callable[..., Any]
    signature: inspect.Signature
    takes_context: bool
    is_async: bool
    policy: Policy
    # seconds; 0 = no limit
    timeout: float
    options: EnqueueOptions
    # what its parameters may hold
    payloads: PayloadTypes
    # runs in a child process
    process: bool = False
    # seconds after which the handler receives SoftTimeLimitExceeded; 0 = never
    soft_timeout: float = 0.0
    # where to read what to do when its jobs die; "": nowhere
    runbook: str = ""

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return a call's arguments by parameter name.

        Raises:
            InvalidJob: they do not fit the signature.
        """
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError as error:
            option = next((name for name in kwargs if name in EnqueueArguments.__annotations__), None)
            if option is not None and option not in self.signature.parameters:
                right = f"{self.name}.options({option}={kwargs[option]!r:.40}).enqueue(…)"
                raise InvalidJob(f"task '{self.name}': {option} is an option, not an argument: {right}") from None
            raise InvalidJob(f"task '{self.name}': {error}") from None
        payload: dict[str, Any] = {}
        for name, value in bound.arguments.items():
            if self.signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD:
                payload.update(value)
            else:
                payload[name] = value
        return payload


def define(
    function: Callable[..., Any],
    name: str | None,
    policy: Policy,
    timeout: float,
    options: EnqueueOptions,
    process: bool = False,
    soft_timeout: float = 0.0,
    runbook: str | None = None,
) -> Definition:
    """Read a function's signature and return its definition.

    Raises:
        ConfigurationError: its parameters cannot be named, it is a generator, has no name, or its runbook is no line.
        InvalidJob: the name is empty, or has characters that no name may have.
    """
    if not callable(function) or isinstance(getattr(function, "definition", None), Definition):
        raise ConfigurationError(f"a task is a function, not {function!r}")
    name = check_name(name_of(function) if name is None else name, "the type's name")
    signature = signature_of(function, name)
    parameters = list(signature.parameters.values())
    if parameters and parameters[0].name in {"self", "cls"} and _in_class(function):
        raise ConfigurationError(
            f"'{function.__qualname__}' is a method, and a job has no object to call it on: "
            "a task is a function, which may make the object from its parameters"
        )
    takes_context = bool(parameters) and _is_context(parameters[0])
    if takes_context:
        parameters = parameters[1:]
    for parameter in parameters:
        if parameter.kind in {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.POSITIONAL_ONLY}:
            raise ConfigurationError(
                f"task '{name}': parameter '{parameter.name}' cannot be given by name, as payloads do"
            )
    signature = signature.replace(parameters=parameters)
    return Definition(
        name=name,
        function=function,
        signature=signature,
        takes_context=takes_context,
        is_async=is_coroutine_function(function, name),
        policy=policy,
        timeout=timeout,
        options=options,
        payloads=PayloadTypes(name, function, signature),
        process=process,
        soft_timeout=soft_timeout,
        runbook=check_runbook(runbook, name),
    )


def _in_class(function: Callable[..., Any]) -> bool:
    """Return whether a function was defined in the body of a class."""
    outer = getattr(function, "__qualname__", "").rpartition(".")[0]
    return bool(outer) and not outer.endswith("<locals>")


def task_options(queue: str, priority: int | PriorityName | Priority, policy: Policy) -> EnqueueOptions:
    """Return the default enqueue options of a task's jobs, which a caller may override.

    Raises:
        InvalidJob: a name, a priority or a number of retries is out of its range.
    """
    return EnqueueOptions(
        queue=check_queue_name(queue),
        priority=parse_priority(priority),
        max_retries=check_max_retries(policy.max_retries),
    )


def _is_context(parameter: inspect.Parameter) -> bool:
    annotation = parameter.annotation
    if annotation is inspect.Parameter.empty:
        return parameter.name == "ctx"
    return annotation is JobContext or (isinstance(annotation, str) and annotation.split(".")[-1] == "JobContext")


class TaskDecorator(Protocol):
    """Turns a function, with or without a context, async or plain, into a task."""

    @overload
    def __call__(self, function: Callable[Concatenate[JobContext, P], Awaitable[R]], /) -> Task[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, Awaitable[R]], /) -> Task[P, R]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[JobContext, P], R], /) -> Task[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> Task[P, R]: ...


class TaskRegistry:
    """The tasks of one queue object, by name."""

    def __init__(self) -> None:
        self._definitions: dict[str, Definition] = {}

    def add(self, definition: Definition) -> None:
        """Register a task.

        Raises:
            ConfigurationError: another function has this name.
        """
        known = self._definitions.get(definition.name)
        if known is not None and known.function is not definition.function:
            raise ConfigurationError(f"there is a task named '{definition.name}' already; give one of them a name=")
        self._definitions[definition.name] = definition

    def get(self, name: str) -> Definition:
        """Return a task by its name.

        Raises:
            UnknownTask: no handler of that name is registered here.
        """
        try:
            return self._definitions[name]
        except KeyError:
            raise UnknownTask(name) from None

    def dumped(self, name: str, payloads: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
        """Return payloads in their JSON form; those of a task that is not registered here stay as they are.

        Raises:
            InvalidJob: a payload does not fit the task's parameters.
        """
        definition = self._definitions.get(name)
        return payloads if definition is None else [definition.payloads.dumped(payload) for payload in payloads]

    def types(self) -> tuple[str, ...]:
        """Return the names of all tasks."""
        return tuple(self._definitions)

    def schemas(self) -> dict[str, dict[str, Any]]:
        """Return what is announced of each task: the JSON Schema of its payloads, with its runbook.

        A schema that pydantic cannot draw is left out and logged.
        """
        schemas: dict[str, dict[str, Any]] = {}
        for name, definition in self._definitions.items():
            try:
                schema = json.loads(json.dumps(definition.payloads.schema()))
                schemas[name] = schema | ({RUNBOOK_KEY: definition.runbook} if definition.runbook else {})
            except Exception as error:  # noqa: BLE001  whatever the classes of parameters raise, the task runs without
                logger.warning("task '%s' has no JSON Schema: %s", name, error)
        return schemas

    def queues(self) -> tuple[str, ...]:
        """Return the queues of all tasks, each once."""
        return tuple(dict.fromkeys(definition.options.queue or "default" for definition in self._definitions.values()))

    def __contains__(self, name: object) -> bool:
        return name in self._definitions
