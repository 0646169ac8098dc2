"""What holds of every verb: those that change something take --dry-run, --yes and --json, and leave a trace."""

from __future__ import annotations

import argparse
import getpass
import re
from collections.abc import Iterator

import pytest

from jobconsole.cli.parser import Parser
from jobconsole.cli.root import NOUNS, parser_of
from queue_core.client.schedules import Schedules
from queue_core.model.filters import SavedFilter
from tests.cli.conftest import Shop
from tests.cli.running import Cli
from tests.cli.scenes import DEAD, WAITING, four_dead, operations
from tests.cli.test_schedules import scene as schedules
from tests.cli.test_usage import NOWHERE
from tests.conformance.making import worker_beat
from tests.conformance.world import World

LOOKING = {
    "job list", "job show", "job compare", "job logs", "job stack", "dlq groups", "dlq show", "dlq compare",
    "dlq list", "dlq export", "op list", "op show", "op watch",
    "queue list", "schedule list", "type list", "type show", "worker list", "open", "events", "exporter", "top",
    "completion", "contexts", "doctor", "health", "filter list",
}  # fmt: skip
"""Verbs that change nothing in the store; an export writes a file, and can be rehearsed. A stack is only asked for."""
OF_THEIR_OWN = {"ui", "demo", "bench", "worker run"}
"""What runs until somebody ends it, or on servers of its own."""


def leaves(parser: Parser, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Parser]]:
    """Yield each verb, and each noun that has none."""
    parser.declare()
    below = [action.choices for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if not below:
        yield " ".join(path), parser
    for choices in below:
        for name, one in choices.items():
            yield from leaves(one, (*path, name))


VERBS = dict(leaves(parser_of()))
CHANGING = sorted(set(VERBS) - LOOKING - OF_THEIR_OWN)


def flags(parser: Parser) -> set[str]:
    return {flag for action in parser._actions for flag in action.option_strings}


def test_every_verb_is_of_one_kind() -> None:
    assert set(VERBS) >= LOOKING | OF_THEIR_OWN
    assert len(CHANGING) == 35


@pytest.mark.parametrize("verb", CHANGING)
def test_what_changes_can_be_rehearsed_confirmed_and_read_by_programs(verb: str) -> None:
    assert flags(VERBS[verb]) >= {"--dry-run", "--yes", "--json", "--read-only"}


@pytest.mark.parametrize("verb", sorted(LOOKING - {"dlq export"}))
def test_what_looks_has_nothing_to_rehearse(verb: str) -> None:
    assert not flags(VERBS[verb]) & {"--dry-run", "--yes"}
    assert "--json" in flags(VERBS[verb])


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_verb_and_option_is_completed(alone: Cli, shell: str) -> None:
    script = alone("completion", shell).out
    for verb, parser in VERBS.items():
        level = f'"/{verb.replace(" ", "/")}") words="' if shell != "fish" else f"from {verb.split()[-1]}"
        (lines,) = [[line for line in script.splitlines() if level in line]]
        for flag in flags(parser):
            said = flag if shell != "fish" else f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}"
            assert any(re.search(rf"{re.escape(said)}\b", line) for line in lines), (verb, flag)


def test_the_help_of_a_noun_names_its_verbs() -> None:
    for noun in {verb.split()[0] for verb in VERBS if " " in verb}:
        words = set(re.findall(r"\w+", NOUNS[noun]))
        verbs = {verb.split()[1] for verb in VERBS if verb.startswith(f"{noun} ")}
        assert verbs <= words or noun == "type", (noun, verbs - words)


WORDS = {
    "job cancel": f"{WAITING} --yes",
    "job delete": f"{DEAD[0]} --yes",
    "job edit": f"{DEAD[0]} --set n=7",
    "job enqueue": "send",
    "job move": f"{DEAD[0]} --to-queue other --yes",
    "job restore": "--all",
    "job retry": DEAD[0],
    "dlq delete": "--all --yes",
    "dlq mute": "aaaa --for 4h",
    "dlq note": "aaaa look",
    "dlq own": "aaaa",
    "dlq resolve": "aaaa --now",
    "dlq move": "--all --to-queue other --yes",
    "dlq purge": "--all --yes",
    "dlq restore": "--all",
    "dlq retry": "--all",
    "dlq review": "",
    "filter remove": "a",
    "filter save": "a queue:x",
    "op cancel": "1",
    "op pause": "1",
    "op resume": "1",
    "op run": "1",
    "op undo": "1",
    "queue drain": "work --detach",
    "queue pause": "work",
    "queue resume": "work",
    "schedule pause": "nightly",
    "schedule remove": "nightly --yes",
    "schedule resume": "nightly",
    "schedule trigger": "nightly",
    "worker quiet": "w1",
    "worker resume": "w1",
    "worker stop": "w1 --yes",
    "migrate": "",
}


def test_each_verb_that_changes_is_tried_below() -> None:
    assert sorted(WORDS) == CHANGING


@pytest.mark.parametrize("verb", CHANGING)
def test_read_only_refuses_before_any_server_is_asked(verb: str) -> None:
    answer = Cli(NOWHERE)(*verb.split(), *WORDS[verb].split(), "--read-only", typed="q\n")
    assert (answer.code, answer.out) == (5, "")
    assert answer.err == f"jobconsole: '{verb}' was refused: this connection is read-only\n"


class TestTrace:
    """Who did what, why, and what came of it."""

    @pytest.fixture
    def busy(self, shop: Shop) -> Shop:
        async def scene(world: World) -> None:
            await four_dead(world)
            await schedules(world)
            await world.operations.set_filter("a", 0, SavedFilter("a", "queue:x", changes=((1, "", "queue:x"),)))
            await world.beat(**worker_beat(worker="w1")._asdict() | {"leases": ()})

        shop.play(scene)
        return shop

    AT_ONCE = (
        ("queue pause work", "pause", "queue work", ""),
        ("queue pause work", "pause", "queue work", "it was paused already"),
        ("queue resume work", "resume", "queue work", ""),
        ("worker quiet w1", "quiet", "worker w1", ""),
        ("worker resume w1", "resume", "worker w1", ""),
        ("worker stop w1 --yes", "stop", "worker w1", ""),
        ("schedule pause nightly", "pause", "schedule nightly", ""),
        ("schedule resume nightly", "resume", "schedule nightly", ""),
        ("schedule remove nightly --yes", "remove", "schedule nightly", ""),
    )

    def test_what_is_done_at_once(self, busy: Shop) -> None:
        job = busy("schedule", "trigger", "nightly", "--why", "asked for").out.strip()
        for line, *_ in self.AT_ONCE:
            assert busy(*line.split(), "--why", "fire drill").code == 0
        found = [(one["verb"], one["label"], one["note"], one["why"], one["state"]) for one in operations(busy)]
        assert found == [
            *((verb, label, note, "fire drill", "done") for _, verb, label, note in reversed(self.AT_ONCE)),
            ("trigger", "schedule nightly", f"enqueued job {job}", "asked for", "done"),
        ]
        assert {one["user"] for one in operations(busy)} == {getpass.getuser()}

    def test_what_changes_jobs(self, busy: Shop) -> None:
        for line in (
            f"job cancel {WAITING} --yes", "job delete --signature bbbb --yes", "dlq restore --all",
            f"dlq retry {DEAD[0]}", f"dlq move {DEAD[1]} {DEAD[2]} --to-queue other --yes",
            f"dlq delete {DEAD[3]} --yes", "dlq purge --all --yes",
        ):  # fmt: skip
            assert busy(*line.split(), "--why", "clean up").code == 0
        found = [(one["verb"], one["label"], one["processed"]) for one in reversed(operations(busy))]
        assert found == [
            ("cancel", f"job {WAITING}", 1),
            ("delete", "status=dead signature=bbbb", 1),
            ("restore", "all dead jobs in the trash", 1),
            ("retry", f"job {DEAD[0]}", 1),
            ("move", "2 jobs by id", 2),
            ("delete", f"job {DEAD[3]}", 1),
            ("purge", "all dead jobs in the trash", 1),
        ]
        assert {one["why"] for one in operations(busy)} == {"clean up"}

    def test_each_answer_of_a_review(self, busy: Shop) -> None:
        answer = busy("dlq", "review", "--why", "one by one", "--json", typed="r\nd\ns\nq\n")
        body = answer.body
        found = [(one["verb"], one["label"], one["why"], one["processed"]) for one in operations(busy)]
        assert found == [
            ("delete", f"job {body['deleted'][0]}", "one by one", 1),
            ("retry", f"job {body['retried'][0]}", "one by one", 1),
        ]

    def test_what_failed_is_noted_with_its_reason(self, file_shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
        async def broken(*_: object) -> None:
            raise OSError(5, "the disk is broken")

        file_shop.play(schedules)
        monkeypatch.setattr(Schedules, "pause", broken)
        assert file_shop("schedule", "pause", "nightly").code == 1
        (one,) = operations(file_shop)
        assert (one["state"], one["note"]) == ("failed", "[Errno 5] the disk is broken")

    def test_rehearsals_leave_none(self, busy: Shop) -> None:
        for verb in sorted(set(WORDS) - {"dlq review", "migrate"}):
            if not verb.startswith("op "):
                answer = busy(*verb.split(), *WORDS[verb].split(), "--dry-run")
                assert answer.code == 0, answer
        assert operations(busy) == []
