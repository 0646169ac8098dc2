"""Announce writes the JSON Schema of each type where it has changed; types gives back what was announced last."""

from typing import Any

from queue_core.model.triage.rules import runbook_in
from tests.conformance.world import World

EMPTY: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}
PATH: dict[str, Any] = {
    "type": "object",
    "properties": {"path": {"type": "string", "default": "a \"b\" \\ {c}, 'd' \u2028 😀"}},
    "required": ["path"],
}


async def test_nothing_was_announced(world: World) -> None:
    await world.store.register_types({})
    assert await world.inspector.types() == {}


async def test_what_was_announced_comes_back(world: World) -> None:
    names = ["resize", "a.b:c/d", 'odd "name"\\', "日本"]
    before = await world.now()
    await world.store.register_types(dict.fromkeys(names, PATH))
    found = await world.inspector.types()
    assert {name: (info.name, info.schema) for name, info in found.items()} == {name: (name, PATH) for name in names}
    after = await world.now()
    assert all(before - 0.001 <= info.announced_at.timestamp() <= after + 0.001 for info in found.values())


async def test_only_what_has_changed_is_written(world: World) -> None:
    await world.store.register_types({"one": PATH, "two": EMPTY})
    before = await world.inspector.types()
    await world.store.register_types({"one": PATH, "two": PATH, "three": EMPTY})
    found = await world.inspector.types()
    assert found["one"] == before["one"]
    assert found["two"].announced_at > before["two"].announced_at
    assert {name: info.schema for name, info in found.items()} == {"one": PATH, "two": PATH, "three": EMPTY}


async def test_a_worker_with_other_types_takes_none_away(world: World) -> None:
    await world.store.register_types({"one": PATH})
    await world.store.register_types({"two": EMPTY})
    assert sorted(await world.inspector.types()) == ["one", "two"]


async def test_what_is_announced_is_not_what_is_live(world: World) -> None:
    """A schema outlives its workers; whether a worker is there for a type is said by the overview."""
    await world.store.register_types({"one": PATH})
    overview = await world.inspector.overview()
    assert overview.workers == ()
    await world.insert(type="one")
    assert (await world.inspector.overview()).orphaned_types == {"one": 1}


async def test_the_same_schema_in_another_order_is_the_same(world: World) -> None:
    await world.store.register_types({"one": {"type": "object", "required": []}})
    before = await world.inspector.types()
    await world.store.register_types({"one": {"required": [], "type": "object"}})
    assert await world.inspector.types() == before


async def test_a_runbook_is_announced_with_its_type(world: World) -> None:
    await world.store.register_types({"one": PATH | {"x-runbook": "https://run.example.org/1"}, "two": PATH})
    found = await world.inspector.types()
    assert [runbook_in(found[name].schema) for name in ("one", "two")] == ["https://run.example.org/1", ""]
    await world.store.register_types({"one": PATH})
    assert runbook_in((await world.inspector.types())["one"].schema) == ""
