"""What happens in the stores of tests, and how tests wait for the next thing."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

from tests.cli.conftest import Shop
from tests.cli.test_looking import job_id
from tests.conformance.making import failure
from tests.conformance.world import World
from tests.waiting import until

Scene = Callable[[World], Awaitable[None]]
DEAD = [job_id(number) for number in range(21, 25)]
WAITING, RUNNING = job_id(31), job_id(32)


async def four_dead(world: World) -> None:
    """Four dead jobs of two signatures, one that waits and one that runs."""
    for index, one in enumerate(DEAD):
        cause = failure(signature="aaaaaaaaaaaa" if index < 3 else "bbbbbbbbbbbb")
        payload = json.dumps({"to": "x", "n": index})
        await world.ended("dead", {"failure": cause}, id=one, type="send", payload=payload)
    await world.running(id=RUNNING)
    await world.insert(id=WAITING)


def many_dead(number: int) -> Scene:
    """Return what makes so many dead jobs."""

    async def scene(world: World) -> None:
        await world.insert_many(number)
        claims = await world.claim(number)
        for claim in claims:
            await world.settle(claim, "dead")

    return scene


def operations(shop: Shop) -> list[dict[str, Any]]:
    """Return all operations, the newest first."""
    found: list[dict[str, Any]] = shop("op", "list", "--json").body["operations"]
    return found


def operation(shop: Shop, number: int) -> dict[str, Any]:
    """Return one operation."""
    body: dict[str, Any] = shop("op", "show", str(number), "--json").body["operation"]
    return body


def await_operation(shop: Shop, number: int, condition: Callable[[dict[str, Any]], bool]) -> None:
    """Wait until an operation is there and something holds of it."""

    def holds() -> bool:
        found = {one["number"]: one for one in operations(shop)}
        return number in found and condition(found[number])

    assert until(holds), operations(shop)


def status(shop: Shop, *ids: str) -> list[str]:
    """Return where jobs are; those in the trash are trashed."""
    jobs = [shop("job", "show", one, "--json").body["job"] for one in ids]
    return ["trashed" if job["trashed_at"] else job["status"] for job in jobs]
