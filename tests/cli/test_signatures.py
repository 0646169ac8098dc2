"""States, owners and notes of error signatures on the command line."""

from __future__ import annotations

import getpass
from pathlib import Path

import pytest

from jobconsole.cli.commands import dlq
from queue_core.model.triage.signatures import UNTOUCHED, changed
from tests.cli.conftest import Shop
from tests.conformance.making import failure
from tests.conformance.world import World

SIGNATURE = "aaaaaaaaaaaa"


async def scene(world: World) -> None:
    for release, end in (("r123", "completed"), ("r124", "dead")):
        number = await world.store.register_release(release)
        claim = await world.claim_job(await world.insert(), release=number)
        await world.settle(claim, end, **({"failure": failure(signature=SIGNATURE)} if end == "dead" else {}))


def test_from_new_to_resolved_and_back(shop: Shop) -> None:
    shop.play(scene)
    (group,) = shop("dlq", "groups", "--json").body["groups"]
    assert (group["state"], group["since_release"], group["suspect"], group["runs_before"]) == ("new", "r124", True, 1)
    assert (group["owner"], group["note"]) == (None, None)
    taken = shop("dlq", "own", "aaaa", "--why", "on call", "--json").body
    assert (taken["state"], taken["owner"], taken["operation"]) == ("known", getpass.getuser(), 1)
    noted = shop("dlq", "note", SIGNATURE, "mx-7 throttles us", "--link", "https://example.org/1")
    assert (noted.code, noted.err) == (0, "")
    assert noted.out.startswith(f"#2 {SIGNATURE} ")
    assert shop("dlq", "mute", SIGNATURE, "--until-growth", "10", "--json").body["muted_until_count"] == 10
    until = shop("dlq", "mute", SIGNATURE, "--until", "2090-01-31T09:00:00Z", "--json").body["muted_until"]
    assert until.startswith("2090-01-31T09:00:00")
    assert shop("dlq", "mute", SIGNATURE, "--off", "--json").body["state"] == "known"
    assert shop("dlq", "resolve", SIGNATURE, "--in", "r125", "--json").body["resolved_in"] == "r125"
    text = shop("dlq", "groups").out
    for word in ("resolved", "r124!", getpass.getuser()[:20]):
        assert word in text
    shown = shop("dlq", "show", SIGNATURE).out
    for words in ("r124 (100%), none before; 0 of 1 on r123", "mx-7 throttles us", "https://example.org/1"):
        assert words in shown
    listed = shop("op", "list", "--json").body["operations"]
    assert [one["verb"] for one in listed] == ["resolve", "mute", "mute", "mute", "note", "own"]
    assert listed[-1]["why"] == "on call"
    assert shop("op", "undo", "6").code == 0
    assert shop("dlq", "show", SIGNATURE, "--json").body["group"]["state"] == "known"
    assert shop("op", "undo", "6").code != 0


def test_the_runbook_of_a_task_is_shown(shop: Shop) -> None:
    async def announced(world: World) -> None:
        await scene(world)
        await world.store.register_types({"task": {"type": "object", "x-runbook": "https://run.example.org/1"}})

    shop.play(announced)
    (group,) = shop("dlq", "groups", "--json").body["groups"]
    assert (group["runbook"], group["owner"]) == ("https://run.example.org/1", None)
    assert group["rule"]["runbook"] == {"value": "https://run.example.org/1", "by": "task task"}
    assert "https://run.example.org/1 (task task)" in shop("dlq", "show", SIGNATURE).out
    (type_,) = shop("type", "list", "--json").body["types"]
    assert type_["runbook"] == "https://run.example.org/1"


def test_rules_of_the_configuration_are_shown(file_shop: Shop, tmp_path: Path) -> None:
    shop = file_shop
    shop.play(scene)
    path = tmp_path / "jobconsole.yaml"
    path.write_text('jobs: {triage: {types: {task: {owner: team mail, runbook: "run.example.org/mail"}}}}')
    (group,) = shop("--config", str(path), "dlq", "groups", "--json").body["groups"]
    assert (group["owner"], group["runbook"], group["link"]) == ("team mail", "run.example.org/mail", None)
    assert "team mail" in shop("--config", str(path), "dlq", "groups").out
    assert "team mail (type task)" in shop("--config", str(path), "dlq", "show", SIGNATURE).out
    assert "team mail" in shop("--config", str(path), "top", "--inline", "--count", "1").out
    body = shop("--config", str(path), "top", "--json", "--count", "1").body
    assert body["states"][SIGNATURE]["owner"] == "team mail"
    taken = shop("--config", str(path), "dlq", "own", SIGNATURE, "--to", "ana", "--json").body
    assert taken["owner"] == "ana"
    path.write_text("jobs: {triage: {types: {task: {ownr: x}}}}")
    refused = shop("--config", str(path), "dlq", "groups")
    assert refused.code == 2
    assert refused.err.count("\n") == 1


def test_refusals(file_shop: Shop) -> None:
    shop = file_shop
    shop.play(scene)
    assert shop("dlq", "own", SIGNATURE, "--read-only").code == 5
    assert shop("dlq", "own", "bbbb").code == 4
    assert shop("dlq", "mute", SIGNATURE).code == 2
    assert shop("dlq", "mute", SIGNATURE, "--for", "4h", "--off").code == 2
    assert shop("dlq", "resolve", SIGNATURE, "--in", "r\x1b[31m").code == 2
    assert shop("dlq", "note", SIGNATURE).code == 2
    assert shop("dlq", "note", SIGNATURE, "two\nlines").code == 2
    assert shop("dlq", "own", SIGNATURE, "--dry-run", "--read-only").code == 0
    assert shop("op", "list", "--json").body["operations"] == []


def test_a_change_that_no_screen_could_show_is_refused_before_it_is_written(shop: Shop) -> None:
    shop.play(scene)
    wrong = {
        ("mute", "--for", "3000000d"): "more than a hundred years",
        ("mute", "--until-growth", "inf"): "at most 1,000,000 times",
        ("mute", "--until-growth", "1e308"): "at most 1,000,000 times",
        ("mute", "--until-growth", "0"): "at most 1,000,000 times",
        ("mute", "--until-growth", "nan"): "at most 1,000,000 times",
        ("resolve", "--in", ""): "it needs a value",
    }
    for (verb, *options), words in wrong.items():
        answer = shop("dlq", verb, SIGNATURE, *options)
        assert answer.code == 2, (verb, options, answer.err)
        assert words in answer.err
    assert shop("op", "list", "--json").body["operations"] == []
    assert shop("dlq", "groups", "--window", "99999999d").code == 2


def test_a_state_beyond_all_dates_is_shown(shop: Shop) -> None:
    """Written by an earlier version."""

    async def muted(world: World) -> None:
        await scene(world)
        for growth in (None, 1e308):
            before = (await world.inspector.signature_facts([SIGNATURE]))[1].get(SIGNATURE, UNTOUCHED)
            after = changed(
                before, 1, state="muted", until=1e18 if growth is None else None, factor=growth, at_count=30
            )
            await world.operations.set_facts(SIGNATURE, before, after)

    shop.play(muted)
    assert shop("dlq", "show", SIGNATURE).code == 0
    assert shop("dlq", "groups", "--json").code == 0


def test_a_verb_on_a_signature_that_the_store_does_not_know_finds_none(shop: Shop) -> None:
    shop.play(scene)
    named = "no dead job has a signature that begins with 'ffffff'"
    verbs = (
        "retry",
        "move --to-queue slow --yes",
        "delete --yes",
        "restore",
        "purge --yes",
        "retry --dry-run",
        "export",
    )
    for verb in (*verbs, "retry --all", "retry --type task"):
        answer = shop("dlq", *verb.split(), "--signature", "ffffff")
        assert (answer.code, answer.out, answer.err) == (4, "", f"jobconsole: {named}\n"), verb
    assert shop("dlq", "show", "ffffff").err == f"jobconsole: {named}\n"
    assert shop("dlq", "retry", "--signature", "aaaa", "--type", "other").out == "retried 0 jobs\n"
    assert shop("dlq", "retry", "--signature", "aaaa").out == "retried 1 job\n"
    for again in ("aaaa", SIGNATURE, SIGNATURE.upper()):
        answer = shop("dlq", "retry", "--signature", again)
        assert (answer.code, answer.out) == (0, "retried 0 jobs\n")


def test_a_list_of_a_signature_that_the_store_does_not_know_finds_none(shop: Shop) -> None:
    async def retrying(world: World) -> None:
        await scene(world)
        await world.ended("retrying", {"failure": failure(signature="bbbbbbbbbbbb")})

    shop.play(retrying)
    sentence = "jobconsole: no dead job has a signature that begins with 'ffffff'\n"
    for words in ("job list", "job list --json", "dlq list", "dlq list --trash", "dlq groups", "dlq groups --json"):
        answer = shop(*words.split(), "--signature", "ffffff")
        assert (answer.code, answer.out, answer.err) == (4, "", sentence), words
    assert len(shop("job", "list", "--signature", "BBBB", "--json").body["jobs"]) == 1
    for known in ("job list --signature bbbb --type other", "dlq list --signature aaaa --type other"):
        assert shop(*known.split(), "--json").body["jobs"] == []
    assert shop("dlq", "retry", "--signature", "aaaa").code == 0
    assert shop("dlq", "list", "--signature", "aaaa", "--json").body["jobs"] == []


def test_a_signature_without_a_dead_job_is_known_by_its_beginning(shop: Shop) -> None:
    async def another(world: World) -> None:
        await scene(world)
        await world.ended("dead", {"failure": failure(signature="aabbaabbaabb")}, type="task")
        await world.ended("completed", {}, type="task")

    shop.play(another)
    assert shop("dlq", "retry", "--all").out == "retried 2 jobs\n"
    shown = shop("dlq", "show", "aaaa")
    assert (shown.code, shown.err) == (0, "")
    for words in (SIGNATURE, "OSError: no such file", "none of its jobs is dead any more", "r124 (100%)"):
        assert words in shown.out
    assert shop("dlq", "show", "aaaa", "--json").body["group"]["count"] == 0
    lines = ("own AAAA --to ana", "mute aaaa --for 4h", "note aaaa known", "resolve aaaa --now")
    for number, line in enumerate(lines, 2):
        answer = shop("dlq", *line.split())
        assert (answer.code, answer.out.startswith(f"#{number} {SIGNATURE} ")) == (0, True), answer.err
    assert shop("dlq", "retry", "--signature", "aaaa").out == "retried 0 jobs\n"
    several = shop("dlq", "show", "aa")
    words = f"jobconsole: several signatures begin with 'aa': {SIGNATURE}, aabbaabbaabb\n"
    assert (several.code, several.err) == (2, words)
    assert shop("dlq", "show", "aac").code == 4


def test_a_signature_in_the_trash_is_known(file_shop: Shop) -> None:
    shop = file_shop
    shop.play(scene)
    assert shop("dlq", "delete", "--type", "task", "--yes").out == "deleted 1 job\n"
    assert shop("dlq", "retry", "--signature", "aaaa").out == "retried 0 jobs\n"
    assert shop("dlq", "restore", "--signature", "aaaa", "--type", "other").out == "restored 0 jobs\n"
    assert shop("dlq", "restore", "--signature", "aaaa").out == "restored 1 job\n"


def test_what_is_no_signature_is_no_fault_of_a_filter(file_shop: Shop) -> None:
    shop = file_shop
    shop.play(scene)
    for line in ("show zz", "own zz", "mute zz --for 4h", "compare zz"):
        answer = shop("dlq", *line.split())
        words = "jobconsole: 'zz' is no beginning of a signature: up to 12 hexadecimal digits\n"
        assert (answer.code, answer.out, answer.err) == (2, "", words), line
    assert "'aaaa type:other' is no beginning" in shop("dlq", "show", "aaaa type:other").err


def test_a_mute_for_less_than_no_time_is_refused_in_words(file_shop: Shop) -> None:
    for given in (("--for", "-4h"), ("--for=-4h",), ("--for", "-4"), ("--for", "-1.5d")):
        answer = file_shop("dlq", "mute", SIGNATURE, *given)
        number = given[-1].removeprefix("--for=")
        assert (answer.code, answer.out) == (2, "")
        assert f"a duration cannot be negative or infinite: '{number}'" in answer.err


async def three(world: World) -> None:
    """Of four signatures one is known, one has come back, one is new and one is resolved."""
    for signature, deaths in (("a" * 12, 3), ("b" * 12, 1), ("d" * 12, 4)):
        for _ in range(deaths):
            await world.ended("dead", {"failure": failure(signature=signature)})
        now = await world.now()
        given = {"owner": "ana"} if signature[0] == "a" else {"state": "resolved", "release": "now"}
        facts = changed(UNTOUCHED, 1, at=now, by="ana", **given)
        assert await world.operations.set_facts(signature, UNTOUCHED, facts)
    await world.ended("dead", {"failure": failure(signature="b" * 12)})
    await world.ended("dead", {"failure": failure(signature="c" * 12)})


def test_what_is_new_or_back_comes_first(shop: Shop) -> None:
    shop.play(three)
    groups = shop("dlq", "groups", "--json").body["groups"]
    assert [(one["signature"][0], one["state"]) for one in groups] == [
        ("b", "regressed"), ("c", "new"), ("a", "known"), ("d", "resolved"),
    ]  # fmt: skip
    text = shop("dlq", "groups").out
    places = [text.index(one * 12) for one in "bcad"]
    assert places == sorted(places)
    first = shop("dlq", "groups", "--limit", "1", "--json").body["groups"]
    assert [one["signature"][0] for one in first] == ["b"], "also where it would not be among the first by growth"


def test_what_a_limit_leaves_out_is_counted(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.play(three)
    assert shop("dlq", "groups").err == ""
    for limit, more in (("4", False), ("1", True)):
        assert shop("dlq", "groups", "--limit", limit, "--json").body["more"] is more
    assert shop("dlq", "groups", "--limit", "1").err == "3 more with a greater --limit\n"
    monkeypatch.setattr(dlq, "_LOOKED_AT", 2)
    assert shop("dlq", "groups", "--limit", "1").err == "at least 2 more with a greater --limit\n"
