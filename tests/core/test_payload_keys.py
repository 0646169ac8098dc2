"""Keys of mappings, and values of sets: what is sent is what the handler gets, or the enqueue is refused."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from pathlib import Path
from typing import Any, Literal, TypedDict
from uuid import UUID

import pytest
from pydantic import BaseModel, Field

from queue_core import JobQueue
from queue_core.errors import InvalidJob
from queue_core.model.settings import JobsSettings
from tests.conformance.working import PATIENCE, working

DAY = date(2026, 3, 1)
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
ID = UUID("01976f7e-5d6c-7b5e-8b7a-0c2f4d6e8a90")


class Size(Enum):
    SMALL = 1
    LARGE = "large"


class Level(IntEnum):
    LOW = 1


class Color(StrEnum):
    RED = "red"


class Stock(BaseModel):
    """A model; its hidden field is left out by its own configuration."""

    counts: dict[int | str, int] = {}
    anything: Any = None
    hidden: dict[int, int] = Field(default={}, exclude=True)


class Shelf(BaseModel):
    stocks: list[Stock] = []
    by_number: dict[int, Stock] = {}


@dataclass
class Box:
    counts: dict[int | str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Place:
    row: int


class Options(TypedDict, total=False):
    counts: dict[int | str, int]


ARRIVES: list[tuple[Any, Any, Any]] = [
    # annotation, what is sent, what the handler gets
    (dict[int | str, int], {"1": 1, "a": 2}, {"1": 1, "a": 2}),
    (dict[int, int], {1: 2, -3: 4}, {1: 2, -3: 4}),
    (dict[int, int], {"1": 2}, {1: 2}),
    (dict[bool, int], {True: 1, False: 2}, {True: 1, False: 2}),
    (dict[float, int], {1.5: 1, 2.0: 2, 1e22: 3, float("inf"): 4}, {1.5: 1, 2.0: 2, 1e22: 3, float("inf"): 4}),
    (dict[float, int], {1: 1}, {1.0: 1}),
    (dict[int | float, int], {1: 2, 1.5: 3}, {1: 2, 1.5: 3}),
    (dict[Level, int], {Level.LOW: 1}, {Level.LOW: 1}),
    (dict[Color, int], {Color.RED: 1}, {Color.RED: 1}),
    (dict[str, int], {Color.RED: 1}, {"red": 1}),
    (dict[UUID, int], {ID: 1}, {ID: 1}),
    (dict[date, int], {DAY: 1}, {DAY: 1}),
    (dict[datetime, int], {NOON: 1}, {NOON: 1}),
    (dict[timedelta, int], {timedelta(1): 1}, {timedelta(1): 1}),
    (dict[Decimal, int], {Decimal("1.50"): 1}, {Decimal("1.50"): 1}),
    (dict[Path, int], {Path("a/b"): 1}, {Path("a/b"): 1}),
    (dict[int, dict[date, int]], {1: {DAY: 2}}, {1: {DAY: 2}}),
    (set[int | str], {1, "1"}, {1, "1"}),
    (set[tuple[int, str]], {(1, "a")}, {(1, "a")}),
    (set[UUID], {ID}, {ID}),
    (Stock, Stock(counts={"1": 1}, hidden={1: 1}), Stock(counts={"1": 1})),
    (Stock, {"counts": {"1": 1}}, Stock(counts={"1": 1})),
    (Shelf, Shelf(by_number={1: Stock()}), Shelf(by_number={1: Stock()})),
    (Box, Box({"1": 1}), Box({"1": 1})),
    (Options, {"counts": {"1": 1}}, {"counts": {"1": 1}}),
]
REFUSED: list[tuple[Any, Any, str]] = [
    # annotation, what is sent, what the sentence has
    (dict[int | str, int], {1: 1, "a": 2}, "key 1"),
    (dict[int | str, int], {1: 1, "1": 2}, "key 1"),
    (dict[str | int, int], {1: 1}, "key 1"),
    (dict[Literal[1, "1"], int], {1: 2}, "key 1"),
    (dict[str, int], {1: 1}, "key 1"),
    (dict[str | UUID, int], {ID: 1, str(ID): 2}, "key"),
    (dict[str | date, int], {DAY: 1, "2026-03-01": 2}, "key"),
    (dict[Any, int], {1: 1}, "key 1"),
    (dict[bool | str, int], {True: 1}, "key True"),
    (dict[int, int], {1: 1, "1": 2}, "two"),
    (dict[int, int], {"1": 1, "01": 2}, "two"),
    (dict[tuple[int, int], int], {(1, 2): 3}, "key '1,2'"),
    (dict[Size, int], {Size.SMALL: 1}, "key '1'"),
    (dict[int | None, int], {None: 1}, "key 'None'"),
    (dict[Literal[1], int], {1: 1}, "key '1'"),
    (dict[Place, int], {Place(1): 1}, "key "),
    (dict[int, dict[int | str, int]], {1: {2: 3}}, "key 2"),
    (list[dict[int | str, int]], [{}, {1: 1}], "key 1"),
    (tuple[dict[int | str, int], ...], ({1: 1},), "key 1"),
    (Stock, Stock(counts={1: 1, "1": 2}), "key 1"),
    (Stock, {"counts": {1: 1}}, "key 1"),
    (Stock, Stock(anything={1: 1}), "key 1"),
    (Shelf, Shelf(stocks=[Stock(counts={1: 1})]), "key 1"),
    (Shelf, Shelf(by_number={1: Stock(counts={1: 1})}), "key 1"),
    (Box, Box({1: 1}), "key 1"),
    (Options, {"counts": {1: 1}}, "key 1"),
    (set[str | date], {DAY, "2026-03-01"}, "two"),
]


def of_type(jobs: JobQueue, annotation: Any) -> Any:
    """Return a task with a parameter of this type, and the list of what its handler gets."""
    got: list[Any] = []

    async def stock(items: Any) -> None:
        got.append(items)

    stock.__annotations__["items"] = annotation
    return jobs.task(stock), got


@pytest.fixture
def jobs() -> JobQueue:
    return JobQueue(settings=JobsSettings(queue_backend="memory"))


@pytest.mark.parametrize(("annotation", "sent", "arrives"), ARRIVES)
async def test_what_is_sent_arrives(jobs: JobQueue, annotation: Any, sent: Any, arrives: Any) -> None:
    task, got = of_type(jobs, annotation)
    async with jobs, working(jobs):
        await (await task.enqueue(items=sent)).result(PATIENCE)
    assert got == [arrives]
    shown = re.sub(r"TzInfo\((0|UTC)\)", "datetime.timezone.utc", repr(got[0]))
    assert shown == repr(arrives), "1 is not True, nor 1.0"


async def test_a_key_that_equals_nothing_arrives(jobs: JobQueue) -> None:
    task, got = of_type(jobs, dict[float, int])
    async with jobs, working(jobs):
        await (await task.enqueue(items={float("nan"): 1})).result(PATIENCE)
    assert str(got) == "[{nan: 1}]"


@pytest.mark.parametrize(("annotation", "sent", "part"), REFUSED)
async def test_what_would_arrive_as_another_is_refused(jobs: JobQueue, annotation: Any, sent: Any, part: str) -> None:
    task, _ = of_type(jobs, annotation)
    async with jobs:
        with pytest.raises(InvalidJob) as refused:
            await task.enqueue(items=sent)
        assert (await jobs.list()).jobs == ()
    sentence = str(refused.value)
    assert part in sentence
    assert "\n" not in sentence
