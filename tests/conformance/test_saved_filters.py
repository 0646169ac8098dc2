"""Filters that operators save by name: shared, recorded, undone, and bounded."""

from __future__ import annotations

import asyncio

import pytest

from queue_core.client.effects import Effects
from queue_core.client.operating.filters import SavedFilters
from queue_core.client.operations import Operations
from queue_core.errors import FilterError, InvalidArgument, ReadOnly
from queue_core.model.filters.saved import MAX_SAVED, SavedFilter
from queue_core.model.operation import Author
from tests.conformance.world import World

ANA = Author("ana", "vm")


def filters_of(world: World) -> SavedFilters:
    effects = Effects(None, None)  # type: ignore[arg-type]
    operations = Operations(world.operations, effects, world.store, world.inspector)
    return SavedFilters(world.inspector, world.operations, operations)


async def texts(filters: SavedFilters) -> dict[str, str]:
    return {saved.name: saved.text for saved in await filters.list()}


async def test_save_change_and_remove(world: World) -> None:
    filters = filters_of(world)
    await filters.save("smtp-eu", "error:smtp payload.region=eu", author=ANA, why="the incident")
    await filters.save("a", "queue:mail")
    assert await texts(filters) == {"a": "queue:mail", "smtp-eu": "error:smtp payload.region=eu"}
    assert [saved.by for saved in await filters.list()][1] == "ana"
    await filters.save("a", " died:15m ")
    number = await filters.remove("smtp-eu")
    assert await texts(filters_of(world)) == {"a": "died:15m"}
    request = (await world.operations.get(number)).request
    assert (request.verb, request.label) == ("remove", "filter smtp-eu")
    assert [one.request.verb for one in await world.operations.list_operations(9)] == ["remove", "save", "save", "save"]


async def test_undo(world: World) -> None:
    filters = filters_of(world)
    first = await filters.save("a", "queue:x")
    second = await filters.save("a", "queue:y")
    assert await filters.undo(first) is None
    back = await filters.undo(second, author=ANA)
    assert back is not None
    assert await texts(filters) == {"a": "queue:x"}
    assert (await world.operations.get(back)).request.why == f"undoes #{second}"
    removed = await filters.remove("a")
    await filters.undo(removed)
    assert await texts(filters) == {"a": "queue:x"}
    await filters.save("a", "queue:w")
    assert await filters.undo(removed) is None
    await filters.remove("a")
    only = await filters.save("b", "queue:z")
    await filters.undo(only)
    assert await texts(filters) == {}


async def test_two_who_save_at_once_lose_nothing(world: World) -> None:
    filters = filters_of(world)
    await asyncio.gather(*(filters.save(name, f"queue:{name}") for name in ("a", "b", "a", "c")))
    assert set(await texts(filters)) == {"a", "b", "c"}
    (saved,) = [one for one in await world.inspector.saved_filters() if one.name == "a"]
    assert len(saved.changes) == 2
    assert not await world.operations.set_filter("a", saved.changes[0][0], SavedFilter("a", "queue:late"))
    assert not await world.operations.set_filter("a", 0, SavedFilter("a", "queue:late", changes=((99, "", "x"),)))
    assert not await world.operations.set_filter("a", saved.changes[0][0], None), "it was changed since"
    assert "a" in await texts(filters)
    assert not await world.operations.set_filter("d", 7, SavedFilter("d", "queue:late", changes=((99, "", "x"),)))


@pytest.mark.parametrize(
    "name", ["", "a b", "a\nb", "\x1b[31mred", "r\u202eeversed", "x" * 65, "-x", "\u200b", 3, "\x00"]
)
async def test_names_that_cannot_be(world: World, name: str) -> None:
    with pytest.raises(InvalidArgument):
        await filters_of(world).save(name, "queue:x")
    assert await world.operations.list_operations(10) == []


async def test_filters_that_cannot_be(world: World) -> None:
    filters = filters_of(world)
    for text in ("", "  ", "queue:" + "x" * 1000, None):
        with pytest.raises(InvalidArgument):
            await filters.save("a", text)  # type: ignore[arg-type]
    for text in ("nofield:x", 'queue:"x', "queue:x\x1b", "a\nb"):
        with pytest.raises(FilterError):
            await filters.save("a", text)
    with pytest.raises(InvalidArgument, match="no filter is saved as 'a'"):
        await filters.remove("a")
    for refused in (filters.read_only().save("a", "queue:x"), filters.read_only().remove("a")):
        with pytest.raises(ReadOnly):
            await refused
    assert await world.operations.list_operations(10) == []


async def test_hostile_names_are_kept_as_they_are(world: World) -> None:
    filters = filters_of(world)
    for name in ("';drop_table_x;--", "%_*?[", "naïve", "{a}", "a:b", "日本"):
        await filters.save(name, 'error:"it\'s 100% {x} %(y)s"')
        assert (await texts(filters))[name] == 'error:"it\'s 100% {x} %(y)s"'


async def test_no_more_than_two_hundred(world: World) -> None:
    filters = filters_of(world)
    for number in range(MAX_SAVED - 1):
        await world.operations.set_filter(
            f"n{number}", 0, SavedFilter(f"n{number}", "queue:x", changes=((1, "", "x"),))
        )
    await filters.save("last", "queue:x")
    with pytest.raises(InvalidArgument, match="200 filters are saved"):
        await filters.save("more", "queue:x")
    await filters.save("last", "queue:y")
    await filters.remove("last")
    await filters.save("more", "queue:x")


async def test_old_removed_ones_are_forgotten(world: World) -> None:
    filters = filters_of(world)
    for number in range(MAX_SAVED):
        gone = SavedFilter(f"n{number}", "", at=number + 1.0, changes=((1, "x", ""),))
        await world.operations.set_filter(gone.name, 0, gone)
    await filters.save("a", "queue:x")
    await filters.remove("a")
    names = {saved.name for saved in await world.inspector.saved_filters()}
    assert len(names) == MAX_SAVED
    assert "n0" not in names
    assert "a" in names


@pytest.mark.parametrize("text", ["@a", "!@a", "-@a", "@a queue:images", "@b"])
async def test_a_filter_that_names_another_is_not_saved(world: World, text: str) -> None:
    filters = filters_of(world)
    await filters.save("a", "queue:mail")
    with pytest.raises(FilterError, match="saved"):
        await filters.save("b", text)
    assert await texts(filters) == {"a": "queue:mail"}
    assert len(await world.operations.list_operations(9)) == 1
    await filters.save("b", '"@a"')
