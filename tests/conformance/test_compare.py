"""A failing payload beside the last one of its type that succeeded."""

import json
from typing import Any

import pytest

from queue_core.client.causes.compare import Comparison, compare
from queue_core.errors import JobNotFound
from tests.conformance.making import failure
from tests.conformance.world import World

GIVEN: dict[str, Any] = {"type": "send", "queue": "mail"}


async def died(world: World, payload: object) -> str:
    text = payload if isinstance(payload, str) else json.dumps(payload)
    return (await world.ended("dead", {"failure": failure("x")}, payload=text, **GIVEN)).id


async def completed(world: World, payload: object, **given: Any) -> str:
    return (await world.ended("completed", {}, payload=json.dumps(payload), **GIVEN | given)).id


def lines(found: Comparison) -> list[tuple[str, str, str, str]]:
    return [(one.sign, one.path, one.failing, one.completed) for one in found.different]


async def test_which_fields_differ(world: World) -> None:
    await completed(
        world, {"region": "us", "to": ["a", "b"], "n": 1, "reply": {"to": "x"}, "files": [], "same": {"x": 1}}
    )
    await completed(world, {"region": "ap"}, type="other")
    job_id = await died(world, {"region": "eu", "to": ["a"], "n": 1.0, "files": [1, 2], "same": {"x": 1}, "new": True})
    found = await compare(world.inspector, job_id)
    assert lines(found) == [
        ("~", "region", '"eu"', '"us"'),
        ("~", "n", "1.0", "1"),
        ("~", "files", "2 items", "0 items"),
        ("+", "new", "true", ""),
        ("-", "to.1", "", '"b"'),
        ("-", "reply", "", "1 field"),
    ]
    assert (found.equal, found.older) == (2, False)


async def test_older_completed_jobs(world: World) -> None:
    ids = []
    for number in range(3):
        ids.append(await completed(world, {"n": number}))
        await world.advance(1)
    job_id = await died(world, {"n": 9})
    for back, (place, older) in enumerate([(2, True), (1, True), (0, False), (0, False)]):
        found = await compare(world.inspector, job_id, back)
        assert found.completed is not None
        assert (found.completed.id, found.older) == (ids[place], older)


async def test_a_completed_job_is_not_compared_with_itself(world: World) -> None:
    before = await completed(world, {"n": 1})
    await world.advance(1)
    job_id = await completed(world, {"n": 2})
    found = await compare(world.inspector, job_id)
    assert found.completed is not None
    assert (found.completed.id, found.older) == (before, False)
    assert lines(found) == [("~", "n", "2", "1")]


async def test_nothing_to_compare_with(world: World) -> None:
    job_id = await died(world, {"n": 9})
    found = await compare(world.inspector, job_id)
    assert (found.completed, found.fields) == (None, ())
    await completed(world, {"n": 1})
    other = await died(world, "[1]")
    assert (await compare(world.inspector, other)).fields == ()
    with pytest.raises(JobNotFound):
        await compare(world.inspector, "01a20733-66f1-76e4-a5fd-82c70a520471")


async def test_large_and_hostile_payloads(world: World) -> None:
    deep: Any = 1
    for _ in range(50):
        deep = {"\x1b[31m": deep}
    await completed(world, {"deep": deep, "text": "x" * 50_000, "many": list(range(2_000))})
    job_id = await died(world, {"deep": {}, "text": "y" * 50_000, "many": list(range(1, 2_001)), "\u202e": 1})
    found = await compare(world.inspector, job_id)
    assert len(found.fields) == 500
    assert all(max(map(len, (one.path, one.failing, one.completed))) <= 200 for one in found.fields)


async def test_what_distinguishes_best_comes_first(world: World) -> None:
    for number in range(20):
        await completed(world, {"n": number, "id": f"c{number}", "region": "us", "lang": "de", "to": ["x"]})
    for number in range(20):
        job_id = await died(world, {"n": number, "id": f"d{number}", "lang": "fr", "region": "eu", "to": ["x"]})
    found = await compare(world.inspector, job_id)
    assert {one.name for one in found.contrasts[:2]} == {"payload.region", "payload.lang"}
    assert (found.contrasted, found.contrasted_completed) == (20, 20)
    assert {line[1] for line in lines(found)[:2]} == {"region", "lang"}
    assert found.fields[-1].sign == "="
    assert (await compare(world.inspector, found.completed.id)).contrasts == ()  # type: ignore[union-attr]
