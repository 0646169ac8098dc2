"""Runs the command line: in this process with its streams caught, or as a process of its own."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from typing import Any, Self
from unittest.mock import patch

from jobconsole.cli.root import main

PATIENCE = 60.0
"""Seconds for a process on a slow machine."""
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ")
_AGE = re.compile(r"(?:  \ds| \d\ds)(?= |$)", re.MULTILINE)


@dataclass(frozen=True)
class Answer:
    """What a command said, and its exit code."""

    code: int
    out: str
    # without the target that a changing command writes first
    err: str
    # that line; "" where there is none
    target: str = ""

    @classmethod
    def of(cls, code: int, out: str, err: str) -> Self:
        """Return an answer whose target is apart."""
        first, _, rest = err.partition("\n")
        return cls(code, out, rest, first) if first.startswith("target: ") else cls(code, out, err)

    @property
    def body(self) -> dict[str, Any]:
        """The one JSON object on standard output."""
        body: dict[str, Any] = json.loads(self.out)
        assert body["version"] == 1
        assert "\x1b" not in self.out
        assert self.out.count("\n") == 1
        return body

    @property
    def still(self) -> str:
        """Standard output with every time of day, and every age below 100 s, replaced by one of the same width."""
        return _AGE.sub(" now", _MOMENT.sub("2000-01-01 00:00:00Z", self.out))


def untargeted(err: str) -> str:
    """Return what was written to standard error without the target that a changing command writes first."""
    return Answer.of(0, "", err).err


class Keyboard(io.StringIO):
    """A terminal at which somebody types."""

    def isatty(self) -> bool:
        return True


class Cli:
    """The command line with an environment of its own."""

    def __init__(self, environ: Mapping[str, str], started: list[subprocess.Popen[str]] | None = None) -> None:
        # processes that are killed at the end of the test
        self.started = [] if started is None else started
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("JOBCONSOLE_", "JOBS_"))}
        self.environ = {**kept, "XDG_CONFIG_HOME": "/nonexistent", "NO_COLOR": "1", **environ}

    def __call__(self, *arguments: str, stdin: str = "", typed: str | None = None) -> Answer:
        """Run a command in this process; with `typed`, standard input is a terminal."""
        keyboard = io.StringIO(stdin) if typed is None else Keyboard(typed)
        out, err = io.StringIO(), io.StringIO()
        with (
            patch.dict(os.environ, self.environ, clear=True),
            patch.object(sys, "stdin", keyboard),
            redirect_stdout(out),
            redirect_stderr(err),
        ):
            code = main(list(arguments))
        return Answer.of(code, out.getvalue(), err.getvalue())

    def process(self, *arguments: str, stdin: str = "") -> Answer:
        """Run a command as a process."""
        done = subprocess.run(
            [sys.executable, "-m", "jobconsole", *arguments],
            input=stdin.encode(),
            capture_output=True,
            env=self.environ,
            timeout=PATIENCE,
            check=False,
        )
        return Answer.of(done.returncode, done.stdout.decode(), done.stderr.decode())

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start a command that runs until it is told to end."""
        process = subprocess.Popen(
            [sys.executable, "-m", "jobconsole", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self.environ,
            text=True,
        )
        self.started.append(process)
        return process

    def close(self) -> None:
        """Kill what still runs."""
        for process in self.started:
            process.kill()
            process.wait()
            for stream in (process.stdout, process.stderr):
                if stream is not None:
                    stream.close()
