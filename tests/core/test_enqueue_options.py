"""The options of an enqueue are a record, keyword arguments for type checkers, and documented: all three alike."""

import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import fields
from functools import partial
from typing import get_type_hints

import pytest

from queue_core import ConfigurationError, InvalidJob, JobQueue
from queue_core.client.tasks import EnqueueArguments, EnqueueOptions


def test_the_keyword_arguments_are_those_of_the_record() -> None:
    assert get_type_hints(EnqueueArguments) == get_type_hints(EnqueueOptions)
    assert [field.name for field in fields(EnqueueOptions) if field.default is not None] == []


def test_each_is_documented() -> None:
    documented = set(re.findall(r"\b(\w+): ", JobQueue.enqueue.__doc__ or ""))
    assert set(get_type_hints(EnqueueOptions)) <= documented


async def test_an_option_among_the_arguments_of_a_task_names_the_right_call() -> None:
    jobs = JobQueue(memory=True)

    @jobs.task
    async def double(n: int) -> int:
        return 2 * n

    @jobs.task
    async def tagged(tags: list[str]) -> list[str]:
        return tags

    sentence = r"ordering_key is an option, not an argument: double\.options\(ordering_key='a'\)\.enqueue\(…\)$"
    with pytest.raises(InvalidJob, match=sentence):
        await double.enqueue(1, ordering_key="a")  # type: ignore[call-arg]
    with pytest.raises(InvalidJob, match="unexpected keyword argument 'm'"):
        await double.enqueue(1, m=2)  # type: ignore[call-arg]
    assert (await jobs.get((await tagged.enqueue(tags=["x"])).id)).payload == {"tags": ["x"]}


def test_a_method_is_no_task() -> None:
    jobs = JobQueue(memory=True)

    class Images:
        def resize(self, path: str) -> str:
            return path

        @staticmethod
        def crop(path: str) -> str:
            return path

    with pytest.raises(ConfigurationError, match=r"Images\.resize' is a method, and a job has no object to call it on"):
        jobs.task(Images.resize)
    assert jobs.task(Images.crop).name == "crop"
    assert jobs.task(Images().resize).name == "resize", "a bound one brings its object"


async def _await_it() -> int:
    return 1


class Called:
    """A handler with something of its own."""

    async def __call__(self, n: int) -> int:
        return n


def test_a_generator_function_is_no_task() -> None:
    """Its body would not run; nor would that of a callable object, or behind functools.partial."""
    jobs = JobQueue(memory=True)

    def rows(n: int) -> Iterator[int]:
        yield n

    async def async_rows(n: int) -> AsyncIterator[int]:
        yield n

    class Rows:
        def __call__(self, n: int) -> Iterator[int]:
            yield n

    for function in (rows, async_rows, partial(rows), partial(async_rows), Rows(), partial(Rows()), Rows().__call__):
        for process in (False, True):
            with pytest.raises(ConfigurationError, match="task 'rows' is a generator function, whose body no job runs"):
                jobs.task(name="rows", process=process)(function)
    assert jobs.tasks.types() == ()


def test_partial_and_callable_objects_are_tasks_under_a_name() -> None:
    jobs = JobQueue(memory=True)
    for function in (partial(_await_it), Called(), partial(Called())):
        assert jobs.task(name=f"named_{id(function)}")(function).definition.is_async
        with pytest.raises(ConfigurationError, match="has no name of its own: give the task a name="):
            jobs.task(function)


def test_what_is_no_task_retry_or_middleware_is_refused_in_a_sentence() -> None:
    jobs = JobQueue(memory=True)

    @jobs.task
    def double(n: int) -> int:
        return 2 * n

    for register, words in (
        (lambda: jobs.task(double), "a task is a function"),
        (lambda: jobs.task(name="again")(double), "a task is a function"),
        (lambda: jobs.cron("* * * * *")(double), "a task is a function"),
        (lambda: jobs.task(int), "task 'int': the parameters of <class 'int'> are not known"),
        (lambda: jobs.task(name="most")(max), "task 'most': the parameters of <built-in function max> are not known"),
        (lambda: jobs.task(retry=3), "retry is a Retry"),
        (lambda: jobs.middleware(3), "a middleware is"),
    ):
        with pytest.raises(ConfigurationError, match=words):
            register()


@pytest.mark.parametrize("name", ["", " ", "a{b}"])
def test_a_task_has_a_name_that_can_be_enqueued(name: str) -> None:
    async def work() -> None: ...

    with pytest.raises(InvalidJob, match="the type's name"):
        JobQueue(memory=True).task(name=name)(work)
