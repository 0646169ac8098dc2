"""Signatures: the dead jobs in groups of one cause, with growth and history."""

import pytest

from queue_core.model.filters import Filter, parse
from queue_core.model.report import SignatureInfo
from tests.conformance.making import failure
from tests.conformance.world import World

SMTP = failure("smtp", signature="aaaaaaaaaaaa", title="TimeoutError: smtp <host>", exception="builtins.TimeoutError")
DISK = failure("disk", signature="bbbbbbbbbbbb", title="OSError: disk full on <path>")


async def groups(world: World, text: str = "", window: float = 3600.0, slices: int = 4) -> list[SignatureInfo]:
    return await world.inspector.signatures(parse(text), window, slices, 100)


async def dead(world: World, why: object, **given: object) -> str:
    return (await world.ended("dead", {"failure": why}, **given)).id


async def test_nothing_is_dead(world: World) -> None:
    await world.job_in("retrying")
    await world.job_in("completed")
    assert await groups(world) == []


async def test_jobs_of_one_cause_are_one_group(world: World) -> None:
    first = await dead(world, SMTP, type="send_email", queue="mail")
    await world.advance(5)
    await dead(world, SMTP, type="send_email", queue="mail")
    await world.advance(5)
    newest = await dead(world, SMTP, type="send_sms", queue="phone")
    (group,) = await groups(world)
    assert (group.signature, group.title, group.count) == ("aaaaaaaaaaaa", "TimeoutError: smtp <host>", 3)
    assert group.types == (("send_email", 2), ("send_sms", 1))
    assert sorted(group.queues) == ["mail", "phone"]
    assert group.sample_id == newest
    assert group.last_seen == (await world.job(newest)).completed_at
    assert abs((group.first_seen - (await world.job(first)).updated_at).total_seconds()) < 1


async def test_what_grew_most_comes_first(world: World) -> None:
    for _ in range(3):
        await dead(world, DISK)
    await world.advance(7200)
    await dead(world, SMTP)
    assert [(group.signature[0], group.count, group.grown) for group in await groups(world)] == [
        ("a", 1, 1),
        ("b", 3, 0),
    ]
    assert [group.signature[0] for group in await groups(world, window=36000)] == ["b", "a"]
    assert [group.signature[0] for group in await world.inspector.signatures(Filter(), 3600, 4, 1)] == ["a"]


async def test_then_by_count(world: World) -> None:
    for why, count in ((SMTP, 1), (DISK, 3)):
        for _ in range(count):
            await dead(world, why)
    await world.advance(7200)
    assert [group.signature[0] for group in await groups(world)] == ["b", "a"]


@pytest.mark.parametrize("summed_up", [False, True])
async def test_the_trend_is_deaths_per_slice_oldest_first(world: World, summed_up: bool) -> None:
    """Slices of ten minutes; growth is known to the minute, so the deaths are kept away from the borders."""
    for ago in (2, 1):
        for _ in range(ago):
            await dead(world, SMTP)
        await world.advance(600)
    await dead(world, SMTP)
    await world.advance(300)
    if summed_up:
        await world.upkeep()
    (group,) = await groups(world, window=3600, slices=6)
    assert group.trend == (0, 0, 0, 2, 1, 1)
    assert (group.grown, group.count) == (4, 4)
    (group,) = await groups(world, window=600, slices=1)
    assert (group.trend, group.grown) == ((1,), 1)


async def test_deaths_before_the_window_do_not_count_as_growth(world: World) -> None:
    await dead(world, SMTP)
    await world.advance(1800)
    (group,) = await groups(world, window=600, slices=3)
    assert (group.count, group.grown, group.trend) == (1, 0, (0, 0, 0))


async def test_a_retried_job_that_dies_again_grows_its_group(world: World) -> None:
    job_id = await dead(world, SMTP)
    await world.change("retry", [job_id])
    assert await groups(world) == []
    await world.settle(await world.claim_job(job_id), "dead", failure=SMTP)
    (group,) = await groups(world)
    assert (group.count, group.grown) == (1, 2)


async def test_a_job_belongs_to_its_last_failure(world: World) -> None:
    job_id = await dead(world, SMTP)
    await world.change("retry", [job_id])
    await world.settle(await world.claim_job(job_id), "dead", failure=DISK)
    assert [group.signature for group in await groups(world)] == [DISK.signature]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("queue:mail", {"a": 2}),
        ("type:copy", {"a": 1, "b": 1}),
        ("sig:bbbb", {"b": 1}),
        ("!sig:bbbb", {"a": 2}),
        ("err:~disk", {"b": 1}),
        ("status:dead", {"a": 2, "b": 1}),
        ("status:completed", {}),
        ("queue:nowhere", {}),
        ("tag:x", {"a": 1}),
        ("priority:9", {"b": 1}),
    ],
)
async def test_groups_of_those_that_match(world: World, text: str, found: dict[str, int]) -> None:
    await dead(world, SMTP, queue="mail", type="send", tags=("x",))
    await dead(world, SMTP, queue="mail", type="copy")
    await dead(world, DISK, queue="files", type="copy", priority=9)
    assert {group.signature[0]: group.count for group in await groups(world, text)} == found


@pytest.mark.parametrize(
    ("text", "grown"),
    [
        ("", {"a": 4, "b": 1}),
        ("queue:mail", {"a": 4, "b": 1}),
        ("sig:aaaa", {"a": 4}),
        ("type:copy", {"a": 1, "b": 1}),
        ("type:send", {"a": 1}),
        ("payload.n=7", {"a": 1}),
        ("!tag:x", {"a": 1, "b": 1}),
        ("err:~disk", {"b": 1}),
        ("age:<20m", {"a": 1, "b": 1}),
    ],
)
async def test_growth_and_trend_are_those_of_the_jobs_that_match(
    world: World, text: str, grown: dict[str, int]
) -> None:
    """A retried job is not dead any more: only the whole group still counts its death."""
    await dead(world, SMTP, queue="mail", type="send", tags=("x",), payload='{"n": 7}')
    await world.change("retry", [await dead(world, SMTP, queue="mail", type="send")])
    await dead(world, SMTP, queue="mail", type="copied", tags=("x",))
    await world.advance(1800)
    await dead(world, SMTP, queue="mail", type="copy")
    await dead(world, DISK, queue="mail", type="copy")
    found = await groups(world, text)
    assert {group.signature[0]: group.grown for group in found} == grown
    assert all(sum(group.trend) == group.grown for group in found)
    assert [group.trend[-1] for group in found if group.signature == DISK.signature] == [1] * ("b" in grown)


async def test_of_jobs_that_match_only_the_deaths_within_the_window_count(world: World) -> None:
    await dead(world, SMTP, type="send")
    await world.advance(1800)
    (group,) = await groups(world, "type:send", window=600, slices=3)
    assert (group.count, group.grown, group.trend) == (1, 0, (0, 0, 0))


async def test_the_trash_has_groups_of_its_own(world: World) -> None:
    job_id = await dead(world, SMTP)
    await dead(world, DISK)
    await world.change("delete", [job_id])
    assert [group.signature[0] for group in await groups(world)] == ["b"]
    assert [group.signature[0] for group in await groups(world, "trash:yes")] == ["a"]


async def test_totals_folded_or_not(world: World) -> None:
    await dead(world, SMTP)
    before = await groups(world)
    await world.store.upkeep()
    assert await groups(world) == before
    await dead(world, SMTP)
    (group,) = await groups(world)
    assert (group.count, group.grown) == (2, 2)


async def test_titles_are_found_by_the_beginning_of_a_signature(world: World) -> None:
    for signature in ("aaaa00000000", "aaaa11111111", "bbbb00000000"):
        await world.ended("dead", {"failure": failure(signature=signature, title=f"OSError: {signature}")})
    await world.change("retry", [job.id for job in (await world.inspector.jobs(Filter(), 10)).jobs])
    found = {name: f"OSError: {name}" for name in ("aaaa00000000", "aaaa11111111")}
    assert await world.inspector.titles("aaaa", 10) == found
    assert list(await world.inspector.titles("", 2)) == list(found)
    assert await world.inspector.titles("aaaab", 10) == {}
