"""Filters by owner, state and text on the command line, and saved filters."""

from __future__ import annotations

import pytest

from queue_core.client.finding import search as search_module
from queue_core.model.filters import SavedFilter
from tests.cli.conftest import Shop
from tests.conformance.making import failure
from tests.conformance.world import World

ONE, TWO = "aaaaaaaaaaaa", "bbbbbbbbbbbb"


async def scene(world: World) -> None:
    for signature in (ONE, TWO, ONE, ONE):
        claim = await world.claim_job(await world.insert(payload=f'{{"to": "mail-{signature[0]}"}}'))
        await world.settle(claim, "dead", failure=failure(signature=signature))


def test_by_owner_and_state(shop: Shop) -> None:
    shop.play(scene)
    assert shop("dlq", "own", ONE, "--to", "me").code == 0
    for text, signature in (("owner:me", ONE), ("owner:none state:new", TWO), ("!owner:me", TWO), ("state:known", ONE)):
        (group,) = shop("dlq", "groups", "--filter", text, "--json").body["groups"]
        assert group["signature"] == signature, text
    done = shop("dlq", "delete", "--filter", "owner:me", "--yes", "--json").body
    assert (done["matched"], done["processed"]) == (3, 3)
    assert "none" in shop("dlq", "own", TWO, "--to", "none").err


def test_a_search_says_how_far_it_went(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.play(scene)
    answer = shop("dlq", "list", "--filter", "text:MAIL-a", "--json")
    assert len(answer.body["jobs"]) == 3
    assert answer.body["searched"] == {"jobs": 4, "of": 4, "found": 3, "whole": True}
    assert answer.err == "searched all 4 dead jobs, 3 found\n"
    monkeypatch.setattr(search_module, "MIN_PAGE", 1)
    monkeypatch.setattr(search_module, "MAX_PAGE", 1)
    monkeypatch.setattr(search_module, "SEARCH_SECONDS", 0.0)
    monkeypatch.setattr("jobconsole.cli.selection._PROGRESS_SECONDS", 1e-9)
    answer = shop("dlq", "groups", "--filter", "text:mail", "--json")
    assert [group["count"] for group in answer.body["groups"]] == [1]
    assert answer.err == "searched 1 of 4 dead jobs, 1 found; --search-all goes on to the end\n"
    done = shop("dlq", "delete", "--filter", "text:mail", "--yes", "--json")
    assert (done.body["matched"], done.body["searched"]["whole"]) == (1, False)
    assert (
        "would delete 1 job (found in 1 of 3 dead jobs)"
        in shop("dlq", "delete", "--filter", "text:mail", "--dry-run").out
    )
    done = shop("dlq", "delete", "--filter", "text:mail-a", "--yes", "--search-all")
    assert done.out == "deleted 2 jobs\n"
    assert "searched all 3 dead jobs, 2 found" in done.err
    done = shop("dlq", "delete", "--filter", "text:mail", "--yes", "--search-all")
    assert done.out == "deleted 1 job\n"
    assert "searched all 1 dead job, 1 found" in done.err


async def announced(world: World) -> None:
    await scene(world)
    await world.store.register_types({"idle": {"type": "object"}})


def test_a_type_by_which_nothing_is_found_is_named_where_no_worker_has_announced_it(shop: Shop) -> None:
    shop.play(announced)
    lines = (
        "job list --type {}", "dlq list --filter type:{}", "dlq groups --type {}", "dlq delete --type {} --yes",
        "dlq retry --filter type:{} --dry-run", "dlq export --type {}", "dlq export --type {} --dry-run",
    )  # fmt: skip
    for line in lines:
        mistyped = shop(*line.format("typo").split())
        warning = "jobconsole: warning: no worker has announced a type 'typo'\n"
        assert (mistyped.code, mistyped.err.count(warning)) == (0, 1), line
        known = shop(*line.format("idle").split())
        assert (known.code, "warning" in known.err) == (0, False), line
    assert shop("dlq", "retry", "--type", "typo", "--json").body["warnings"] == [
        "no worker has announced a type 'typo'"
    ]
    assert "warning" not in shop("dlq", "list", "--type", "task").err
    nowhere = shop("dlq", "list", "--filter", "queue:nowhere")
    assert (nowhere.code, nowhere.err) == (0, "jobconsole: warning: there is no queue 'nowhere'\n")
    assert shop("dlq", "retry", "--filter", "queue:work type:none", "--dry-run").err.count("there is no queue") == 0
    assert "warning" not in shop("job", "list", "--filter", "!type:typo status:queued").err


def test_what_cannot_be_looked_for(shop: Shop) -> None:
    shop.play(scene)
    for text, words in (
        ("!text:x", "cannot be searched for"),
        ("state:odd", "neither a state"),
        ("text:" + "x" * 201, "200"),
    ):
        answer = shop("dlq", "list", "--filter", text)
        assert answer.code == 2, text
        assert words in answer.err


def test_saved_filters(shop: Shop) -> None:
    shop.play(scene)
    assert shop("filter", "list", "--json").body["filters"] == []
    saved = shop("filter", "save", "mine", "owner:me state:new", "--why", "incident", "--json").body
    assert (saved["operation"], saved["name"], saved["filter"]) == (1, "mine", "owner:me state:new")
    assert shop("filter", "save", "mine", "owner:me").out == "#2 saved mine: owner:me\n"
    (listed,) = shop("filter", "list", "--json").body["filters"]
    assert (listed["name"], listed["filter"]) == ("mine", "owner:me")
    assert "owner:me" in shop("filter", "list").out
    assert "would remove mine" in shop("filter", "remove", "mine", "--dry-run").out
    assert shop("filter", "remove", "mine").out == "#3 removed mine: owner:me\n"
    assert shop("filter", "remove", "mine").code == 4
    assert shop("op", "undo", "3").out.startswith("#4 undoes #3, remove filter mine")
    assert [one["filter"] for one in shop("filter", "list", "--json").body["filters"]] == ["owner:me"]
    assert [one["verb"] for one in shop("op", "list", "--json").body["operations"]] == [
        "save",
        "remove",
        "save",
        "save",
    ]
    for name, text in (("a b", "queue:x"), ("a\x1b", "queue:x"), ("a", "nofield:x"), ("a", " ")):
        answer = shop("filter", "save", name, text)
        assert answer.code == 2, (name, text)
        assert "\x1b" not in answer.err
    assert shop("--read-only", "filter", "save", "a", "queue:x").code == 5
    assert shop("--read-only", "filter", "list").code == 0


def test_a_saved_filter_is_used_by_its_name(shop: Shop) -> None:
    shop.play(scene)
    assert shop("filter", "save", "a-mail", f"sig:{ONE}").code == 0
    assert shop("filter", "save", "all", "status:dead").code == 0
    for text, count in (("@a-mail", 3), ("@all", 4), ("@all @a-mail", 3), (f"@a-mail !sig:{ONE}", 0), ('"@a-mail"', 0)):
        assert len(shop("dlq", "list", "--filter", text, "--json").body["jobs"]) == count, text
    assert len(shop("job", "list", "--filter", 'word "a @nothing"', "--json").body["jobs"]) == 0
    answer = shop("dlq", "groups", "--filter", "@night")
    assert (answer.code, answer.out) == (4, "")
    assert answer.err.endswith("no filter is saved as 'night'; 'filter list' names those that are\n")
    for text in ("!@all", "-@all"):
        answer = shop("dlq", "delete", f"--filter={text}", "--yes")
        assert (answer.code, answer.out) == (2, "")
        assert "a saved filter cannot be turned round" in answer.err
    assert shop("completion", "--names", "filter").out == "@a-mail\n@all\n"
    assert shop("completion", "--names", "saved").out == "a-mail\nall\n"
    script = shop("completion", "bash").out
    assert '"/filter/remove") _jobconsole_names "$word" saved' in script
    assert '"/schedule/pause") _jobconsole_names "$word" schedule' in script
    assert shop("dlq", "delete", "--filter", "@a-mail", "--yes", "--json").body["processed"] == 3


def test_a_filter_that_names_another_is_neither_saved_nor_used(shop: Shop) -> None:
    """The name of a saved filter within another one would match other jobs than are meant, up to all of them."""
    shop.play(scene)
    assert shop("filter", "save", "keep", "status:dead").code == 0
    for text in ("!@keep", "@keep queue:x", "@loop"):
        for more in ((), ("--dry-run",)):
            answer = shop("filter", "save", "loop", text, *more)
            assert (answer.code, answer.out) == (2, ""), text
            assert answer.err.count("\n") == 1
            assert "saved filter" in answer.err

    async def stored_earlier(world: World) -> None:
        stored = SavedFilter("notkeep", "!@keep", changes=((9, "", "x"),))
        assert await world.operations.set_filter("notkeep", 0, stored)

    shop.play(stored_earlier)
    for words in (("dlq", "retry", "--dry-run"), ("dlq", "delete", "--yes"), ("dlq", "list"), ("job", "list")):
        answer = shop(*words, "--filter", "@notkeep")
        assert (answer.code, answer.out) == (2, ""), words
        assert "the filter that is saved as 'notkeep' cannot be used: '!@keep': a saved filter cannot" in answer.err
