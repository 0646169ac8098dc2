"""`jobconsole job edit`, and the rehearsal of `jobconsole job enqueue`."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any, ClassVar

import pytest

from jobconsole.cli.commands import editor
from jobconsole.cli.commands.editor import assigned
from jobconsole.cli.failures import CommandError, UsageError
from tests.cli.conftest import Shop
from tests.cli.scenes import DEAD, RUNNING, four_dead, operations, status
from tests.cli.test_looking import job_id
from tests.conformance.making import worker_beat
from tests.conformance.world import World

SCHEMA = {
    "type": "object",
    "properties": {"to": {"type": "string"}, "n": {"type": "integer"}},
    "required": ["to"],
    "additionalProperties": False,
}


async def scene(world: World) -> None:
    """Four dead jobs of an announced type, and a worker that runs it."""
    await four_dead(world)
    await world.store.register_types({"send": SCHEMA})
    await world.beat(**worker_beat(types=("send",))._asdict() | {"leases": ()})


@pytest.fixture
def dead(shop: Shop) -> Shop:
    shop.play(scene)
    return shop


@pytest.fixture
def dead_in_file(file_shop: Shop) -> Shop:
    file_shop.play(scene)
    return file_shop


def job(shop: Shop, one: str) -> dict[str, Any]:
    found: dict[str, Any] = shop("job", "show", one, "--json").body["job"]
    return found


class TestEdit:
    def test_a_new_job_is_made_and_the_old_one_stays(self, dead: Shop) -> None:
        answer = dead("job", "edit", DEAD[1], "--set", "to=bob", "--set", "n=7", "--why", "a typo")
        assert answer.code == 0
        assert answer.err.splitlines() == [
            "  {",
            '-   "to": "x",',
            '-   "n": 1',
            '+   "to": "bob",',
            '+   "n": 7',
            "  }",
        ]
        new, old = job(dead, answer.out.strip()), job(dead, DEAD[1])
        assert (new["payload"], new["queue"], new["type"], new["status"]) == (
            {"to": "bob", "n": 7}, "work", "send", "queued",
        )  # fmt: skip
        assert (old["payload"], old["status"]) == ({"to": "x", "n": 1}, "dead")
        noted = [(one["verb"], one["label"], one["why"], one["note"]) for one in operations(dead)]
        assert noted == [
            ("edit", f"send {new['id']}", "a typo", f"made from {DEAD[1]}"),
            ("edit", f"send {DEAD[1]}", "a typo", new["id"]),
        ]

    def test_a_payload_from_a_file_and_from_standard_input(self, dead_in_file: Shop, tmp_path: Path) -> None:
        file = tmp_path / "new.json"
        file.write_text('{"to": "é"}')
        body = dead_in_file("job", "edit", DEAD[0], "--payload-file", str(file), "--json").body
        assert (body["original"], body["payload"], body["diff"][1:-1]) == (
            DEAD[0], {"to": "é"}, ['-   "to": "x",', '-   "n": 0', '+   "to": "é"'],
        )  # fmt: skip
        assert job(dead_in_file, body["id"])["payload"] == {"to": "é"}
        answer = dead_in_file("job", "edit", DEAD[0], "--payload-file", "-", "--set", "n=3", stdin='{"to":"y"}')
        assert job(dead_in_file, answer.out.strip())["payload"] == {"to": "y", "n": 3}

    def test_numbers_stay_as_they_are_written(self, dead_in_file: Shop) -> None:
        payload = '{"to":"y","n":123456789012345678901234567890}'
        answer = dead_in_file("job", "edit", DEAD[0], "--payload", payload)
        assert job(dead_in_file, answer.out.strip())["payload_text"] == payload

    def test_another_queue_and_priority_alone(self, dead_in_file: Shop) -> None:
        answer = dead_in_file("job", "edit", DEAD[0], "--to-queue", "slow", "--priority", "high")
        assert answer.err == (
            "jobconsole: warning: no live worker of queue 'slow' announces the type 'send'; "
            "the job waits until one does\n"
        )
        new = job(dead_in_file, answer.out.strip())
        assert (new["queue"], new["priority"], new["payload"]) == ("slow", 10, {"to": "x", "n": 0})

    def test_a_rehearsal_shows_the_difference_alone_even_read_only(self, dead: Shop) -> None:
        answer = dead("job", "edit", DEAD[0], "--set", "n=8", "--dry-run", "--read-only")
        assert (answer.code, answer.err) == (0, "")
        assert answer.out.splitlines()[2:] == [
            '-   "n": 0', '+   "n": 8', "  }", "would enqueue a new send in queue work with priority 5",
        ]  # fmt: skip
        body = dead("job", "edit", DEAD[0], "--set", "n=8", "--dry-run", "--json").body
        assert (body["dry_run"], body["payload"]) == (True, {"to": "x", "n": 8})
        assert operations(dead) == []
        answer = dead("job", "edit", DEAD[0], "--set", "n=8", "--read-only")
        assert (answer.code, answer.err) == (5, "jobconsole: 'job edit' was refused: this connection is read-only\n")

    WRONG: ClassVar[dict[str, str]] = {
        "--set n=x": "parameter 'n' must be integer, not string; nothing was enqueued "
        "(--no-check leaves the type's schema out of it)",
        "--payload {": "line 1 column 2: the payload is not JSON: a key between double quotes is expected; "
        "nothing was enqueued",
        "--payload { --set n=1": "the payload is not JSON: a key between double quotes is expected",
        "--payload [1]": "the payload must be a JSON object of parameter names, not an array",
        "--set n=0": f"nothing is changed: 'jobconsole job retry {DEAD[0]}' runs the job as it is; "
        "nothing was enqueued",
        "--set n": "--set takes PATH=VALUE, as in user.id=7 or items.0.name=book, not 'n'",
        "--set n.x=1": "--set n.x: there is no 'x' in n",
        "--payload {} --payload-file f": "give either --payload or --payload-file, not both",
        "--payload-file nosuch": "cannot read nosuch: No such file or directory",
        "": "there is no terminal for an editor; give --payload, --payload-file or --set",
    }

    @pytest.mark.parametrize("words", WRONG, ids=list(WRONG))
    def test_a_mistake_is_one_sentence_and_writes_nothing(self, dead_in_file: Shop, words: str) -> None:
        answer = dead_in_file("job", "edit", DEAD[0], *words.split())
        assert (answer.code, answer.out, answer.err) == (2, "", f"jobconsole: {self.WRONG[words]}\n")
        assert operations(dead_in_file) == []

    def test_no_check_takes_what_does_not_fit(self, dead_in_file: Shop) -> None:
        answer = dead_in_file("job", "edit", DEAD[0], "--set", "n=x", "--no-check")
        assert job(dead_in_file, answer.out.strip())["payload"] == {"to": "x", "n": "x"}

    def test_what_has_not_ended_is_not_edited(self, dead: Shop) -> None:
        answer = dead("job", "edit", RUNNING, "--set", "n=1")
        assert (answer.code, answer.err) == (
            1, f"jobconsole: job {RUNNING} is running; it cannot be edited: cancel it first, or it runs as it is\n",
        )  # fmt: skip
        assert dead("job", "edit", job_id(99), "--set", "n=1").code == 4


class TestEditor:
    """The editor is a script that does to its file what a person would do."""

    @pytest.fixture
    def person(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        script = tmp_path / "an editor"
        script.touch(mode=0o700)
        monkeypatch.setenv("EDITOR", f"'{script}' --wait")
        monkeypatch.delenv("VISUAL", raising=False)
        return script

    def test_the_text_comes_back_and_nobody_else_could_read_it(self, person: Path, tmp_path: Path) -> None:
        person.write_text('#!/bin/sh\nstat -c "%a %n" "$2" > seen\necho "[2]" >> "$2"\n')
        assert editor.edited("[1]") == "[1]\n[2]\n"
        mode, name = (tmp_path / "seen").read_text().split(maxsplit=1)
        assert stat.filemode(0o100000 | int(mode, 8)) == "-rw-------"
        assert not Path(name.strip()).exists()

    @pytest.mark.parametrize(
        ("text", "sentence"),
        [
            ("#!/bin/sh\nexit 3\n", "ended with code 3; nothing was enqueued"),
            ('#!/bin/sh\nrm "$2"\n', "left no text that can be read; nothing was enqueued"),
            ("#!/nosuch\n", "cannot be started: No such file or directory; name another one in EDITOR"),
        ],
    )
    def test_an_editor_that_fails(self, person: Path, text: str, sentence: str) -> None:
        person.write_text(text)
        with pytest.raises(CommandError, match=sentence):
            editor.edited("[1]")

    def test_edit_until_it_fits_then_say_yes(
        self, dead_in_file: Shop, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        texts = ['{"to": 1}', '{"to": "bob"}']
        monkeypatch.setattr("jobconsole.cli.commands.edit.edited", lambda text: texts.pop(0))
        monkeypatch.setattr("jobconsole.cli.commands.edit.has_terminal", lambda: True)
        answer = dead_in_file("job", "edit", DEAD[0], typed="y\ny\n")
        assert answer.code == 0
        assert "jobconsole: parameter 'to' must be string, not integer\nedit it again? [Y/n] " in answer.err
        assert answer.err.endswith("enqueue this as a new job? [y/N] ")
        assert job(dead_in_file, answer.out.strip())["payload"] == {"to": "bob"}

    @pytest.mark.parametrize(("last", "code"), [("y", 0), ("n", 5)])
    def test_a_job_that_was_retried_meanwhile_is_asked_about(
        self, dead_in_file: Shop, monkeypatch: pytest.MonkeyPatch, last: str, code: int
    ) -> None:
        def retried(text: str) -> str:
            assert dead_in_file.cli.process("job", "retry", DEAD[0], "--yes").code == 0
            return '{"to": "bob"}'

        monkeypatch.setattr("jobconsole.cli.commands.edit.edited", retried)
        monkeypatch.setattr("jobconsole.cli.commands.edit.has_terminal", lambda: True)
        answer = dead_in_file("job", "edit", DEAD[0], typed=f"y\n{last}\n")
        assert answer.code == code
        question = "the old job is queued by now, no longer dead; enqueue this as a new job all the same? [y/N] "
        assert question in answer.err
        assert bool(answer.out) == (last == "y")

    @pytest.mark.parametrize("typed", ["n\n", ""])
    def test_no_is_an_answer(self, dead_in_file: Shop, monkeypatch: pytest.MonkeyPatch, typed: str) -> None:
        monkeypatch.setattr("jobconsole.cli.commands.edit.edited", lambda text: '{"to": "bob"}')
        monkeypatch.setattr("jobconsole.cli.commands.edit.has_terminal", lambda: True)
        answer = dead_in_file("job", "edit", DEAD[0], typed=typed)
        assert (answer.code, answer.err.endswith("jobconsole: nothing was done\n")) == (5, True)
        monkeypatch.setattr("jobconsole.cli.commands.edit.edited", lambda text: text)
        answer = dead_in_file("job", "edit", DEAD[0], typed=typed)
        assert (answer.code, answer.err) == (5, "jobconsole: nothing was changed, so nothing was enqueued\n")
        assert operations(dead_in_file) == []


class TestAssigning:
    @pytest.mark.parametrize(
        ("text", "assignment", "after"),
        [
            ('{"a": 1}', "a=2", '{"a": 2}'),
            ('{"a": 1 , "b": [1.10, {"c": null}]}', "b.1.c=[true]", '{"a": 1 , "b": [1.10, {"c": [true]}]}'),
            ('{"b": [1.10, 2]}', "b.1=x y", '{"b": [1.10, "x y"]}'),
            ("{}", "new=1", '{"new":1}'),
            ('{"a": {"x": 1e400} }', "a.é=", '{"a": {"x": 1e400,"é":""} }'),
            ('{"a": 1, "a": 2}', "a=3", '{"a": 1, "a": 3}'),
            ('{"a": "}{][,:\\""}', "b=a=b", '{"a": "}{][,:\\"","b":"a=b"}'),
            ('{"a": 1}', "a=NaN", '{"a": "NaN"}'),
        ],
    )
    def test_one_value_is_replaced_and_the_rest_stays(self, text: str, assignment: str, after: str) -> None:
        assert assigned(text, assignment) == after
        json.loads(after)

    @pytest.mark.parametrize(
        "assignment", ["a.b=1", "b.2=1", "b.x=1", "b.-1=1", "x.y=1", "b.0.c=1", "=1", "a..b=1", "a"]
    )
    def test_what_leads_nowhere_is_refused(self, assignment: str) -> None:
        with pytest.raises(UsageError):
            assigned('{"a": 1, "b": [1, 2]}', assignment)

    @pytest.mark.parametrize("text", ["1", '"a"', "null", "[]"])
    def test_a_payload_that_holds_nothing(self, text: str) -> None:
        with pytest.raises(UsageError, match="there is no 'a' in the payload"):
            assigned(text, "a=1")


class TestEnqueueRehearsal:
    def test_it_says_what_it_would_be_and_writes_nothing(self, dead: Shop) -> None:
        line = ("job", "enqueue", "send", '{"to": "x"}', "--queue", "work", "--delay", "5m", "--tag", "a", "--dry-run")
        answer = dead(*line, "--read-only")
        assert (answer.code, answer.err) == (0, "")
        assert answer.out == (
            'would enqueue send in queue work with priority 5, due after 5m00, 3 retries, tags a\n{"to":"x"}\n'
        )
        found = dead(*line, "--json").body["job"]
        assert (found["payload"], found["delay"], found["tags"]) == ({"to": "x"}, 300.0, ["a"])
        assert "id" not in found
        assert len(dead("job", "list", "--json").body["jobs"]) == 6
        assert status(dead, DEAD[0]) == ["dead"]

    def test_everything_is_checked(self, dead: Shop) -> None:
        for payload, words in (('{"to": 1}', "must be string"), ("{", "is not JSON"), ('{"z": 1}', "is not known")):
            answer = dead("job", "enqueue", "send", payload, "--dry-run")
            assert (answer.code, answer.out) == (2, "")
            assert words in answer.err
        answer = dead("job", "enqueue", "other", "--dry-run")
        assert (answer.code, "no live worker of queue 'default' announces the type 'other'" in answer.err) == (0, True)
        assert dead("job", "enqueue", "other", "--dry-run", "--strict").code == 2
