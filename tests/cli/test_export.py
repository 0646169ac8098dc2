"""`jobconsole dlq export` and `jobconsole open`."""

from __future__ import annotations

import csv
import io
import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest

from jobconsole.actions.export import create_whole
from tests.cli.conftest import Scene
from tests.cli.running import PATIENCE, Cli
from tests.cli.test_change import DEAD, scene


@pytest.fixture
def three(cli: Cli, play: Callable[[Scene], None]) -> Cli:
    """Three dead jobs of two signatures."""
    play(scene)
    return cli


class TestExport:
    def test_lines_on_standard_output(self, three: Cli) -> None:
        answer = three("dlq", "export", "--all")
        assert (answer.code, answer.err) == (0, "wrote 3 jobs\n")
        assert sorted(json.loads(line)["id"] for line in answer.out.splitlines()) == DEAD

    def test_a_table_with_tracebacks(self, three: Cli) -> None:
        answer = three("dlq", "export", "--signature", "aaaa", "--format", "csv", "--tracebacks")
        rows = list(csv.DictReader(io.StringIO(answer.out, newline="")))
        assert sorted(row["id"] for row in rows) == DEAD[:2]
        assert all(row["traceback"].startswith("Traceback") for row in rows)

    def test_a_new_file_for_its_owner_alone(self, three: Cli, tmp_path: Path) -> None:
        answer = three("dlq", "export", "--all", "--output", "dead.csv", "--json")
        assert answer.body == {"version": 1, "written": 3, "format": "csv", "file": "dead.csv"}
        assert (tmp_path / "dead.csv").stat().st_mode & 0o777 == 0o600
        assert (tmp_path / "dead.csv").read_text().startswith('"id","type"')

    def test_a_file_that_is_there_is_left_alone(self, three: Cli, tmp_path: Path) -> None:
        (tmp_path / "mine").write_text("mine")
        answer = three("dlq", "export", "--all", "--output", "mine")
        assert (answer.code, answer.out) == (5, "")
        assert answer.err == "jobconsole: 'mine' is there already and was left as it is; name a new file\n"
        assert (tmp_path / "mine").read_text() == "mine"

    def test_a_file_that_cannot_be_made(self, three: Cli) -> None:
        answer = three("dlq", "export", "--all", "--output", "nosuch/x")
        assert (answer.code, answer.err) == (1, "jobconsole: cannot write 'nosuch/x': No such file or directory\n")

    def test_ids_the_trash_and_a_limit(self, three: Cli) -> None:
        assert three("dlq", "export", DEAD[0]).out.count("\n") == 1
        assert three("dlq", "export", "--all", "--limit", "2").out.count("\n") == 2
        three("dlq", "delete", DEAD[0], "--yes")
        assert json.loads(three("dlq", "export", "--all", "--trash").out)["id"] == DEAD[0]

    def test_only_said(self, three: Cli, tmp_path: Path) -> None:
        answer = three("dlq", "export", "--all", "--dry-run", "--output", "x")
        assert answer.out == "would write 3 jobs as jsonl\n"
        assert three("dlq", "export", "--all", "--dry-run", "--json").body["matched"] == 3
        assert not (tmp_path / "x").exists()

    def test_a_report_and_jobs_do_not_share_standard_output(self, alone: Cli) -> None:
        answer = alone("dlq", "export", "--all", "--json")
        assert (answer.code, answer.out) == (2, "")
        assert "give --output FILE" in answer.err

    def test_a_dash_is_standard_output(self, three: Cli, tmp_path: Path) -> None:
        assert three("dlq", "export", "--all", "--output", "-").out.count("\n") == 3
        assert not (tmp_path / "-").exists()

    @pytest.mark.parametrize(("where", "why"), [(">&-", "it is closed"), (">/dev/full", "No space left on device")])
    def test_nothing_is_counted_that_standard_output_does_not_take(self, three: Cli, where: str, why: str) -> None:
        command = f"exec {sys.executable} -m jobconsole dlq export --all {where}"
        done = subprocess.run(
            ["/bin/sh", "-c", command], env=three.environ, stderr=subprocess.PIPE, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (1, f"jobconsole: cannot write to standard output: {why}\n")

    def test_nothing_chosen(self, alone: Cli) -> None:
        assert alone("dlq", "export").code == 2


# Writes the first job, then names what is in the folder and waits for ever; arguments: whether there are files without
# names, and those of the command.
IN_THE_MIDDLE = """
import asyncio, os, sys
from jobconsole.actions import export
from jobconsole.cli.root import main

if sys.argv[1] == "named":
    del os.O_TMPFILE
export.PAGE_JOBS = 1
read, pages = export.whole, []


async def whole(*arguments):
    pages.append(arguments)
    if len(pages) == 2:
        print(*os.listdir(), flush=True)
        await asyncio.Event().wait()
    return await read(*arguments)


export.whole = whole
sys.exit(main(sys.argv[2:]))
"""


class TestEndedInTheMiddle:
    @pytest.mark.parametrize("files", ["nameless", "named"])
    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGKILL])
    def test_there_is_no_file(self, three: Cli, tmp_path: Path, number: signal.Signals, files: str) -> None:
        if files == "nameless" and not has_nameless(tmp_path):
            pytest.skip("this file system has no files without names")
        words = ["dlq", "export", "--all", "--output", "e.jsonl", "--tracebacks"]
        process = subprocess.Popen(
            [sys.executable, "-c", IN_THE_MIDDLE, files, *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=three.environ,
            text=True,
        )
        three.started.append(process)
        assert process.stdout is not None
        there = process.stdout.readline().split()
        process.send_signal(number)
        assert process.wait(PATIENCE) == (-number if number == signal.SIGKILL else 130)
        left = [path.name for path in tmp_path.iterdir()]
        if files == "nameless":
            assert there == left == []
        else:
            assert [Path(name).suffix for name in there] == [".part"]
            assert left == (there if number == signal.SIGKILL else [])


def has_nameless(folder: Path) -> bool:
    with create_whole(folder / "tried") as stream:
        nameless = not list(folder.iterdir())
        stream.write("")
    (folder / "tried").unlink()
    return nameless


class TestOpen:
    def test_what_a_link_means(self, alone: Cli) -> None:
        Path("jobconsole.yaml").write_text("contexts: {prod: {}}")
        answer = alone("open", "jobconsole://prod/signature/9f31c2", "--json")
        assert answer.body == {
            "version": 1, "context": "prod", "place": "signature", "value": "9f31c2",
            "command": ["jobconsole", "--context=prod", "dlq", "list", "--signature=9f31c2"], "masked": [],
        }  # fmt: skip

    @pytest.mark.parametrize(
        ("link", "words"),
        [
            ("jobconsole:///job/0197b3c2-5a1e-7c88-9b3e-56e26719422c", "job show 0197b3c2-5a1e-7c88-9b3e-56e26719422c"),
            ("jobconsole:///jobs/type%3Ax", "job list --filter=type=x"),
            ("jobconsole:///triage", "dlq groups"),
            ("jobconsole:///live", "queue list"),
            ("jobconsole:///events", "events"),
            ("jobconsole:///schedules", "schedule list"),
            ("jobconsole:///schedule/nightly", "schedule list"),
        ],
    )
    def test_the_command_that_shows_the_same(self, alone: Cli, link: str, words: str) -> None:
        assert alone("open", link, "--json").body["command"] == ["jobconsole", *words.split()]

    @pytest.mark.parametrize("filtered", ["-type:x", "!status:dead", "trash:yes", "-x", '"two words"', "age:<1h"])
    @pytest.mark.parametrize("place", ["jobs", "triage"])
    def test_the_command_is_one_that_runs(self, cli: Cli, place: str, filtered: str) -> None:
        """On the servers that were given, also where a filter begins with a dash."""
        opened = cli("open", f"jobconsole:///{place}/{quote(filtered, safe='')}", "--json")
        assert (opened.code, opened.err) == (0, "")
        answer = cli(*opened.body["command"][1:])
        assert (answer.code, answer.err) == (0, "")

    def test_the_command_names_the_servers_that_were_given(self, alone: Cli) -> None:
        Path("shop.yaml").write_text("contexts: {prod: {}}")
        where = ("--config=shop.yaml", "--context=prod", "--prefix=shop:")
        answer = alone("open", "jobconsole:///live", "--json", *where, "--redis-url", "redis://cache")
        words = ["--config=shop.yaml", "--context=prod", "--redis-url=redis://cache", "--prefix=shop:"]
        assert answer.body["command"] == ["jobconsole", *words, "queue", "list"]

    def test_the_command_shows_no_password(self, alone: Cli) -> None:
        where = ("--postgres-url", "postgresql://app:hunter2@db/app", "--redis-url", "redis://cache/0?password=hunter2")
        filtered = quote('"http://a:b@c"', safe="")
        answer = alone("open", f"jobconsole:///jobs/{filtered}", "--json", *where)
        assert "hunter2" not in answer.out + answer.err
        words = ["--postgres-url=postgresql://app:***@db/app", "--redis-url=redis://cache/0?password=***"]
        assert answer.body["command"][1:3] == words
        assert answer.body["masked"] == ["--postgres-url", "--redis-url"]
        assert answer.body["command"][-1] == '--filter="http://a:b@c"'

    def test_no_link(self, alone: Cli) -> None:
        answer = alone("open", "https://example.org")
        assert (answer.code, answer.out) == (2, "")
        assert answer.err.startswith("jobconsole: a link begins with jobconsole://")

    def test_without_a_terminal(self, cli: Cli) -> None:
        answer = cli("open", "jobconsole:///live")
        assert (answer.code, answer.out) == (2, "")
        assert "needs a terminal" in answer.err

    @pytest.mark.parametrize("form", [(), ("--json",)])
    @pytest.mark.parametrize("configured", ["", "contexts: {prod: {}}"])
    def test_a_context_that_is_not_there(self, alone: Cli, form: tuple[str, ...], configured: str) -> None:
        """Not even a command is shown: it would fail."""
        if configured:
            Path("jobconsole.yaml").write_text(configured)
        answer = alone("open", "jobconsole://nosuch/live", *form)
        assert (answer.code, answer.out) == (2, "")
        assert "nosuch" in answer.err
