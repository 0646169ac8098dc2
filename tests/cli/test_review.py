"""`jobconsole dlq review`, `jobconsole top`, `jobconsole completion`, and rehearsals of verbs on queues and workers."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable

import pytest

from jobconsole.cli.root import NOUNS
from tests.cli.conftest import Scene
from tests.cli.running import Cli
from tests.cli.test_change import DEAD, scene, statuses
from tests.conformance.making import failure
from tests.conformance.world import World


@pytest.fixture
def three(cli: Cli, play: Callable[[Scene], None]) -> Cli:
    """Three dead jobs, the newest is the third."""
    play(scene)
    return cli


class TestReview:
    def test_one_after_another(self, three: Cli) -> None:
        answer = three("dlq", "review", typed="t\np\nr\nx\nd\ns\n")
        assert answer.code == 0
        assert answer.out.endswith("no more dead jobs\nretried 1 job, deleted 1, skipped 1\n")
        assert answer.out.count("Traceback (most recent call last)") == 1
        assert answer.out.count("answer r, d, s, t, p or q") == 1
        assert [statuses(three)[one] for one in DEAD[::-1]] == ["queued", "trashed", "dead"]

    @pytest.mark.parametrize("typed", ["q\n", ""], ids=["quit", "end of input"])
    def test_nothing_after_the_end(self, three: Cli, typed: str) -> None:
        answer = three("dlq", "review", typed=typed)
        assert answer.out.endswith("retried 0 jobs, deleted 0, skipped 0\n")
        assert {statuses(three)[one] for one in DEAD} == {"dead"}

    def test_only_those_that_match(self, three: Cli) -> None:
        answer = three(
            "dlq",
            "review",
            "--signature",
            "bbbb",
            typed="r\n",
        )
        assert answer.out.endswith("no more dead jobs\nretried 1 job, deleted 0, skipped 0\n")

    def test_a_rehearsal_changes_nothing_even_read_only(self, three: Cli) -> None:
        answer = three("dlq", "review", "--dry-run", "--read-only", typed="r\nd\nq\n")
        assert answer.out.endswith("would have retried 1 job, would have deleted 1, skipped 0\n")
        assert {statuses(three)[one] for one in DEAD} == {"dead"}

    def test_the_report_for_programs(self, three: Cli) -> None:
        answer = three("dlq", "review", "--json", typed="d\nq\n")
        assert answer.body == {
            "version": 1, "dry_run": False, "retried": [], "deleted": [DEAD[2]], "skipped": [], "changed_meanwhile": [],
        }  # fmt: skip
        assert DEAD[2] in answer.err

    def test_a_read_only_connection_and_no_terminal_are_refused(self, three: Cli) -> None:
        assert three("dlq", "review", "--read-only", typed="q\n").code == 5
        answer = three("dlq", "review", stdin="r\n")
        assert (answer.code, answer.out) == (5, "")
        assert "no terminal" in answer.err

    def test_nothing_is_dead(self, cli: Cli, play: Callable[[Scene], None]) -> None:
        async def nothing(world: World) -> None:
            await world.insert()

        play(nothing)
        assert cli("dlq", "review", typed="").out == "no dead jobs\nretried 0 jobs, deleted 0, skipped 0\n"

    def test_text_of_jobs_is_harmless(self, cli: Cli, play: Callable[[Scene], None]) -> None:
        async def hostile(world: World) -> None:
            trace = 'Traceback (most recent call last):\n  File "/srv/\x1b[2J.py", line 1, in f\x07\nE: \x1b]0;x\x07'
            cause = failure("\x1b[2J\u202e", traceback=trace)
            await world.ended("dead", {"failure": cause}, payload='{"a": "\\u001b[2J"}')

        play(hostile)
        answer = cli("dlq", "review", typed="t\np\nq\n")
        assert not set(answer.out) & {"\x1b", "\x07", "\u202e"}


class TestTop:
    def test_a_picture(self, three: Cli) -> None:
        answer = three("top", "--inline", "--count", "1")
        assert (answer.code, answer.err) == (0, "")
        for part in ("dead 3", "QUEUE", "STATE", "ERROR SIGNATURE", "RUNNING", "1 worker"):
            assert part in answer.out
        assert "\x1b" not in answer.out

    def test_one_object_for_each_picture(self, three: Cli) -> None:
        answer = three("top", "--json", "--count", "2", "--interval", "10ms")
        first, second = (json.loads(line) for line in answer.out.splitlines())
        assert first["totals"] == second["totals"]
        assert (first["totals"]["dead"], len(first["signatures"]), len(first["running"])) == (3, 2, 1)

    def test_the_console_needs_a_terminal(self, three: Cli) -> None:
        answer = three("top")
        assert (answer.code, answer.out) == (2, "")


class TestRehearsals:
    @pytest.mark.parametrize(
        ("words", "name"),
        [
            ("queue pause", "queue"),
            ("queue resume", "queue"),
            ("worker quiet", "w1"),
            ("worker resume", "w1"),
            ("worker stop", "w1"),
        ],
    )
    def test_what_it_would_be(self, three: Cli, words: str, name: str) -> None:
        name = three("queue", "list", "--json").body["queues"][0]["name"] if name == "queue" else name
        verb = words.split()[1]
        answer = three(*words.split(), name, "--dry-run", "--read-only")
        assert (answer.code, answer.out) == (0, f"would {verb} {name}\n")
        assert three(*words.split(), name, "--dry-run", "--json").body["names"] == [name]
        assert three(*words.split(), "nosuch", "--dry-run").code == 4
        assert not any(queue["paused"] for queue in three("queue", "list", "--json").body["queues"])
        assert not any(worker["quiet"] for worker in three("worker", "list", "--json").body["workers"])


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
class TestCompletion:
    def complete(self, alone: Cli, *words: str) -> list[str]:
        """What bash offers for the last of these words."""
        script = alone("completion", "bash").out
        line = " ".join(f"'{word}'" for word in ("jobconsole", *words))
        ask = f"COMP_WORDS=({line}); COMP_CWORD={len(words)}; _jobconsole; printf '%s\\n' \"${{COMPREPLY[@]}}\""
        done = subprocess.run(
            ["bash", "-c", f"{script}\n{ask}"], capture_output=True, text=True, check=True, timeout=60
        )
        assert done.stderr == ""
        return done.stdout.split()

    def test_commands_verbs_and_options(self, alone: Cli) -> None:
        assert set(NOUNS) <= set(self.complete(alone, ""))
        assert self.complete(alone, "dl") == ["dlq"]
        assert self.complete(alone, "dlq", "re") == ["resolve", "retry", "restore", "review"]
        assert self.complete(alone, "job", "list", "--cur") == ["--cursor"]
        assert self.complete(alone, "--context", "dlq", "job", "retr") == ["retry"]

    def test_fixed_values(self, alone: Cli) -> None:
        assert self.complete(alone, "dlq", "export", "--format", "") == ["csv", "jsonl"]
        assert "completed" in self.complete(alone, "events", "--event", "c")
        assert self.complete(alone, "completion", "z") == ["zsh"]

    @pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
    def test_every_verb_is_in_every_script(self, alone: Cli, shell: str) -> None:
        answer = alone("completion", shell)
        assert answer.code == 0
        for word in ("review", "export", "quiet", "trigger", "dry-run", "completion"):
            assert word in answer.out

    def test_what_bash_makes_of_it(self, alone: Cli) -> None:
        script = alone("completion", "zsh").out
        assert script.count("bashcompinit") == 2
        assert alone("completion", "tcsh").code == 2
