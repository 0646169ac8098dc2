"""Typed payloads: checked where a job is enqueued and where it runs, in every mode."""

import dataclasses
import enum
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest
from pydantic import BaseModel, Field, SecretStr, field_validator

from queue_core.client.context import JobContext
from queue_core.client.tasks import Task
from queue_core.errors import InvalidJob, JobFailed
from queue_core.model.retry import Retry
from queue_core.queue import JobQueue
from tests.conformance.making import new_job
from tests.conformance.working import PATIENCE, until_status, working


class Colour(enum.Enum):
    RED = "red"


class Line(BaseModel):
    article: str
    count: int = Field(default=1, ge=1, alias="n")


class Order(BaseModel):
    id: UUID
    at: datetime
    lines: list[Line]


@dataclasses.dataclass
class Place:
    path: Path
    day: date


AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
ID = UUID("0197b3c2-5a1e-7c88-9b3e-56e26719422c")
ORDER = Order(id=ID, at=AT, lines=[Line(article="tea", n=2)])


async def test_a_handler_gets_what_its_annotations_say(jobs: JobQueue) -> None:
    given: list[Any] = []

    @jobs.task
    async def take(  # noqa: PLR0917  one of each kind
        ctx: JobContext,
        order: Order,
        place: Place,
        at: datetime,
        price: Decimal,
        wait: timedelta,
        colour: Colour,
        some: set[int],
        pair: tuple[int, str],
        other: Order | None = None,
        n: int = 3,
    ) -> dict[str, Any]:
        given.extend([order, place, at, price, wait, colour, some, pair, other, n])
        return ctx.payload["order"]  # type: ignore[no-any-return]

    values: list[Any] = [ORDER, Place(Path("/a"), AT.date()), AT, Decimal("1.10"), timedelta(seconds=3), Colour.RED]
    values += [{1, 2}, (1, "x")]
    async with working(jobs):
        stored = await (await take.enqueue(*values)).result(PATIENCE)
    assert given == [*values, None, 3]
    assert stored["lines"] == [{"article": "tea", "n": 2}]


async def test_values_may_come_in_their_json_form(jobs: JobQueue) -> None:
    @jobs.task
    async def year(order: Order, at: datetime) -> int:
        return order.at.year + at.year

    payload = {"order": ORDER.model_dump(mode="json", by_alias=True), "at": "2026-01-02T03:04:05Z"}
    async with working(jobs):
        assert await (await jobs.enqueue("year", payload)).result(PATIENCE) == 4052
        assert await (await year.enqueue_many([payload]))[0].result(PATIENCE) == 4052


def plain(jobs: JobQueue) -> Task[Any, Any]:
    @jobs.task(name="typed", retry=Retry(delay=0))
    async def typed(  # noqa: PLR0917  the checks by kind of parameter
        n: int = 1,
        f: float = 1.0,
        s: str = "",
        b: bool = True,
        o: "str | None" = None,
        items: list = [],  # type: ignore[type-arg]  # noqa: B006
        more: dict[str, Any] = {},  # noqa: B006
        numbers: list[int] = [],  # noqa: B006
        order: Order = ORDER,
        when: "datetime" = AT,
        mode: Literal["a", "b"] = "a",
        small: Annotated[int, Field(lt=10)] = 1,
        colour: Colour = Colour.RED,
    ) -> list[Any]:
        return [n, f, s, b, o, items, more, numbers]

    return typed


WRONG: dict[str, dict[str, Any]] = {
    "a text for a whole number": {"n": "5"},
    "a truth for a whole number": {"n": True},
    "a fraction for a whole number": {"n": 1.5},
    "nothing for a text": {"s": None},
    "a number for a truth": {"b": 1},
    "a truth for a number": {"f": True},
    "a number for a text or nothing": {"o": 1},
    "an object for a list": {"items": {}},
    "a list for an object": {"more": []},
    "a text in a list of numbers": {"numbers": [1, "2"]},
    "a model without its fields": {"order": {"id": str(ID)}},
    "something else than the model": {"order": 7},
    "what has no form": {"when": object()},
    "no time": {"when": "yesterday"},
    "none of the choices": {"mode": "c"},
    "over the limit": {"small": 10},
    "no member": {"colour": "blue"},
}


@pytest.mark.parametrize("payload", WRONG.values(), ids=WRONG.keys())
async def test_wrong_types_are_refused_at_enqueue(jobs: JobQueue, payload: dict[str, Any]) -> None:
    task = plain(jobs)
    (name,) = payload
    for attempt in (task.enqueue(**payload), jobs.enqueue("typed", payload), task.enqueue_many([{}, payload])):
        with pytest.raises(InvalidJob) as caught:
            await attempt
        said = str(caught.value)
        assert f"parameter '{name}" in said
        assert "typed" in said
        assert "\n" not in said
    assert (await jobs.inspector.conservation()).unfinished == 0


async def test_right_types_are_not_converted(jobs: JobQueue) -> None:
    task = plain(jobs)

    class Size(enum.IntEnum):
        BIG = 9

    async with working(jobs):
        given = {"n": Size.BIG, "f": 2, "s": "x", "b": False, "o": "y", "items": (1,), "more": {"k": AT.year}}
        result = await (await task.enqueue(**given, numbers=[1])).result(PATIENCE)
    assert result == [9, 2, "x", False, "y", [1], {"k": 2026}, [1]]


@pytest.mark.parametrize("payload", ['{"n":"5"}', '{"numbers":["1"]}', '{"n":1,"unknown":2}', '{"order":{}}'])
async def test_a_stored_payload_of_wrong_types_is_buried(jobs: JobQueue, payload: str) -> None:
    plain(jobs)
    bad = new_job(type="typed", queue="default", payload=payload, max_retries=0)
    good = new_job(type="typed", queue="default")
    await jobs.store.insert([bad, good])
    async with working(jobs):
        await until_status(jobs, bad.id, "dead")
        await until_status(jobs, good.id, "completed")
    found = await jobs.inspector.get(bad.id)
    assert found.failure_kind == "invalid_payload"
    assert "parameter" in str(found.error)


async def test_a_validator_that_breaks_costs_its_job_only(jobs: JobQueue) -> None:
    class Broken(BaseModel):
        x: int

        @field_validator("x")
        @classmethod
        def check(cls, value: int) -> int:
            raise KeyError(value)

    @jobs.task(retry=Retry(delay=0))
    async def take(broken: Broken) -> None: ...

    with pytest.raises(InvalidJob, match="KeyError"):
        await jobs.enqueue("take", {"broken": {"x": 1}})
    bad = new_job(type="take", queue="default", payload='{"broken":{"x":1}}', max_retries=0)
    await jobs.store.insert([bad])
    async with working(jobs):
        await until_status(jobs, bad.id, "dead")


async def test_a_secret_is_not_stored_as_asterisks(jobs: JobQueue) -> None:
    @jobs.task
    async def login(password: SecretStr) -> None: ...

    with pytest.raises(InvalidJob, match="'password' is a secret"):
        await login.enqueue(SecretStr("hunter2"))


async def test_what_is_not_annotated_takes_anything(jobs: JobQueue) -> None:
    class Connection: ...

    @jobs.task
    async def loose(a, at: datetime, b: Any = None, c: Connection | None = None, **more):  # type: ignore[no-untyped-def]
        return [a, b, at.year, more]

    async with working(jobs):
        handle = await loose.enqueue([1], AT, b={"x": None}, extra="y")
        assert await handle.result(PATIENCE) == [[1], {"x": None}, 2026, {"extra": "y"}]
    with pytest.raises(InvalidJob, match="no JSON form"):
        await loose.enqueue(AT, AT)


async def test_annotations_that_are_texts(jobs: JobQueue) -> None:
    """As under `from __future__ import annotations`: names of the scope around, or of what comes later."""

    class Local(BaseModel):
        x: int

    @jobs.task
    async def take(local: "Local", later: "Later", unknown: "Nowhere" = 1) -> list[Any]:  # type: ignore[name-defined]  # noqa: F821
        return [local.x, later.y, unknown]

    async with working(jobs):
        assert await (await take.enqueue(Local(x=1), Later(y=2), "z")).result(PATIENCE) == [1, 2, "z"]


class Later(BaseModel):
    y: int


async def test_a_plain_function_and_a_failed_job(jobs: JobQueue) -> None:
    @jobs.task(retry=Retry(delay=0))
    def total(numbers: list[int]) -> int:
        return sum(numbers)

    async with working(jobs):
        assert await (await total.enqueue([1, 2])).result(PATIENCE) == 3
        strange = new_job(type="total", queue="default", payload='{"numbers":[1,null]}', max_retries=0)
        await jobs.store.insert([strange])
        with pytest.raises(JobFailed, match="numbers"):
            await jobs.result(strange.id, PATIENCE)


def test_the_schema_of_a_task() -> None:
    said = plain(JobQueue(memory=True)).schema()
    assert said["type"] == "object"
    assert said["required"] == []
    assert said["additionalProperties"] is False
    assert said["properties"]["n"] == {"type": "integer", "default": 1}
    assert said["properties"]["numbers"]["items"] == {"type": "integer"}
    assert said["properties"]["order"] == {"$ref": "#/$defs/Order"}
    assert list(said["properties"])[:3] == ["n", "f", "s"]
    assert "Line" in said["$defs"]
