"""What the dead jobs of an error have in common, and what distinguishes them from completed ones."""

import json
from typing import Any

import pytest

from queue_core.client.causes import breakdown as breakdowns
from queue_core.client.causes.breakdown import breakdown
from queue_core.model.filters import Filter, parse
from queue_core.model.report import Breakdown, Dimension
from tests.conformance.making import failure
from tests.conformance.working import PATIENCE
from tests.conformance.world import World

SMTP = failure("smtp", signature="aaaaaaaaaaaa", title="TimeoutError: smtp <host>")
DISK = failure("disk", signature="bbbbbbbbbbbb", title="OSError: disk full")
A, B = "mx-7:11:aaaaaa", "mx-2:12:bbbbbb"


async def died(world: World, payload: object, worker: str = A, why: object = SMTP, **given: Any) -> str:
    given = {"type": "send", "queue": "mail"} | given
    return (await world.ended("dead", {"failure": why}, payload=json.dumps(payload), worker=worker, **given)).id


async def completed(world: World, payload: object, worker: str = B, **given: Any) -> str:
    given = {"type": "send", "queue": "mail"} | given
    return (await world.ended("completed", {}, payload=json.dumps(payload), worker=worker, **given)).id


def of(found: Breakdown, name: str) -> Dimension:
    (one,) = [one for one in (*found.dimensions, *found.fields) if one.name == name]
    return one


def shares(dimension: Dimension) -> list[tuple[str, float, float | None]]:
    return [(share.value, round(share.dead, 2), share.completed) for share in dimension.values]


async def test_nothing_died_of_it(world: World) -> None:
    await died(world, {"a": 1}, why=DISK)
    found = await breakdown(world.inspector, SMTP.signature, PATIENCE)
    assert (found.count, found.sampled, found.completed, found.fields, found.dimensions) == (0, 0, 0, (), ())


async def test_where_they_ran_and_what_they_are(world: World) -> None:
    for number in range(4):
        await died(world, {"n": number}, worker=A if number else B, tags=("import", "x") if number < 2 else ())
    await died(world, {}, queue="bulk", type="copy")
    await completed(world, {}, tags=("import",))
    await completed(world, {}, worker=A, type="copy")
    await died(world, {}, why=DISK)
    found = await breakdown(world.inspector, SMTP.signature, PATIENCE)
    assert (found.signature, found.type, found.count, found.sampled, found.completed) == ("a" * 12, "send", 5, 5, 1)
    assert shares(of(found, "queue")) == [("mail", 0.8, 1.0), ("bulk", 0.2, 0.0)]
    assert of(found, "queue").exact
    assert of(found, "queue").known == 5
    assert shares(of(found, "type")) == [("send", 0.8, None), ("copy", 0.2, None)]
    assert shares(of(found, "host")) == [("mx-7", 0.8, 0.0), ("mx-2", 0.2, 1.0)]
    assert shares(of(found, "worker")) == [(A, 0.8, 0.0), (B, 0.2, 1.0)]
    assert shares(of(found, "tag")) == [("import", 0.4, 1.0), ("x", 0.4, 0.0)]
    assert of(found, "tag").known == 2


async def test_the_fields_of_payloads_that_distinguish_best_come_first(world: World) -> None:
    for number in range(12):
        region = "eu" if number else "us"
        await died(world, {"region": region, "to": [f"a{number}@x"], "id": number, "deep": {"on": True}, "same": 1})
        await completed(world, {"region": "us", "to": ["b", "c"], "id": 100 + number, "deep": {"on": False}, "same": 1})
    found = await breakdown(world.inspector, SMTP.signature, PATIENCE)
    assert [one.name for one in found.fields] == ["payload.id", "payload.to", "payload.deep.on"]
    assert found.compared == 7
    assert shares(of(found, "payload.deep.on")) == [("true", 1.0, 0.0)]
    assert shares(of(found, "payload.to")) == [("1 item", 1.0, 0.0)]
    assert shares(of(found, "payload.id")) == [("< 100", 1.0, 0.0)]


async def test_a_share_leads_to_the_jobs_that_have_it(world: World) -> None:
    for number in range(9):
        await died(world, {"region": "eu", "to": ["a b"], "size": number, "on": None}, tags=('"quoted" tag',))
        await completed(world, {"region": "us", "to": ["c"], "size": 1000})
    other = await died(world, {"region": "us", "to": ["c"], "size": 1000}, worker=B)
    found = await breakdown(world.inspector, SMTP.signature, PATIENCE)
    for dimension in (*found.dimensions, *found.fields):
        share = dimension.values[0]
        if share.where:
            ids = await world.inspector.ids(parse(f"sig:{SMTP.signature} {share.where}"), 100)
            assert len(ids) == round(share.dead * 10), share
            assert other not in ids or share.dead == 1
    assert {"payload.region", "payload.to"} & {one.name for one in found.fields}


async def test_what_a_payload_lacks_can_distinguish_too(world: World) -> None:
    for _ in range(9):
        await died(world, {"a": 1})
        await completed(world, {"a": 1, "reply_to": "x"})
    (field,) = (await breakdown(world.inspector, SMTP.signature, PATIENCE)).fields
    assert (field.name, shares(field), field.values[0].where) == ("payload.reply_to", [("absent", 1.0, 0.0)], "")


async def test_without_completed_jobs_the_most_frequent_values_are_shown(world: World) -> None:
    for number in range(9):
        await died(world, {"region": "eu", "id": f"{number}"})
    found = await breakdown(world.inspector, SMTP.signature, PATIENCE)
    assert (found.completed, found.since) == (0, None)
    assert [(one.name, shares(one)) for one in found.fields[:1]] == [("payload.region", [("eu", 1.0, None)])]


async def test_hostile_payloads_are_bounded(world: World) -> None:
    payload = {
        "": 1, "a b": 2, 'quo"te': "x", "dot.ted": 3, "\x1b[31m": "\x1b[0m", "n" * 300: 1, "long": "y" * 5000,
        "many": {f"k{number}": number for number in range(500)}, "deep": [[[[[[[[[1]]]]]]]]],
    }  # fmt: skip
    for text in (
        json.dumps(payload),
        '{"n": 1e999}',
        '{"n": ' + "9" * 5000 + "}",
        "[]",
        "{",
        '{"big": "' + "z" * 40_000 + '"}',
    ):
        await world.ended("dead", {"failure": SMTP}, payload=text, worker=A, type="send", queue="mail")
    await completed(world, {})
    found = await breakdown(world.inspector, SMTP.signature, PATIENCE)
    assert found.sampled == 6
    assert all(len(share.value) <= 200 for one in (*found.dimensions, *found.fields) for share in one.values)
    for one in (*found.dimensions, *found.fields):
        for share in one.values:
            parse(share.where)


async def test_a_sample_is_the_newest_that_match(world: World) -> None:
    ids = []
    for number in range(5):
        ids.append(await died(world, {"n": number}))
        await world.advance(1)
        await died(world, {}, why=DISK)
        await world.advance(1)
    where = parse(f"status:dead sig:{SMTP.signature}")
    assert [job.id for job in await world.inspector.sample(where, 3)] == ids[:1:-1]
    third = (await world.job(ids[2])).updated_at
    assert [job.id for job in await world.inspector.sample(where, 3, third)] == ids[1::-1]
    assert [job.id for job in await world.inspector.sample(where, 9, None, 4)] == ids[:2:-1]
    assert await world.inspector.sample(where, 0) in ([], ())
    trash = Filter(where.terms, trash=True)
    await world.change("delete", ids[:1])
    assert [job.id for job in await world.inspector.sample(trash, 3)] == ids[:1]


@pytest.mark.parametrize("size", [5_000, 20_000])
async def test_a_sample_has_payloads_up_to_a_bound(world: World, size: int) -> None:
    await died(world, {"text": "x" * size, "é": "é"})
    (job,) = await world.inspector.sample(parse("status:dead"), 1)
    assert (job.payload is not None) is (size < 16_384)


async def test_dead_jobs_are_counted_by_queue_and_type(world: World) -> None:
    gone = [await died(world, {})]
    await world.advance(1)
    ids = [await died(world, {}) for _ in range(2)]
    await world.advance(1)
    await died(world, {}, queue="bulk")
    await died(world, {}, why=DISK)
    gone.append(await died(world, {}))
    await world.change("delete", gone)
    found = await world.inspector.dead_counts(SMTP.signature)
    assert [(row.queue, row.type, row.count) for row in found.rows] == [("mail", "send", 2), ("bulk", "send", 1)]
    assert (found.total, found.counted) == (3, 3)
    assert found.first == min([(await world.job(one)).updated_at for one in ids])
    assert (await world.inspector.dead_counts("c" * 12)).rows == ()


async def test_by_release(world: World) -> None:
    for name, number in (("r124", 3), ("r123", 1)):
        release = await world.store.register_release(name)
        for _ in range(number):
            claim = await world.claim_job(await world.insert(), release=release)
            await world.settle(claim, "dead", failure=SMTP)
    found = await breakdown(world.inspector, SMTP.signature, PATIENCE)
    assert found.dimensions[0].name == "release"
    assert shares(of(found, "release")) == [("r124", 0.75, None), ("r123", 0.25, None)]
    assert of(found, "release").values[0].where == "release=r124"


async def test_the_usual_type_is_found_once_however_many_jobs_are_looked_at(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found for each job, it took a console's process a quarter of a second at the whole sample."""
    counted = []
    usual_type = breakdowns._Sample.usual_type
    monkeypatch.setattr(breakdowns._Sample, "usual_type", lambda sample: counted.append(1) or usual_type(sample))
    for number in range(9):
        await died(world, {"n": number})
    assert (await breakdown(world.inspector, SMTP.signature, PATIENCE)).sampled == 9
    # for the completed jobs of this type, and for the dead that are compared with them
    assert len(counted) == 2
