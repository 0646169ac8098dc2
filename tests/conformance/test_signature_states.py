"""States of error signatures: new, known, muted, resolved and regressed, and who decides when they change."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from queue_core.client.effects import Effects
from queue_core.client.operating.signatures import Signatures
from queue_core.client.operations import Operations
from queue_core.errors import InvalidArgument, QueueCoreError, ReadOnly, SignatureNotFound
from queue_core.model.filters import parse
from queue_core.model.operation import Author
from queue_core.model.report import HISTOGRAM_BOUNDS
from queue_core.model.triage.signatures import UNTOUCHED, SignatureState
from tests.conformance.making import LEASE, QUEUE, failure, outcome
from tests.conformance.world import World

ANA = Author("ana", "vm")
SIGNATURE = failure().signature


def signatures_of(world: World) -> Signatures:
    effects = Effects(None, None)  # type: ignore[arg-type]
    return Signatures(
        world.inspector, world.operations, Operations(world.operations, effects, world.store, world.inspector)
    )


async def die(world: World, release: str | None = None, **given: Any) -> str:
    job_id = await world.insert(**given)
    number = 0 if release is None else await world.store.register_release(release)
    queue = given.get("queue", QUEUE)
    await world.settle(await world.claim_job(job_id, release=number, queue=queue), "dead")
    return job_id


async def complete(world: World, release: str) -> None:
    job_id = await world.insert()
    await world.settle(await world.claim_job(job_id, release=await world.store.register_release(release)), "completed")


async def state(world: World, window: float = 900.0) -> SignatureState:
    return (await signatures_of(world).get(SIGNATURE, window))[1]


async def word(world: World, window: float = 900.0) -> str:
    return (await state(world, window)).word


@pytest.mark.parametrize("folded", [False, True], ids=["", "folded"])
async def test_since_which_release(world: World, folded: bool) -> None:
    await complete(world, "r122")
    await complete(world, "r123")
    await complete(world, "r123")
    await die(world, "r124")
    await die(world, "r125")
    if folded:
        await world.upkeep()
        await die(world, "r125")
    found = await state(world)
    assert (found.word, found.since, found.suspect) == ("new", "r124", True)
    assert (found.before, found.before_runs, found.died_unknown) == ("r123", 2, 0)
    assert found.died == found.died_since == (3 if folded else 2)


async def test_a_lost_job_died_on_the_release_of_its_worker(world: World) -> None:
    number = await world.store.register_release("r124")
    await world.claim_job(await world.insert(), release=number)
    await world.advance(LEASE + 1)
    assert [one.rank for one in await world.store.reclaim(10, 1)] == [None]
    ((run,), (group,)) = (
        await world.inspector.type_runs(["task"]),
        await world.inspector.signatures(parse("status:dead"), 900.0, 4, 10),
    )
    assert (run.release, run.completed, run.dead) == (number, 0, 1)
    found = (await signatures_of(world).get(group.signature, 900.0))[1]
    assert (found.since, found.died) == ("r124", 1)


async def test_runs_of_types_by_release(world: World) -> None:
    await complete(world, "r123")
    await die(world, "r124")
    # One that was stopped says nothing about its release.
    await world.settle(
        await world.claim_job(await world.insert(), release=await world.store.register_release("r123")), "cancelled"
    )
    numbers = {one.name: one.number for one in await world.inspector.releases()}
    for _ in range(2):
        runs = {
            one.release: (one.type, one.completed, one.dead)
            for one in await world.inspector.type_runs(["task", "other"])
        }
        assert runs == {numbers["r123"]: ("task", 1, 0), numbers["r124"]: ("task", 0, 1)}
        await world.upkeep()
    (ran,) = [one for one in await world.inspector.type_runs(["task"]) if one.completed]
    job = (await world.inspector.jobs(parse("status:completed"), 1)).jobs[0]
    assert job.completed_at is not None
    assert ran.last_at == pytest.approx(job.completed_at.timestamp(), abs=0.001)
    await complete(world, "r123")
    await die(world, "r124")
    await world.upkeep()
    assert sorted((one.completed, one.dead) for one in await world.inspector.type_runs(["task"])) == [(0, 2), (2, 0)]


async def test_deaths_on_a_release_leave_its_last_completion(world: World) -> None:
    await complete(world, "r123")
    await world.upkeep()
    await world.advance(5)
    (before,) = await world.inspector.type_runs(["task"])
    await die(world, "r123")
    for _ in range(2):
        (run,) = await world.inspector.type_runs(["task"])
        assert (run.completed, run.dead, run.last_at) == (1, 1, before.last_at)
        await world.upkeep()


async def test_runs_of_a_type_are_of_its_newest_releases(world: World) -> None:
    for number in range(1, 5):
        await complete(world, f"r{number}")
    numbers = {one.number: one.name for one in await world.inspector.releases()}
    for _ in range(2):
        runs = await world.inspector.type_runs(["task"], 2)
        assert [numbers[one.release] for one in runs] == ["r3", "r4"]
        assert await world.inspector.type_runs(["other"]) == await world.inspector.type_runs([]) == []
        await world.upkeep()


async def test_an_unknown_release_makes_no_suspect(world: World) -> None:
    await complete(world, "r123")
    await die(world)
    await die(world, "r124")
    found = await state(world)
    assert (found.since, found.suspect, found.died_unknown) == ("r124", False, 1)


async def test_new_for_the_window_or_until_taken_note_of(world: World) -> None:
    await die(world)
    assert await word(world) == "new"
    await world.advance(1000)
    assert await word(world) == "known"
    assert await word(world, 3600.0) == "new"
    await signatures_of(world).own(SIGNATURE, author=ANA)
    found = await state(world, 3600.0)
    assert (found.word, found.facts.owner) == ("known", "ana")


async def test_muted_for_a_time(world: World) -> None:
    await die(world)
    await signatures_of(world).mute(SIGNATURE, for_="4h", author=ANA)
    found = await state(world)
    assert (found.word, found.facts.by) == ("muted", "ana")
    await die(world)
    assert await word(world) == "muted"
    await world.advance(4 * 3600 + 1)
    assert await word(world) == "known"


async def test_an_owner_or_a_note_ends_no_mute(world: World) -> None:
    """Who takes it, or writes about it, leaves it as it is, as where it is resolved."""
    signatures = signatures_of(world)
    await die(world)
    for state in ("muted", "resolved"):
        await (signatures.mute(SIGNATURE, for_="4h") if state == "muted" else signatures.resolve(SIGNATURE))
        await signatures.own(SIGNATURE, "bo")
        await signatures.note(SIGNATURE, "smtp-2 is down")
        assert await word(world) == state


async def test_muted_until_it_grows(world: World) -> None:
    await die(world)
    await signatures_of(world).mute(SIGNATURE, until_growth=3)
    await die(world)
    assert await word(world) == "muted"
    await die(world)
    assert await word(world) == "known"
    await signatures_of(world).mute(SIGNATURE, until_growth=2)
    assert await word(world) == "muted"
    await signatures_of(world).mute(SIGNATURE, off=True)
    assert await word(world) == "known"


async def test_only_a_newer_release_brings_it_back(world: World) -> None:
    await die(world, "r124")
    await die(world, "r125")
    await world.advance(1000)
    await signatures_of(world).resolve(SIGNATURE, in_="r125", author=ANA)
    assert await word(world) == "resolved"
    # Older and equal ones, a hotfix of an older line among them, and what began under an unknown one before.
    await die(world, "r125")
    await die(world, "r123")
    await die(world, "r124")
    assert await word(world) == "resolved"
    await die(world, "r126")
    found = await state(world)
    assert (found.word, found.regressed_on, found.facts.by) == ("regressed", "r126", "ana")
    await world.upkeep()
    assert await word(world) == "regressed"
    await world.advance(1000)
    assert await word(world) == "known"


async def test_deaths_before_do_not_count(world: World) -> None:
    await die(world, "r126")
    await world.advance(1)
    await signatures_of(world).resolve(SIGNATURE, in_="r125")
    assert await word(world) == "resolved"
    await world.advance(1)
    await die(world, "r126")
    assert await word(world) == "regressed"


async def test_resolved_in_a_release_that_no_worker_has_announced_yet(world: World) -> None:
    await die(world, "r124")
    await world.advance(1)
    await signatures_of(world).resolve(SIGNATURE, in_="r126")
    await world.advance(1)
    await die(world, "r124")
    await die(world, "r125")
    assert await word(world) == "resolved"
    await die(world, "r126")
    assert await word(world) == "resolved"
    await die(world, "r127")
    assert await word(world) == "regressed"


async def test_resolved_in_an_unannounced_release_whose_name_has_no_order(world: World) -> None:
    await die(world, "r124")
    await world.advance(1)
    await signatures_of(world).resolve(SIGNATURE, in_="hotfix")
    await world.advance(1)
    await die(world, "r124")
    assert await word(world) == "resolved"
    await die(world, "r125")
    assert await word(world) == "regressed", "it was deployed after that"


async def test_resolved_in_the_next_release(world: World) -> None:
    await die(world, "r124")
    await world.store.register_release("r125")
    await world.advance(1)
    await signatures_of(world).resolve(SIGNATURE, in_="next")
    await world.advance(1)
    await die(world, "r124")
    await die(world, "r125")
    assert await word(world) == "resolved"
    await die(world, "r126")
    assert await word(world) == "regressed"


async def test_resolved_now(world: World) -> None:
    number = await world.store.register_release("r124")
    running = await world.claim_job(await world.insert(), release=number)
    await die(world, "r124")
    await world.advance(1)
    await signatures_of(world).resolve(SIGNATURE)
    await world.advance(1)
    await world.settle(running, "dead")
    assert await word(world) == "resolved", "it began before"
    await die(world, "r124")
    assert await word(world) == "regressed"


async def test_an_unknown_release_counts_by_its_begin(world: World) -> None:
    before = await world.running()
    await die(world, "r124")
    await world.advance(1)
    await signatures_of(world).resolve(SIGNATURE, in_="r124")
    await world.advance(1)
    await world.settle(before, "dead")
    assert await word(world) == "resolved"
    await die(world)
    assert await word(world) == "regressed"


async def test_taking_note_of_what_came_back(world: World) -> None:
    await die(world, "r124")
    await world.advance(1)
    await signatures_of(world).resolve(SIGNATURE, in_="r124")
    await world.advance(1)
    await die(world, "r125")
    assert await word(world) == "regressed"
    await signatures_of(world).note(SIGNATURE, "the fix was reverted", link="https://example.org/1", author=ANA)
    found = await state(world)
    assert (found.word, found.facts.note, found.facts.note_by) == ("known", "the fix was reverted", "ana")
    assert found.facts.link == "https://example.org/1"


async def since(world: World, job_id: str) -> tuple[str, bool]:
    """Return the state of the signature, and whether it came back when this job died."""
    found = await state(world)
    died = (await world.job(job_id)).completed_at
    assert died is not None
    return found.word, found.regressed_at == pytest.approx(died.timestamp(), abs=0.001)


@pytest.mark.parametrize("folded", [False, True], ids=["", "folded"])
@pytest.mark.parametrize("in_", ["now", "r123"])
async def test_an_attempt_from_before_does_not_bring_it_back_on_an_unknown_release(
    world: World, in_: str, folded: bool
) -> None:
    """Nor is its death the one by which it came back when another brings it back there."""
    await die(world, "r123")
    early = await world.running()
    await world.advance(5)
    await signatures_of(world).resolve(SIGNATURE, in_=in_)
    await world.advance(5)
    await world.settle(early, "dead")
    if folded:
        await world.upkeep()
    assert await word(world) == "resolved"
    await world.advance(5)
    back = await die(world)
    if folded:
        await world.upkeep()
    assert await since(world, back) == ("regressed", True)


@pytest.mark.parametrize("folded", [False, True], ids=["", "folded"])
@pytest.mark.parametrize("release", [None, "r124"])
@pytest.mark.parametrize("in_", ["now", "r123"])
async def test_it_came_back_when_the_first_job_died_since(
    world: World, in_: str, release: str | None, folded: bool
) -> None:
    """Also where jobs had died of it on that release before, and however many die afterwards."""

    async def fold() -> None:
        if folded:
            await world.upkeep()

    await die(world, "r123")
    await die(world, release)
    await fold()
    await die(world, release)
    await world.advance(5)
    first = await signatures_of(world).resolve(SIGNATURE, in_=in_)
    await world.advance(5)
    back = await die(world, release)
    assert await since(world, back) == ("regressed", True)
    await fold()
    await world.advance(600)
    await die(world, release)
    assert await since(world, back) == ("regressed", True)
    await fold()
    assert await since(world, back) == ("regressed", True)
    await world.advance(600)
    assert await since(world, back) == ("known", True), "the window is over"
    await die(world, release)
    await fold()
    assert await since(world, back) == ("known", True)
    # It begins again with each time that it is resolved, and an undo goes back to the time before.
    await world.advance(5)
    second = await signatures_of(world).resolve(SIGNATURE, in_=in_)
    assert await word(world) == "resolved"
    await world.advance(5)
    again = await die(world, release)
    await fold()
    await world.advance(5)
    await die(world, release)
    await fold()
    assert await since(world, again) == ("regressed", True)
    await signatures_of(world).undo(second)
    assert await since(world, back) == ("known", True)
    await die(world, release)
    await fold()
    assert await since(world, back) == ("known", True)
    await signatures_of(world).undo(first)
    assert (await state(world)).regressed_at is None


async def test_what_began_before_it_was_resolved_is_no_return_and_not_its_time(world: World) -> None:
    for release in (None, "r124"):
        number = 0 if release is None else await world.store.register_release(release)
        running = await world.claim_job(await world.insert(), release=number)
        await die(world, release)
        await world.advance(5)
        await signatures_of(world).resolve(SIGNATURE)
        await world.advance(5)
        await world.settle(running, "dead")
        await world.upkeep()
        assert await word(world) == "resolved"
        await world.advance(1000)
        back = await die(world, release)
        await world.advance(5)
        await die(world, release)
        assert await since(world, back) == ("regressed", True)
        await world.upkeep()
        assert await since(world, back) == ("regressed", True)


async def test_it_comes_back_on_any_queue(world: World) -> None:
    """Also on one that had none of its deaths before, or was not there when it was resolved."""
    await die(world, "r124")
    await die(world, "r124", queue="second")
    await world.advance(5)
    await signatures_of(world).resolve(SIGNATURE)
    await world.advance(5)
    job_id = await die(world, "r124", queue="third")
    await world.advance(5)
    await die(world, "r124")
    assert await since(world, job_id) == ("regressed", True)
    await world.upkeep()
    await world.advance(5)
    await die(world, "r124", queue="second")
    assert await since(world, job_id) == ("regressed", True)


async def test_deaths_of_retried_jobs_count(world: World) -> None:
    job_id = await die(world, "r124")
    await die(world, "r124")
    await world.advance(1)
    await signatures_of(world).resolve(SIGNATURE, in_="r124")
    await world.change("retry", [job_id])
    await world.settle(await world.claim_job(job_id, release=await world.store.register_release("r125")), "dead")
    await world.change("delete", [job_id])
    assert await word(world) == "regressed"


async def test_the_first_and_the_last_death_on_a_release_stay_what_they_were(world: World) -> None:
    """Also where upkeep sums them up one after the other, and those together that died in one batch."""
    number = await world.store.register_release("r124")
    ids = await world.insert_many(3)
    # All have waited longer than the last bound of the histogram: those of one bucket are summed up together.
    await world.advance(2 * HISTOGRAM_BOUNDS[-1])
    claims = []
    for job_id in ids:
        claims.append(await world.claim_job(job_id, release=number))
        await world.advance(10)
    slow, early, late = claims
    await world.store.settle([outcome(late, "dead"), outcome(early, "dead")])
    await world.upkeep()
    (before,) = await world.inspector.signature_deaths([SIGNATURE])
    assert before.first_at - before.last_started < 15
    last = await world.claim_job(await world.insert(), release=number)
    await world.settle(last, "dead")
    await world.upkeep()
    (after,) = await world.inspector.signature_deaths([SIGNATURE])
    assert after.died == 3
    assert before.first_at <= after.first_at < after.last_at
    assert after.first_at == pytest.approx(before.first_at, abs=0.001)
    assert after.last_started > before.last_started
    await world.settle(slow, "dead")
    await world.upkeep()
    (end,) = await world.inspector.signature_deaths([SIGNATURE])
    assert (end.died, end.last_started) == (4, pytest.approx(after.last_started, abs=0.001))


async def test_a_lost_job_counts_on_the_release_of_its_worker(world: World) -> None:
    number = await world.store.register_release("r124")
    await world.claim_job(await world.insert(), release=number)
    await world.advance(400)
    (lost,) = await world.store.reclaim(10, 1)
    signature = (await world.job(lost.id)).signature
    (died,) = await world.inspector.signature_deaths([str(signature)])
    assert (died.release, died.died) == (number, 1)
    assert 0 < died.last_started < died.first_at == died.last_at


async def test_each_change_is_recorded_and_can_be_undone(world: World) -> None:
    await die(world, "r124")
    signatures = signatures_of(world)
    first = await signatures.own(SIGNATURE, "bo", author=ANA, why="on call")
    second = await signatures.note(SIGNATURE, "look at mx-7", author=ANA)
    third = await signatures.resolve(SIGNATURE, in_="r125", author=ANA)
    recorded = [await world.operations.get(number) for number in (first, second, third)]
    assert [(one.request.verb, one.state, one.request.signatures) for one in recorded] == [
        (verb, "done", (SIGNATURE,)) for verb in ("own", "note", "resolve")
    ]
    assert recorded[0].request.author == ANA
    assert recorded[0].request.why == "on call"
    assert await signatures.undo(third) is not None
    assert await signatures.undo(second) is not None
    found = (await state(world)).facts
    assert (found.state, found.note, found.owner) == ("", "", "bo")
    assert await signatures.undo(second) is None, "undone once"
    await signatures.own(SIGNATURE, "ana")
    assert await signatures.undo(first) is None, "changed since"


async def test_what_is_resolved_is_not_unmuted(world: World) -> None:
    await die(world, "r124")
    signatures = signatures_of(world)
    await signatures.resolve(SIGNATURE, in_="r125")
    await signatures.mute(SIGNATURE, off=True)
    assert await word(world) == "resolved"
    await signatures.mute(SIGNATURE, for_="4h")
    await signatures.resolve(SIGNATURE, off=True)
    assert await word(world) == "muted"


async def test_one_whose_jobs_were_all_retried_can_be_resolved(world: World) -> None:
    job_id = await die(world, "r124")
    await world.advance(1)
    await world.change("retry", [job_id])
    signatures = signatures_of(world)
    with pytest.raises(SignatureNotFound):
        await signatures.get(SIGNATURE)
    assert (await signatures.known(SIGNATURE))[0].count == 0
    await signatures.resolve(SIGNATURE, in_="r125")
    release = await world.store.register_release("r126")
    await world.settle(await world.claim_job(job_id, release=release), "dead")
    assert await word(world) == "regressed"


async def test_two_who_write_at_once_lose_nothing(world: World) -> None:
    await die(world)
    before = (await world.inspector.signature_facts([SIGNATURE])).facts
    await signatures_of(world).own(SIGNATURE, "ana")
    _, facts = await world.inspector.signature_facts([SIGNATURE])
    assert not await world.operations.set_facts(SIGNATURE, before.get(SIGNATURE) or UNTOUCHED, facts[SIGNATURE])
    await signatures_of(world).note(SIGNATURE, "x")
    assert not await world.operations.set_facts(SIGNATURE, facts[SIGNATURE], facts[SIGNATURE]), "it was changed since"
    found = (await state(world)).facts
    assert (found.owner, found.note) == ("ana", "x")
    assert (await world.inspector.signature_facts()).facts.keys() == {SIGNATURE}


@pytest.mark.parametrize("text", ["a\nb", "\x1b[31mred", "r\u202eeversed", "x" * 501, "", "\u200b"])
async def test_texts_that_cannot_be(world: World, text: str) -> None:
    await die(world)
    with pytest.raises(InvalidArgument):
        await signatures_of(world).note(SIGNATURE, text)
    with pytest.raises(InvalidArgument):
        await signatures_of(world).own(SIGNATURE, text)
    with pytest.raises(InvalidArgument):
        await signatures_of(world).resolve(SIGNATURE, in_=text)
    assert await world.operations.list_operations(10) == []


async def test_a_rehearsal_refuses_what_the_change_would_and_writes_nothing(world: World) -> None:
    await die(world)
    signatures = signatures_of(world)
    trying = signatures.read_only().dry_run()
    assert await trying.own(SIGNATURE, "ana") == 0
    with pytest.raises(InvalidArgument, match="has passed"):
        await trying.mute(SIGNATURE, until=datetime(2020, 1, 1, tzinfo=UTC))
    number = await signatures.own(SIGNATURE, "ben")
    assert await trying.undo(number) == 0
    assert (await state(world)).owner == "ben"
    assert len(await world.operations.list_operations(9)) == 1


async def test_refusals(world: World) -> None:
    await die(world)
    signatures = signatures_of(world)
    with pytest.raises(SignatureNotFound):
        await signatures.own("0000")
    with pytest.raises(InvalidArgument):
        await signatures.mute(SIGNATURE)
    with pytest.raises(InvalidArgument):
        await signatures.mute(SIGNATURE, until_growth=1)
    with pytest.raises(InvalidArgument, match="has passed"):
        await signatures.mute(SIGNATURE, until=datetime(2020, 1, 1, tzinfo=UTC))
    assert await world.operations.list_operations(9) == []
    with pytest.raises(ReadOnly):
        await signatures.read_only().own(SIGNATURE)
    with pytest.raises(QueueCoreError):
        await signatures.undo(4711)
    assert (await signatures.get(SIGNATURE[:6]))[0].signature == SIGNATURE


async def test_one_whose_jobs_were_retried_is_not_new_again(world: World) -> None:
    job_id = await die(world)
    await signatures_of(world).own(SIGNATURE, "ana", author=ANA)
    await world.change("retry", [job_id])
    await world.settle(await world.claim_job(job_id), "dead")
    assert await word(world) == "known"
