"""What is wrong with a payload, by the JSON Schema of its task: the sentences, and that it agrees with the worker."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from enum import Enum
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any
from uuid import UUID

import pytest
from pydantic import BaseModel

from jobconsole.actions.schema import MAX_PROBLEMS, SchemaUnusable, validate_payload
from queue_core.queue import JobQueue

jobs = JobQueue(memory=True)


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Box(BaseModel):
    width: int
    corners: list[float] = []


@dataclass
class Point:
    x: int
    y: int = 0


@jobs.task
async def draw(  # noqa: PLR0917  one of each kind
    name: str,
    count: int = 1,
    scale: float = 1.0,
    on: bool = True,
    at: datetime | None = None,
    day: date | None = None,
    every: timedelta | None = None,
    one: UUID | None = None,
    colour: Colour = Colour.RED,
    box: Box | None = None,
    point: Point | None = None,
    either: int | str = 1,
    anything: Any = None,
) -> None:
    """Nothing."""


@jobs.task
async def nothing() -> None:
    """Nothing."""


GOOD: list[dict[str, Any]] = [
    {"name": "a"},
    {"name": "", "count": -1, "scale": 2, "on": False, "colour": "blue", "either": "x", "anything": [{}]},
    {"name": "a", "at": "2030-01-31T09:00:00+01:00", "day": "2030-01-31", "every": "PT5M"},
    {"name": "a", "one": "01900000-0000-7000-8000-000000000001", "at": None, "box": None},
    {"name": "a", "box": {"width": 1, "corners": [1, 2.5]}, "point": {"x": 1}},
]
BAD: list[tuple[dict[str, Any], list[str]]] = [
    ({}, ["parameter 'name' is missing"]),
    ({"name": None}, ["parameter 'name' must be string, not null"]),
    ({"name": "a", "count": "5"}, ["parameter 'count' must be integer, not string"]),
    ({"name": "a", "count": True}, ["parameter 'count' must be integer, not boolean"]),
    ({"name": "a", "count": 1.0}, ["parameter 'count' must be integer, not number"]),
    ({"name": "a", "on": 1}, ["parameter 'on' must be boolean, not integer"]),
    ({"name": "a", "scale": [1]}, ["parameter 'scale' must be number, not array"]),
    ({"name": "a", "at": "yesterday"}, ["parameter 'at': 'yesterday' is not a 'date-time'"]),
    ({"name": "a", "day": "2030-02-31"}, ["parameter 'day': '2030-02-31' is not a 'date'"]),
    ({"name": "a", "one": "1234"}, ["parameter 'one': '1234' is not a 'uuid'"]),
    ({"name": "a", "at": 5.5}, ["parameter 'at' must be string or null, not number"]),
    ({"name": "a", "colour": "green"}, ["parameter 'colour': 'green' is not one of ['red', 'blue']"]),
    ({"name": "a", "box": 3}, ["parameter 'box' must be object or null, not integer"]),
    (
        {"name": "a", "box": {"corners": ["x"]}},
        ["parameter 'box.corners.0' must be number, not string", "parameter 'box.width' is missing"],
    ),
    ({"name": "a", "either": []}, ["parameter 'either' must be integer or string, not array"]),
]


@pytest.mark.parametrize("payload", GOOD, ids=json.dumps)
def test_what_fits(payload: dict[str, Any]) -> None:
    assert validate_payload(draw.schema(), payload) == []
    draw.definition.payloads.loaded(payload, json.dumps(payload))


@pytest.mark.parametrize(("payload", "said"), BAD, ids=[json.dumps(payload) for payload, _ in BAD])
def test_what_does_not(payload: dict[str, Any], said: list[str]) -> None:
    assert sorted(validate_payload(draw.schema(), payload)) == sorted(said)
    if "name" in payload:  # what is missing is for the call itself to say
        with pytest.raises(ValueError, match="parameter"):
            draw.definition.payloads.loaded(payload, json.dumps(payload))


@pytest.mark.parametrize("payload", [None, [], 5, "x"])
def test_what_is_no_object(payload: object) -> None:
    (said,) = validate_payload(draw.schema(), payload)
    assert said.startswith("the payload must be object, not ")


def test_unknown_parameters_name_the_known_ones() -> None:
    (said,) = validate_payload(draw.schema(), {"name": "a", "cuont": 1})
    assert said.startswith("parameter 'cuont' is not known; there are 'name', 'count', ")
    assert validate_payload(nothing.schema(), {"x": 1}) == ["parameter 'x' is not known; the type takes no parameters"]


def test_many_mistakes_and_long_values_are_bounded() -> None:
    found = validate_payload(nothing.schema(), {f"{number} {'x' * 10_000}": 1 for number in range(1000)})
    assert len(found) == MAX_PROBLEMS
    assert max(map(len, found)) < 1000
    (said,) = validate_payload(draw.schema(), {"name": "a", "colour": "\x1b[2J" * 10_000})
    assert len(said) < 1000
    assert "\x1b" not in said


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "nonsense"},
        {"$ref": "#/nowhere"},
        {"$ref": "#"},
        {"properties": {"a": {"pattern": "(("}}},
        {"properties": 5},
    ],
    ids=str,
)
def test_a_schema_that_says_nothing(schema: dict[str, Any]) -> None:
    with pytest.raises(SchemaUnusable):
        validate_payload(schema, {"a": "b"})


def test_nothing_is_fetched() -> None:
    """A schema may name another machine; nobody is asked for it."""
    asked: list[str] = []

    class Listening(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)

    with HTTPServer(("127.0.0.1", 0), Listening) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with pytest.raises(SchemaUnusable):
            validate_payload({"$ref": f"http://127.0.0.1:{server.server_port}/x.json"}, {})
        server.shutdown()
    assert asked == []
