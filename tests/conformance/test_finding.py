"""Filters by owner, state and text: found alike in every store, in bounded pages, never more or less than is said."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from queue_core.client.effects import Effects
from queue_core.client.finding import inspector as finding_module
from queue_core.client.finding import search as search_module
from queue_core.client.finding.inspector import finding, progress_of, search_texts
from queue_core.client.operating.signatures import Signatures
from queue_core.client.operations import Operations
from queue_core.errors import FilterError
from queue_core.model.filters import Filter, parse
from queue_core.model.job import Failure
from queue_core.model.triage.rules import RuleBook, TriageSettings
from queue_core.ports.inspector import Inspector
from tests.conformance.making import QUEUE, TYPE, failure
from tests.conformance.world import World

HOSTILE = ("100%", "50_50", "a\\b", "it's", "{x}", "%(y)s", "$1", "日本", "naïve", '"quoted"', "[0-9]", "*", "a b")


def kind(number: int, traceback: str = "Traceback: app/mail.py") -> Failure:
    one = failure()
    return one._replace(signature=f"{number:012x}", title=f"Error{number}", traceback=traceback)


async def die(world: World, number: int = 1, traceback: str = "Traceback: app/mail.py", **given: object) -> str:
    job_id = await world.insert(**given)
    place = {"queue": given.get("queue", QUEUE), "types": (given.get("type", TYPE),)}
    await world.settle(await world.claim_job(job_id, **place), "dead", failure=kind(number, traceback))
    return job_id


def signatures_of(world: World) -> Signatures:
    effects = Effects(None, None)  # type: ignore[arg-type]
    operations = Operations(world.operations, effects, world.store, world.inspector)
    return Signatures(world.inspector, world.operations, operations)


def inspector_of(world: World, book: RuleBook | None = None) -> Inspector:
    async def rules() -> RuleBook:
        return book or RuleBook(TriageSettings(), {})

    return finding(world.inspector, lambda: "root", rules)


async def found(inspector: Inspector, text: str) -> set[str]:
    """Return the ids that list, count, ids and groups agree on."""
    where = parse(text)
    page = await inspector.jobs(where, 100)
    ids = {job.id for job in page.jobs}
    assert await inspector.count(where) == len(ids)
    assert set(await inspector.ids(where, 100)) == ids
    groups = await inspector.signatures(where, 900.0, 4, 50)
    assert sum(group.count for group in groups) == len(ids)
    assert {group.sample_id for group in groups} <= ids
    return ids


async def test_by_owner(world: World) -> None:
    one, two, three = [await die(world, number) for number in (1, 2, 3)]
    signatures = signatures_of(world)
    await signatures.own(f"{1:012x}", "root")
    await signatures.own(f"{2:012x}", "ana")
    inspector = inspector_of(world)
    assert await found(inspector, "owner:me") == await found(inspector, "owner:ROOT") == {one}
    assert await found(inspector, "owner:ana") == await found(inspector, "owner:~AN") == {two}
    assert await found(inspector, "owner:none") == {three}
    assert await found(inspector, "!owner:me") == {two, three}
    assert await found(inspector, "owner:nobody-has-this") == set()
    assert await found(inspector, "owner:me owner:ana") == set()
    assert await found(inspector, f"owner:ana sig:{2:012x}") == {two}
    await world.job_in("queued")
    assert await found(inspector, "owner:none") == {three}


async def test_by_the_owner_of_a_rule(world: World) -> None:
    mine = await die(world, 1)
    await die(world, 2)
    rules = TriageSettings.model_validate({"signatures": {f"{1:012x}": {"owner": "team crm"}}})
    assert await found(inspector_of(world, RuleBook(rules, {})), 'owner:"team crm"') == {mine}


async def test_what_is_known_of_signatures(world: World) -> None:
    for number in (1, 2):
        await die(world, number)
    known = await world.inspector.known_signatures(parse(f"!sig:{2:012x}"), 900.0, 10)
    (counted,) = await world.inspector.signatures(parse(f"sig:{1:012x}"), 900.0, 1, 10)
    assert [(one.signature, one.title, one.first_seen) for one in known] == [
        (counted.signature, counted.title, counted.first_seen)
    ]
    assert len(await world.inspector.known_signatures(Filter(), 900.0, 1)) == 1


async def test_by_the_owner_of_a_rule_for_a_type_or_a_queue(world: World) -> None:
    mail = await die(world, 1, type="send_email")
    await die(world, 2, type="other")
    billing = await die(world, 3, type="other", queue="billing")
    given = {"types": {"send_email": {"owner": "ana"}}, "queues": {"billing": {"owner": "bo"}, "*": {"owner": "all"}}}
    inspector = inspector_of(world, RuleBook(TriageSettings.model_validate(given), {}))
    assert await found(inspector, "owner:ana") == {mail}
    assert await found(inspector, "owner:bo") == {billing}
    assert await found(inspector, "owner:none") == set()


async def test_a_mute_until_growth_ends_when_so_many_are_dead(world: World) -> None:
    one = await die(world)
    await signatures_of(world).mute(f"{1:012x}", until_growth=2)
    assert await found(inspector_of(world), "state:muted") == {one}
    two = await die(world)
    assert await found(inspector_of(world), "!state:muted state:dead") == {one, two}


async def test_by_state(world: World) -> None:
    one, two, three = [await die(world, number) for number in (1, 2, 3)]
    signatures = signatures_of(world)
    await signatures.mute(f"{1:012x}", for_=3600)
    await signatures.resolve(f"{2:012x}")
    inspector = inspector_of(world)
    assert await found(inspector, "state:muted") == {one}
    assert await found(inspector, "state:resolved") == {two}
    assert await found(inspector, "state:new") == {three}
    assert await found(inspector, "state:known") == set()
    assert await found(inspector, "!state:new state:dead") == {one, two}
    assert await found(inspector, "state:dead") == {one, two, three}


async def test_changes_look_again_at_owners(world: World) -> None:
    one = await die(world)
    inspector = inspector_of(world)
    assert await inspector.count(parse("owner:ana")) == 0
    await signatures_of(world).own(f"{1:012x}", "ana")
    assert await inspector.ids(parse("owner:ana"), 10) == [one]


async def test_too_many_signatures(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finding_module, "MAX_SIGNATURES", 2)
    for number in (1, 2, 3):
        await die(world, number)
    with pytest.raises(FilterError, match="more than 2 error signatures"):
        await inspector_of(world).jobs(parse("owner:none"), 10)
    assert len((await inspector_of(world).jobs(parse(f"owner:none sig:{3:012x}"), 10)).jobs) == 1


async def test_text_in_errors_payloads_and_tracebacks(world: World) -> None:
    of_payload = await die(world, 1, payload='{"to": "Buchhaltung@firma.example"}')
    of_traceback = await die(world, 2, "Traceback:\n  app/nfs.py:40 read_block")
    other = await die(world, 3)
    inspector = inspector_of(world)
    assert await found(inspector, "text:buchHALTUNG@") == {of_payload}
    assert await found(inspector, "text:APP/nfs.py") == {of_traceback}
    assert await found(inspector, f'text:"{failure().message[:8]}"') == {of_payload, of_traceback, other}
    assert await found(inspector, f"text:app/ sig:{3:012x}") == {other}
    assert await found(inspector, "text:app/ text:nfs") == {of_traceback}
    assert await found(inspector, "text:send_nothing_like_it") == set()
    assert await found(inspector, "text:app/ status:queued") == set()
    await world.change("delete", [other])
    assert await found(inspector, "text:app/mail") == {of_payload}
    where = parse("text:app/mail trash:yes")
    assert await inspector.ids(where, 10) == [other]


@pytest.mark.parametrize("text", HOSTILE)
async def test_texts_are_no_patterns(world: World, text: str) -> None:
    import json

    wanted = await die(world, 1, f"it says: x{text}y")
    await die(world, 2, "100 50-50 ab its x y 1 japan naive quoted 5 a  b", payload=json.dumps({"n": 1}))
    written = text.replace("\\", "\\\\").replace('"', '\\"')
    assert await found(inspector_of(world), f'text:"{written}"') == {wanted}


async def test_a_long_payload_is_looked_at_to_its_end(world: World) -> None:
    import json

    wanted = await die(world, 1, payload=json.dumps({"body": "x" * 50_000, "end": "needle"}))
    await die(world, 2, payload=json.dumps({"body": "x" * 50_000}))
    assert await found(inspector_of(world), "text:needle") == {wanted}


async def test_pages(world: World) -> None:
    ids = [await die(world, number) for number in (1, 2, 1, 2, 1)]
    for text, count in (("text:app", 5), (f"text:app sig:{1:012x}", 3), ("text:app queue:nowhere", 0)):
        seen: list[str] = []
        looked_at, total, cursor, first = 0, 0, None, True
        while first or cursor is not None:
            page = await world.inspector.search(parse(text), 2, cursor)
            assert page.looked_at <= 2
            assert (page.total > 0) is (first and page.looked_at > 0)
            total += page.total
            seen += page.ids
            looked_at, cursor, first = looked_at + page.looked_at, page.cursor, False
        assert seen == [one for one in reversed(ids) if one in seen]
        assert len(seen) == count
        assert looked_at == total
    with pytest.raises(FilterError):
        await world.inspector.search(parse("text:app"), 2, "nonsense")


async def test_a_change_means_what_was_found(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_module, "MIN_PAGE", 2)
    monkeypatch.setattr(search_module, "MAX_PAGE", 2)
    ids = [await die(world) for _ in range(5)]
    inspector, where = inspector_of(world), parse("text:app")
    progress = await search_texts(inspector, where)
    assert progress is not None
    assert (progress.found, progress.looked_at, progress.total, progress.done) == (2, 2, 5, False)
    assert set(await inspector.ids(where, 10)) == set(ids[3:])
    narrower = parse(f"text:app sig:{1:012x}")
    assert set(await inspector.ids(narrower, 10)) == set(ids[3:])
    assert progress_of(inspector, narrower) == progress
    later = await die(world)
    assert set(await inspector.ids(where, 10)) == set(ids[3:])
    await world.change("retry", [ids[4]])
    assert await inspector.ids(where, 10) == [ids[3]]
    progress = await search_texts(inspector, where, None)
    assert progress is not None
    assert (progress.looked_at, progress.whole) == (5, True)
    assert set(await inspector.ids(where, 10)) == set(ids[:4])
    progress = await search_texts(inspector, where, again=True)
    assert progress is not None
    assert later in await inspector.ids(where, 10)


async def test_lists_without_a_look_are_complete_or_refused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_module, "MIN_PAGE", 2)
    monkeypatch.setattr(search_module, "MAX_PAGE", 2)
    ids = {await die(world) for _ in range(5)}
    inspector = inspector_of(world)
    assert set(await inspector.ids(parse("text:app"), 10)) == ids
    for module in (search_module, finding_module):
        monkeypatch.setattr(module, "MAX_FOUND", 3)
    with pytest.raises(FilterError, match="more than 3 jobs have this text"):
        await inspector.ids(parse("text:app"), 10)
    progress = await search_texts(inspector, parse("text:app"), None)
    assert progress is not None
    assert (progress.full, progress.whole, progress.found) == (True, False, 4)


async def test_what_needs_no_looking_is_passed_on(world: World) -> None:
    inspector = inspector_of(world)
    assert await search_texts(inspector, Filter()) is None
    assert progress_of(inspector, parse("queue:x")) is None
    assert await inspector.ping() >= 0


def held_at(inspector: Inspector, name: str, gate: asyncio.Event, at: asyncio.Event) -> None:
    """Have a read of an inspector wait for a gate; `at` is set once one does."""
    read: Callable[..., Awaitable[Any]] = getattr(inspector, name)

    async def wait(*given: Any, **options: Any) -> Any:
        at.set()
        await gate.wait()
        return await read(*given, **options)

    setattr(inspector, name, wait)


async def test_a_list_waits_for_the_first_page_of_a_search(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A list by a search that had looked at nothing was empty: "no dead letters"."""
    await die(world, 1, "Traceback: mx-7")
    inspector = inspector_of(world)
    where, gate, at = parse("text:mx-7 owner:none"), asyncio.Event(), asyncio.Event()
    monkeypatch.setattr(world.inspector, "search", world.inspector.search, raising=False)
    held_at(world.inspector, "search", gate, at)
    searching = asyncio.create_task(search_texts(inspector, where, None, again=True))
    await at.wait()
    groups = asyncio.create_task(inspector.signatures(where, 900.0, 4, 50))
    await asyncio.wait({groups}, timeout=0.1)
    gate.set()
    assert [group.count for group in await groups] == [1]
    await searching


async def test_a_list_does_not_begin_a_search_beside_that_of_a_person(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It took the place of the one that went on, so that lists stayed with what its first page had."""
    monkeypatch.setattr(search_module, "MIN_PAGE", 1)
    monkeypatch.setattr(search_module, "MAX_PAGE", 1)
    for _ in range(3):
        await die(world, 1, "Traceback: mx-7")
    inspector = inspector_of(world)
    where, gate, at = parse("text:mx-7 owner:none"), asyncio.Event(), asyncio.Event()
    # A list begins to look owners up ...
    monkeypatch.setattr(world.inspector, "known_signatures", world.inspector.known_signatures, raising=False)
    known = world.inspector.known_signatures
    held_at(world.inspector, "known_signatures", gate, at)
    listing = asyncio.create_task(search_texts(inspector, where))
    await at.wait()
    # ... and a search overtakes it.
    monkeypatch.setattr(world.inspector, "known_signatures", known)
    await search_texts(inspector, where, None, again=True)
    gate.set()
    await listing
    assert sum(group.count for group in await inspector.signatures(where, 900.0, 4, 50)) == 3
