"""Lists, counts and frozen ids by filter: every store understands the language alike."""

import pytest

from queue_core.model.filters import Filter, Term, parse
from tests.conformance.making import failure, new_job
from tests.conformance.world import STATES, World


async def found(world: World, text: str) -> set[str]:
    """Return the ids that list, count and ids agree on."""
    where = parse(text)
    page = await world.inspector.jobs(where, 100)
    assert page.cursor is None
    ids = {job.id for job in page.jobs}
    assert await world.inspector.count(where) == len(ids)
    assert set(await world.inspector.ids(where, 100)) == ids
    return ids


@pytest.mark.parametrize("state", STATES)
async def test_by_status(world: World, state: str) -> None:
    ids = {each: await world.job_in(each) for each in STATES}
    if state == "trashed":
        assert await found(world, "trash:yes") == {ids[state]}
        assert await found(world, "trash:yes status:completed") == set()
    else:
        assert await found(world, f"status:{state}") == {ids[state]}
        assert await found(world, f"!status:{state}") == set(ids.values()) - {ids[state], ids["trashed"]}


async def test_everything_but_the_trash(world: World) -> None:
    ids = {state: await world.job_in(state) for state in STATES}
    trashed = ids.pop("trashed")
    assert await found(world, "") == set(ids.values())
    assert await found(world, "trash:yes") == {trashed}


async def test_two_states_at_once_match_nothing(world: World) -> None:
    await world.job_in("dead")
    assert await found(world, "status:dead status:queued") == set()


async def test_words_for_states(world: World) -> None:
    ids = {state: await world.job_in(state) for state in STATES}
    for word, state in (("pending", "queued"), ("processing", "running"), ("failed", "dead"), ("dlq", "dead")):
        assert await found(world, f"status:{word}") == {ids[state]}


@pytest.mark.parametrize("state", STATES)
async def test_by_type_and_queue_in_every_state(world: World, state: str) -> None:
    trash = " trash:yes" if state == "trashed" else ""
    job_id = await world.job_in(state, type="send_email", queue="mail")
    await world.job_in(state, type="resize", queue="images")
    for text in ("type:send_email", "type:~EMAIL", "queue:mail", "queue:~AI", "!type:resize", "!queue:~image"):
        assert await found(world, text + trash) == {job_id}, text
    assert await found(world, "type:send" + trash) == set()
    assert await found(world, "queue:mail type:resize" + trash) == set()
    assert await found(world, "queue:nowhere" + trash) == set()
    assert len(await found(world, "!queue:nowhere" + trash)) == 2


@pytest.mark.parametrize("state", STATES)
async def test_by_priority_tags_and_payload_in_every_state(world: World, state: str) -> None:
    trash = " trash:yes" if state == "trashed" else ""
    given = {"priority": 10, "tags": ("Import", "x"), "payload": '{"user": {"id": 7, "name": "Ada"}, "n": [1, 2.5]}'}
    job_id = await world.job_in(state, **given)
    await world.job_in(state, priority=-3, tags=("y",), payload='{"user": {"id": 70}, "n": [3]}')
    texts = [
        "priority:10", "priority:>9", "priority:high", "!priority:<10", "tag:Import", "tag:~IMP", "!tag:y",
        "payload.user.id=7", "payload.user.id:7.0", "payload.user.id<8", "payload.user.name:Ada",
        "payload.user.name:~ada", "payload.n.0:1", "payload.n.1:2.5", "payload.n.1>2", "!payload.user.id:70",
    ]  # fmt: skip
    for text in texts:
        assert await found(world, text + trash) == {job_id}, text
    for text in ("priority:>10", "tag:import", "tag:Imp", "payload.user:Ada", "payload.user.id:~8", "payload.n.5:1"):
        assert await found(world, text + trash) == set(), text


async def test_payloads_of_every_kind_of_value(world: World) -> None:
    payloads = {
        "true": '{"v": true}', "false": '{"v": false}', "null": '{"v": null}', "zero": '{"v": 0}',
        "text": '{"v": "true"}', "number": '{"v": 12}', "digits": '{"v": "12"}', "float": '{"v": 1.2e1}',
        "object": '{"v": {"true": 1}}', "array": '{"v": ["true"]}', "missing": "{}", "rubbish": "{not json",
        "no object": '["v"]', "large": '{"v": 12345678901234567890}', "huge": '{"v": 1e400}',
        "quote": '{"v": "a\\"b"}', "dotted": '{"v.w": 1}', "empty": '{"v": ""}',
    }  # fmt: skip
    jobs = {name: new_job(payload=payload) for name, payload in payloads.items()}
    await world.store.insert(list(jobs.values()))

    async def names(text: str) -> set[str]:
        ids = await found(world, text)
        return {name for name, job in jobs.items() if job.id in ids}

    assert await names("payload.v:true") == {"true", "text"}
    assert await names("payload.v:false") == {"false"}
    assert await names("payload.v:null") == {"null"}
    assert await names("payload.v:0") == {"zero"}
    assert {"number", "float"} <= await names("payload.v:12") <= {"number", "float", "digits"}
    assert await names("payload.v<12.5") == {"number", "float", "zero"}
    assert await names('payload.v:"a\\"b"') == {"quote"}
    assert await names("payload.v.true:1") == {"object"}
    assert await names("payload.v.0:true") == {"array"}
    assert await names("!payload.v:true") == set(payloads) - {"true", "text"}


async def test_by_error_and_signature(world: World) -> None:
    smtp = failure("smtp mail-7 timed out", signature="9f31c2000000")
    disk = failure("disk full", signature="00aa00bb00cc")
    first = await world.ended("dead", {"failure": smtp})
    second = await world.ended("retrying", {"failure": disk})
    third = await world.ended("dead", {"failure": disk})
    await world.insert()
    assert await found(world, "err:~SMTP") == {first.id}
    assert await found(world, "err:smtp") == {first.id}
    assert await found(world, 'err="OSError: disk full"') == {second.id, third.id}
    assert await found(world, "sig:9f31") == {first.id}
    assert await found(world, "status:dead sig:00aa00bb00cc") == {third.id}
    assert await found(world, "status:dead !sig:9f31") == {third.id}
    assert await found(world, "status:dead sig:31c2") == set()
    assert len(await found(world, "!err:~disk")) == 2


async def test_by_retries_and_worker(world: World) -> None:
    claim = await world.running(worker="host-9:1")
    other = await world.ended("completed", worker="host-8:2")
    fresh = await world.insert()
    retried = await world.ended("retrying")
    assert await found(world, "worker:host-9:1") == {claim.id}
    assert await found(world, "worker:~HOST") == {claim.id, other.id}
    assert await found(world, "!worker:~host") == {fresh, retried.id}
    assert await found(world, "retries:1") == {retried.id}
    assert await found(world, "retries>0") == {retried.id}
    assert await found(world, "retries<1") == {claim.id, other.id, fresh}


@pytest.mark.parametrize("state", STATES)
async def test_by_age_since_the_last_change(world: World, state: str) -> None:
    trash = " trash:yes" if state == "trashed" else ""
    old = await world.job_in(state)
    await world.advance(40)
    new = await world.job_in(state)
    assert await found(world, "age:<20s" + trash) == {new}
    assert await found(world, "age:>20s" + trash) == {old}
    assert await found(world, "age:>1h" + trash) == set()
    assert await found(world, "!age:<20s" + trash) == {old}


async def test_by_id(world: World) -> None:
    ids = await world.insert_many(3)
    assert await found(world, f"id:{ids[1]}") == {ids[1]}
    assert await found(world, f"id:{ids[1].replace('-', '').upper()}") == {ids[1]}
    assert set(ids) >= await found(world, f"id:{ids[1][:13]}") >= {ids[1]}
    assert await found(world, f"id:{ids[1][9:]}") == set()


async def test_by_words(world: World) -> None:
    by_payload = await world.insert(payload='{"to": "Ada@Example.com"}')
    by_type = await world.insert(type="ada_lovelace")
    by_tag = await world.insert(tags=("x", "for-ADA"))
    by_error = (await world.ended("dead", {"failure": failure("no ADA here")})).id
    other = await world.insert()
    assert await found(world, "ada") == {by_payload, by_type, by_tag, by_error}
    assert await found(world, "ada status:queued !tag:x") == {by_payload, by_type}
    assert await found(world, '"no ada here"') == {by_error}
    assert await found(world, "!ada") == {other}
    assert other in await found(world, other[:18])


HOSTILE = ["100%", "a_b", "\\", "'", '"', "%", "_", "[", "é", "🦀", "a\\%b"]


@pytest.mark.parametrize("text", HOSTILE)
async def test_characters_mean_themselves(world: World, text: str) -> None:
    """Nothing of the value is a pattern."""
    job_id = await world.insert(type=f"x{text}y", tags=(f"x{text}y",))
    await world.insert(type="xazby", tags=("1000", "axb"))
    terms = [Term(name, "~", text) for name in ("type", "tag", "word")]
    for term in (*terms, Term("type", "=", f"x{text}y"), Term("tag", "=", f"x{text}y")):
        where = Filter((term,))
        assert await world.inspector.ids(where, 10) == [job_id], term
        assert await world.inspector.count(where) == 1


async def test_all_terms_must_hold(world: World) -> None:
    wanted = await world.insert(type="a", queue="q", priority=9, tags=("x",), payload='{"n": 1}')
    for change in ({"type": "b"}, {"queue": "r"}, {"priority": 8}, {"tags": ()}, {"payload": '{"n": 2}'}):
        await world.insert(**{"type": "a", "queue": "q", "priority": 9, "tags": ("x",), "payload": '{"n": 1}'} | change)
    text = "type:a queue:q priority:9 tag:x payload.n:1 status:queued age:<1h"
    assert await found(world, text) == {wanted}


async def test_count_stops_at_its_bound(world: World) -> None:
    await world.insert_many(10)
    assert await world.inspector.count(Filter()) == 10
    assert await world.inspector.count(Filter(), at_most=4) == 4
    assert await world.inspector.count(Filter(), at_most=10) == 10


async def test_ids_stop_at_their_bound(world: World) -> None:
    ids = await world.insert_many(10)
    some = await world.inspector.ids(Filter(), 4)
    assert len(set(some)) == 4
    assert set(some) <= set(ids)


async def test_by_the_time_of_death(world: World) -> None:
    ids = []
    for _ in range(4):
        ids.append(await world.job_in("dead"))
        await world.advance(60)
    await world.job_in("completed")
    trashed = await world.trashed()
    moments = [(await world.job(one)).updated_at.isoformat() for one in ids]
    assert await found(world, f'died:"{moments[1]}..{moments[3]}"') == set(ids[1:3])
    assert await found(world, f'died:"{moments[2]}.." !died:"{moments[3]}.."') == {ids[2]}
    assert await found(world, f'died:"..{moments[1]}"') == {ids[0]}
    assert await found(world, f'died:"{moments[0]}.." status:completed') == set()
    assert await found(world, f'died:"{moments[0]}.." trash:yes') == {trashed.id}
    assert await found(world, f'died:"{moments[0]}..{moments[3]}" trash:yes') == set()
    where = parse(f'died:"{moments[1]}..{moments[3]}"')
    assert [job.id for job in (await world.inspector.jobs(where, 9, None, "oldest")).jobs] == ids[1:3]
    page = await world.inspector.jobs(where, 1)
    assert [job.id for job in page.jobs] == [ids[2]]
    assert [job.id for job in (await world.inspector.jobs(where, 1, page.cursor)).jobs] == [ids[1]]
    (group,) = await world.inspector.signatures(where, 3600.0, 4, 10)
    assert group.count == 2
    searched = await world.inspector.search(parse(f'died:"{moments[1]}..{moments[3]}" text:OSError'), 10)
    assert (set(searched.ids), searched.looked_at) == (set(ids[1:3]), searched.total)


async def test_by_the_time_of_death_also_in_the_trash(world: World) -> None:
    """Whenever it was deleted: a list of the trash is in the order of that."""
    early = [await world.job_in("dead") for _ in range(2)]
    await world.advance(60)
    marker = await world.job_in("dead")
    late = [await world.job_in("dead") for _ in range(2)]
    await world.advance(60)
    between = (await world.job(marker)).updated_at.isoformat()
    await world.change("delete", [*late, *early])
    assert await found(world, f'died:"..{between}" trash:yes') == set(early)
    assert await found(world, f'died:"{between}.." trash:yes') == set(late)
    assert await found(world, f'!died:"{between}.." trash:yes') == set(early)
    for where, ids in ((f'died:"..{between}"', early), (f'died:"{between}.."', late)):
        page = await world.inspector.search(parse(f"{where} text:OSError trash:yes"), 10)
        assert set(page.ids) == set(ids)


async def test_by_the_host_of_the_worker(world: World) -> None:
    first = (await world.ended("dead", {}, worker="mx-7:12:a1b2c3")).id
    other = (await world.ended("dead", {}, worker="mx-70:12:a1b2c3")).id
    waiting = await world.job_in("queued")
    assert await found(world, "host:mx-7") == {first}
    assert await found(world, "host:~MX") == {first, other}
    assert await found(world, "host:~12") == set()
    assert await found(world, "!host:mx-7") == {other, waiting}


async def test_by_the_release_of_the_worker(world: World) -> None:
    ids = {}
    for name in ("r123", "r124"):
        number = await world.store.register_release(name)
        ids[name] = await world.insert()
        await world.settle(await world.claim_job(ids[name], release=number), "dead")
    waiting = await world.job_in("queued")
    unknown = await world.job_in("dead")
    assert await found(world, "release:r124") == {ids["r124"]}
    assert await found(world, "release:~R12") == set(ids.values())
    assert await found(world, "release:r125") == set()
    assert await found(world, "!release:r124") == {ids["r123"], waiting, unknown}
