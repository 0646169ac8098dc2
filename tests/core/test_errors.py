"""Every exception that callers may catch survives pickle and copy, as between the processes of a pool."""

from __future__ import annotations

import copy
import inspect
import pickle
import re
from datetime import UTC, datetime
from typing import Any

import pytest

import queue_core
from queue_core import JobQueue, Reschedule, RetryLater, SoftTimeLimitExceeded, errors
from queue_core.errors import QueueCoreError

VALUES: dict[str, Any] = {"str": "a text", "int": 3, "float": 2.5, "bool": True, "str | None": "near"}
"""What an exception is given, by the annotations of its parameters."""


def of_the_package(root: type[BaseException]) -> set[type[BaseException]]:
    """Return its subclasses, and itself, that the package defines."""
    found = {root} | {one for child in root.__subclasses__() for one in of_the_package(child)}
    return {one for one in found if one.__module__.partition(".")[0] == "queue_core"}


PUBLIC = {one for one in vars(queue_core).values() if inspect.isclass(one) and issubclass(one, BaseException)}
IN_THE_TREE = {one for one in vars(errors).values() if inspect.isclass(one) and issubclass(one, BaseException)}
CLASSES = sorted(
    PUBLIC | {one for one in IN_THE_TREE if one.__module__ == errors.__name__} | of_the_package(QueueCoreError),
    key=lambda one: (one.__module__, one.__qualname__),
)


def made(kind: type[BaseException]) -> BaseException:
    try:
        parameters = inspect.signature(kind).parameters.values()
    except ValueError:  # it has none of its own
        return kind("a sentence", 7)
    return kind(**{one.name: VALUES[one.annotation] for one in parameters if one.annotation in VALUES})


def state(error: BaseException) -> tuple[Any, ...]:
    return type(error), str(error), error.args, error.__dict__


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__qualname__)
def test_every_exception_survives(kind: type[BaseException]) -> None:
    error = made(kind)
    error.add_note("what a caller noted")
    for again in (
        copy.copy(error),
        copy.deepcopy(error),
        *(pickle.loads(pickle.dumps(error, protocol)) for protocol in range(pickle.HIGHEST_PROTOCOL + 1)),
    ):
        assert state(again) == state(error)


def test_those_of_handlers_are_among_them() -> None:
    assert {RetryLater, Reschedule, SoftTimeLimitExceeded} <= set(CLASSES)


@pytest.mark.parametrize(
    "error", [RetryLater("later", delay="5m"), Reschedule(delay=5), Reschedule(at=datetime(2030, 1, 1, tzinfo=UTC))]
)
def test_what_a_handler_asks_for_survives(error: Exception) -> None:
    assert state(pickle.loads(pickle.dumps(error))) == state(error)


async def test_one_that_was_raised_survives() -> None:
    async with JobQueue(memory=True) as jobs:
        with pytest.raises(QueueCoreError) as caught:
            await jobs.get("01a21eac-5a71-7b71-a92c-95ddc134a15a")
    assert state(pickle.loads(pickle.dumps(caught.value))) == state(caught.value)


async def test_what_belongs_to_a_process_is_neither_pickled_nor_copied() -> None:
    refused = r"^a \w+ cannot be pickled or copied, for it belongs to its process"
    async with JobQueue(memory=True) as jobs:

        @jobs.task
        async def work() -> None: ...

        handle = await work.enqueue()
        for one in (jobs, work, handle, jobs.blocking(), {"task": work}):
            for way in (pickle.dumps, copy.copy if one is work else copy.deepcopy):
                with pytest.raises(TypeError, match=refused):
                    way(one)


def test_the_tree_in_the_docstring_has_every_error() -> None:
    drawn = set(re.findall(r"[├└]── (\w+)", errors.__doc__ or ""))
    below = {one.__name__ for one in IN_THE_TREE if one.__module__ == errors.__name__}
    assert drawn == below - {"QueueCoreError", "SoftTimeLimitExceeded"}
