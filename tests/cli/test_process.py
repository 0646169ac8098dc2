"""The command line as a process: how it starts, how it ends, and what its streams do to it."""

from __future__ import annotations

import base64
import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tests.cli.conftest import Scene
from tests.cli.running import PATIENCE, Cli
from tests.conformance.world import World
from tests.emptying import new_file
from tests.waiting import until

HEAVY = {"textual", "rich", "psycopg", "psycopg_pool", "redis", "pydantic", "prometheus_client", "yaml", "asyncio"}


def loaded_by(*arguments: str) -> set[str]:
    """Return the top-level packages that a command loads in an interpreter that has loaded nothing else."""
    code = (
        "import sys; from jobconsole.cli.root import main; main(sys.argv[1:]); "
        "print(*{name.partition('.')[0] for name in sys.modules}, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=PATIENCE, check=True
    )
    return set(done.stderr.split())


class TestStart:
    def test_the_version_loads_nothing_heavy(self) -> None:
        assert loaded_by("--version") & HEAVY == set()

    @pytest.mark.parametrize("line", ["--help", "job --help", "exporter --help", "demo --help"])
    def test_help_loads_no_driver_and_no_screen(self, line: str) -> None:
        assert loaded_by(*line.split()) & {"textual", "rich", "psycopg", "redis", "prometheus_client"} == set()

    def test_version_and_help(self, alone: Cli) -> None:
        assert alone.process("--version").out == f"jobconsole {version('jobconsole')}\n"
        assert alone("--version", "--json").body == {"version": 1, "jobconsole": version("jobconsole")}
        answer = alone.process("job", "enqueue", "--help")
        assert (answer.code, answer.err) == (0, "")
        assert answer.out.startswith("usage: jobconsole job enqueue ")

    @pytest.mark.parametrize(
        "noun", ["ui", "demo", "job", "dlq", "queue", "worker", "events", "exporter", "migrate", "doctor"]
    )
    def test_every_command_has_help(self, alone: Cli, noun: str) -> None:
        answer = alone(noun, "--help")
        assert (answer.code, answer.err) == (0, "")
        for verb in re.findall(r"^    (\w+) ", answer.out.partition("options:")[0], re.MULTILINE):
            assert alone(noun, verb, "--help").code == 0

    def test_a_global_option_may_stand_before_or_after(self, cli: Cli) -> None:
        assert cli("--json", "queue", "list").body["queues"] == cli("queue", "list", "--json").body["queues"] == []


class TestStreams:
    def test_a_reader_that_goes_away_is_no_failure(self, cli: Cli) -> None:
        process = cli.start("job", "list", "--json")
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait(PATIENCE) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""
        process.stderr.close()

    @pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
    def test_a_full_disk_is_one_sentence(self, alone: Cli) -> None:
        with Path("/dev/full").open("w") as full:
            done = subprocess.run(
                [sys.executable, "-m", "jobconsole", "--version"],
                stdout=full,
                stderr=subprocess.PIPE,
                env=alone.environ,
                timeout=PATIENCE,
                check=False,
            )
        assert done.returncode == 1
        assert done.stderr == b"jobconsole: cannot write to standard output: No space left on device\n"

    @pytest.mark.parametrize(
        ("words", "closed", "code", "said"),
        [
            ("--version", 1, 1, "jobconsole: cannot write to standard output: it is closed\n"),
            ("job --help", 1, 1, "jobconsole: cannot write to standard output: it is closed\n"),
            ("--version", 2, 0, ""),
            ("nonsense", 2, 2, ""),
            (
                "worker stop w1",
                0,
                5,
                "without --yes, since standard input is no terminal",
            ),
        ],
    )
    def test_closed_streams(self, alone: Cli, words: str, closed: int, code: int, said: str) -> None:
        command = f"exec {sys.executable} -m jobconsole {words} {closed}>&-"
        done = subprocess.run(
            ["sh", "-c", command], capture_output=True, text=True, env=alone.environ, timeout=PATIENCE, check=False
        )
        assert (done.returncode, said in done.stderr) == (code, True)

    @pytest.fixture
    def waiting(self, tmp_path: Path) -> Cli:
        """A command line with one job that waits."""
        new_file(tmp_path / "jobs.db")
        cli = Cli({"JOBS__QUEUE_BACKEND": "sqlite", "JOBS__SQLITE__PATH": str(tmp_path / "jobs.db")})
        assert cli("job", "enqueue", "mail", "{}").code == 0
        return cli

    @pytest.mark.parametrize(
        ("words", "closed", "code", "said"),
        [
            ("job cancel --all --yes", 2, 0, "cancelled 1 job\n"),
            ("top --inline --count 1", 1, 1, "jobconsole: cannot write to standard output: it is closed\n"),
        ],
    )
    def test_what_is_done_with_closed_streams(
        self, waiting: Cli, words: str, closed: int, code: int, said: str
    ) -> None:
        command = f"exec {sys.executable} -m jobconsole {words} {closed}>&-"
        done = subprocess.run(
            ["sh", "-c", command], capture_output=True, text=True, env=waiting.environ, timeout=PATIENCE, check=False
        )
        assert (done.returncode, done.stdout + done.stderr) == (code, said)

    @pytest.mark.parametrize(("where", "why"), [(">&-", "it is closed"), (">/dev/full", "No space left on device")])
    @pytest.mark.parametrize("form", ["", " --json"])
    @pytest.mark.parametrize("words", ["job enqueue mail '{\"n\": 1}'", "job edit OLD --set n=1"])
    def test_a_job_whose_id_cannot_be_written_is_named(
        self, waiting: Cli, words: str, form: str, where: str, why: str
    ) -> None:
        """A script that enqueues again would make a second one."""
        waiting("job", "cancel", "--all", "--yes")
        (old,) = (job["id"] for job in waiting("job", "list", "--json").body["jobs"])
        command = f"exec {sys.executable} -m jobconsole {words.replace('OLD', old)}"
        done = subprocess.run(
            ["sh", "-c", f"{command}{form} {where}"], stderr=subprocess.PIPE, text=True, env=waiting.environ,
            timeout=PATIENCE, check=False,
        )  # fmt: skip
        (new,) = (job["id"] for job in waiting("job", "list", "--json").body["jobs"] if job["id"] != old)
        sentence = f"jobconsole: job {new} was enqueued; cannot write to standard output: {why}"
        assert (done.returncode, done.stderr.splitlines()[-1]) == (1, sentence)

    @pytest.mark.parametrize("words", ["job enqueue mail -", "job cancel --yes -", "exporter --auth-line me"])
    def test_an_input_that_is_no_text_is_refused(self, waiting: Cli, words: str) -> None:
        strict = waiting.environ | {"PYTHONIOENCODING": "utf-8:strict"}
        done = subprocess.run(
            [sys.executable, "-m", "jobconsole", *words.split()],
            input=b'{"a": "\xff"}', capture_output=True, env=strict, timeout=PATIENCE, check=False,
        )  # fmt: skip
        assert done.returncode in {2, 4}
        assert b"internal error" not in done.stderr

    def test_ctrl_c_while_it_is_loaded_ends_it_quietly(self, alone: Cli) -> None:
        code = """
import os, sys, time
class Loading:
    def __getattr__(self, name):
        os.kill(os.getpid(), 2)
        time.sleep(60)
sys.modules["jobconsole.cli.root"] = Loading()
from jobconsole.__main__ import main
main()
"""
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, env=alone.environ, timeout=PATIENCE, check=False
        )
        assert (done.returncode, done.stderr) == (-signal.SIGINT, b"")

    def test_a_narrow_encoding_shows_codes(self, cli: Cli, play: Callable[[Scene], None]) -> None:
        async def scene(world: World) -> None:
            await world.insert(type="größe\x1b")

        play(scene)
        done = Cli(cli.environ | {"PYTHONIOENCODING": "ascii"}).process("job", "list")
        assert (done.code, done.err) == (0, "")
        assert r"gr\xf6\xdfe\u241b" in done.out


class TestColour:
    def look(self, cli: Cli, **environ: str) -> str:
        """Return what the doctor says to a terminal."""
        master, slave = pty.openpty()
        env = {name: value for name, value in cli.environ.items() if name != "NO_COLOR"} | {"TERM": "xterm"} | environ
        process = subprocess.Popen(
            [sys.executable, "-m", "jobconsole", "doctor"], stdin=slave, stdout=slave, stderr=slave, env=env
        )
        os.close(slave)
        said = b""
        try:
            while chunk := os.read(master, 65536):
                said += chunk
        except OSError:  # Linux says so when the other side is closed
            pass
        os.close(master)
        process.wait(PATIENCE)
        return said.decode()

    def test_a_terminal_gets_colours_unless_it_says_no(self, cli: Cli) -> None:
        assert "\x1b[32mok  \x1b[0m" in self.look(cli)
        assert "\x1b" not in self.look(cli, NO_COLOR="1")
        assert "\x1b" not in self.look(cli, TERM="dumb")


class TestCopiedCommands:
    def copied(self, cli: Cli, *options: str) -> str:
        """Return what Ctrl-Y copies in a console that is started with these options."""
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        process = subprocess.Popen(
            [sys.executable, "-m", "jobconsole", *options],
            stdin=slave, stdout=slave, stderr=slave, env=cli.environ | {"TERM": "xterm-256color"},
        )  # fmt: skip
        os.close(slave)
        said, found, pressed = b"", None, False
        try:
            while found is None:
                said += os.read(master, 65536)
                if not pressed and b"Dead letters" in said:
                    os.write(master, b"\x19")
                    pressed = True
                found = re.search(rb"\x1b\]52;c;([A-Za-z0-9+/=]+)\x07", said)
        finally:
            process.kill()
            process.wait()
            os.close(master)
        return base64.b64decode(found[1]).decode()

    def test_they_name_the_servers_that_the_console_was_given(self, alone: Cli, elsewhere: Path) -> None:
        (elsewhere / "ops.yaml").write_text(f"contexts: {{here: {{jobs: {{sqlite: {{path: {elsewhere}/here.db}}}}}}}}")
        copied = self.copied(alone, "--config", "ops.yaml", "--context", "here")
        assert copied == "jobconsole --config=ops.yaml --context=here dlq groups"
        assert alone.process(*copied.split()[1:]).code == 0
        address = "postgresql://app:secret@127.0.0.1:1/app"
        copied = self.copied(alone, "--postgres-url", address, "--schema", "shop")
        assert copied == "jobconsole '--postgres-url=postgresql://app:***@127.0.0.1:1/app' --schema=shop dlq groups"


class TestEnd:
    def test_ctrl_c_is_exit_code_130(self, cli: Cli) -> None:
        process = cli.start("events")
        assert process.stderr is not None
        assert process.stderr.readline() == "listening; Ctrl+C ends it\n"
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=PATIENCE)
        assert (process.returncode, said) == (130, "jobconsole: interrupted\n")

    def test_a_fault_of_ours_is_one_sentence_and_a_traceback_when_asked(
        self, cli: Cli, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def broken(*_: object) -> None:
            raise ZeroDivisionError("postgresql://app:hunter2@db/app \x1b[2J")

        monkeypatch.setattr("jobconsole.cli.commands.queue.show_table", broken)
        answer = cli("queue", "list")
        assert answer.code == 1
        assert answer.err == (
            "jobconsole: internal error: ZeroDivisionError: postgresql://app:***@db/app ␛[2J; "
            "run it again with --debug for the traceback\n"
        )
        assert "Traceback (most recent call last)" in cli("queue", "list", "--debug").err


class TestEvents:
    def test_events_as_text_and_as_json_lines(self, cli: Cli) -> None:
        processes = [cli.start("events", "--count", "2", *more) for more in ([], ["--json", "--event", "created"])]
        for process in processes:
            assert process.stderr is not None
            assert process.stderr.readline() == "listening; Ctrl+C ends it\n"
        for _ in range(2):
            assert cli("job", "enqueue", "hello", '{"a":1}').code == 0
        text, lines = (process.communicate(timeout=PATIENCE)[0].splitlines() for process in processes)
        assert [process.returncode for process in processes] == [0, 0]
        assert [line.split("  ")[1].strip() for line in text] == ["created", "created"]
        assert all("  hello  default  priority=5 status=queued" in line for line in text)
        assert all(line.startswith('{"version": 1, "at": "') and '"event": "created"' in line for line in lines)

    def test_it_ends_after_a_time(self, cli: Cli) -> None:
        answer = cli("events", "--seconds", "100ms")
        assert (answer.code, answer.out) == (0, "")


class TestExporter:
    def test_it_serves_until_it_is_told_to_end(self, cli: Cli) -> None:
        import urllib.request

        process = cli.start("exporter", "--port", "0")
        assert process.stdout is not None
        url = process.stdout.readline().removeprefix("metrics: ").strip()
        assert process.stdout.readline().startswith("healthz: http://127.0.0.1:")
        with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
            assert b'jobconsole_up{backend="redis"} 1.0' in answer.read()
        taken = cli("exporter", "--port", url.rpartition(":")[2].removesuffix("/metrics"))
        assert taken.code == 3
        assert taken.err.startswith("jobconsole: cannot listen on 127.0.0.1:")
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=PATIENCE)
        assert (process.returncode, said) == (0, "")


class TestWorker:
    APP = """
from queue_core import JobQueue
jobs = JobQueue.from_settings()
@jobs.task
def add(a: int, b: int) -> int:
    return a + b
"""

    def test_a_service_runs_jobs_with_the_global_options(self, cli: Cli, elsewhere: Path) -> None:
        (elsewhere / "sums.py").write_text(self.APP)
        names = {"JOBS__POSTGRES__URL": "--postgres-url", "JOBS__REDIS__URL": "--redis-url"}
        names["JOBS__REDIS__PREFIX"] = "--prefix"
        given = [part for name, option in names.items() for part in (option, cli.environ[name])]
        bare = Cli({}, cli.started)
        listening = cli.start("events", "--event", "completed", "--count", "1", "--json")
        assert listening.stderr is not None
        listening.stderr.readline()
        service = bare.start("worker", "run", "sums:jobs", *given)
        job = cli("job", "enqueue", "add", '{"a":1,"b":2}').out.strip()
        said, _ = listening.communicate(timeout=PATIENCE)
        assert job in said
        service.send_signal(signal.SIGTERM)
        _, log = service.communicate(timeout=PATIENCE)
        assert service.returncode == 0
        assert "Traceback" not in log
        assert cli("job", "show", job, "--json").body["job"]["result"] == 3

    LOOK = """
import os
from queue_core import JobQueue
jobs = JobQueue.from_settings()
@jobs.task
def look() -> dict[str, object]:
    settings = jobs.settings
    return {
        "names": sorted(name for name in os.environ if name.startswith("JOBS_")),
        "defaults": settings.defaults.model_dump(exclude_unset=True),
        "limits": {name: rules.limit for name, rules in settings.queues.items()},
    }
"""
    SEEN: ClassVar = {"defaults": {"lease": 77, "heartbeat": 5, "max_retries": 9}, "limits": {"Big.queue": 7}}

    def see(self, cli: Cli, *options: str) -> dict[str, Any]:
        """Return what a job sees in the process of a service."""
        cli.start("worker", "run", "look:jobs", *options)
        job = cli("job", "enqueue", "look", "--no-check", *options).out.strip()
        show = partial(cli, "job", "show", job, "--json", *options)
        assert until(lambda: show().body["job"]["status"] == "completed"), show().out
        seen: dict[str, Any] = show().body["job"]["result"]
        return seen

    def test_what_only_the_console_knows_is_handed_down(self, elsewhere: Path, alone: Cli) -> None:
        """From its file, a context and its variables, as the programs' names; what those gave already stays."""
        (elsewhere / "look.py").write_text(self.LOOK)
        (elsewhere / "jobs.yaml").write_text("jobs: {defaults: {lease: 77s}, sqlite: {path: none/programs.db}}")
        (elsewhere / "jobconsole.yaml").write_text(
            "jobs: {sqlite: {path: none/console.db}, queues: {Big.queue: {limit: 7}}}\n"
            "contexts: {here: {jobs: {sqlite: {path: here.db}}}}\n"
        )
        alone.environ |= {
            "JOBS_PORT": "tcp://10.0.0.1:80",
            "JOBS__DEFAULTS__HEARTBEAT": "5s",
            "JOBS__DEFAULTS__MAX_RETRIES": "8",
            "JOBCONSOLE_JOBS__DEFAULTS__MAX_RETRIES": "9",
        }
        try:
            seen = self.see(alone, "--context", "here")
        finally:
            alone.close()
        names = ("DEFAULTS__HEARTBEAT", "DEFAULTS__LEASE", "DEFAULTS__MAX_RETRIES", "QUEUES", "QUEUE_BACKEND")
        handed = [f"JOBS__{name}" for name in (*names, "SQLITE__PATH")]
        assert seen == {"names": ["JOBS_CONFIG", "JOBS_PORT", *handed], **self.SEEN}

    def test_what_programs_read_themselves_is_not_handed_down(self, elsewhere: Path, alone: Cli) -> None:
        """So their file is not copied into an environment that everything reads which they start."""
        (elsewhere / "look.py").write_text(self.LOOK)
        (elsewhere / "jobs.yaml").write_text(
            "jobs: {defaults: {lease: 77s, max_retries: 9}, sqlite: {path: here.db}, queues: {Big.queue: {limit: 7}}}"
        )
        alone.environ["JOBS__DEFAULTS__HEARTBEAT"] = "5s"
        try:
            seen = self.see(alone)
        finally:
            alone.close()
        assert seen == {"names": ["JOBS__DEFAULTS__HEARTBEAT"], **self.SEEN}

    def test_rules_that_no_variable_can_hold_are_one_sentence(self, elsewhere: Path, alone: Cli) -> None:
        rules = "\n".join(f"    queue-{number:0180}: {{limit: 1}}" for number in range(700))
        (elsewhere / "jobconsole.yaml").write_text(f"jobs:\n  sqlite: {{path: here.db}}\n  queues:\n{rules}\n")
        answer = alone.process("worker", "run", "look:jobs")
        said = "jobconsole: JOBS__QUEUES is too long for a variable of the environment; write it into jobs.yaml\n"
        assert (answer.code, answer.out, answer.err) == (2, "", said)

    @pytest.mark.parametrize("target", ["nosuch:jobs", "sums:nosuch", "json:dumps"])
    def test_a_wrong_target_is_exit_code_2(self, cli: Cli, elsewhere: Path, target: str) -> None:
        (elsewhere / "sums.py").write_text(self.APP)
        answer = cli.process("worker", "run", target)
        assert (answer.code, answer.out) == (2, "")
        assert answer.err.count("\n") == 1
