"""Runs tests on a changed copy of the product."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Self

from jobconsole.embedded.servers import EmbeddedServers
from tests.architecture.sources import ROOT
from tests.mutations.mutant import Mutant, PatchError
from tests.redis_topology.rig import die_with_parent

COPIED = ("queue_core", "jobconsole", "tests", "docs", "pyproject.toml", "README.md")
SECONDS = 300
"""What the tests of one mutant may take; a mutant in which they come to no end is seen, too."""


@dataclass(frozen=True)
class Result:
    """What became of a mutant."""

    name: str
    # "seen", "survived", or "unusable": its patch does not fit, or no test was run
    what: str
    seen_by: str = ""
    output: str = ""

    @property
    def killed(self) -> bool:
        """Whether a test has seen it."""
        return self.what == "seen"


def write(file: Path, text: str) -> None:
    """Write a file, and forget what was compiled of it: that of a moment before would be taken for it."""
    file.write_text(text, encoding="utf-8")
    for compiled in (file.parent / "__pycache__").glob(f"{file.stem}.*.pyc"):
        compiled.unlink()


class Copy:
    """A copy of the repository, and servers for its tests."""

    def __init__(self, root: Path = ROOT) -> None:
        self._root = root
        self._stack = ExitStack()
        self._folder = Path()
        self._servers: EmbeddedServers | None = None

    def __enter__(self) -> Self:
        self._folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="mutants-", dir="/tmp")))
        for name in COPIED:
            source = self._root / name
            if source.is_dir():
                shutil.copytree(source, self._folder / name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, self._folder / name)
        self._servers = self._stack.enter_context(EmbeddedServers.start())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def run(self, mutant: Mutant) -> Result:
        """Run the tests of a mutant in the copy that it is applied to; what fails has to pass in it as it was."""
        try:
            text = mutant.apply(self._folder)
        except PatchError as error:
            return Result(mutant.name, "unusable", output=str(error))
        file = self._folder / mutant.file
        before = file.read_text(encoding="utf-8")
        write(file, text)
        try:
            result = self._tested(mutant.name, mutant.tests, mutant.keyword)
        finally:
            write(file, before)
        if not result.seen_by:
            return result
        # Only what passes without it has seen it.
        without = self._tested(mutant.name, (result.seen_by,))
        return result if without.what == "survived" else replace(without, what="unusable")

    def _tested(self, name: str, tests: tuple[str, ...], keyword: str = "") -> Result:
        assert self._servers is not None
        paths = [f"tests/{test}" for test in tests]
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "-p", "no:cacheprovider", *paths]
        environment = dict(os.environ) | {
            "PYTHONPATH": str(self._folder),
            "TEST_POSTGRES_URL": self._servers.postgres_url,
            "TEST_REDIS_URL": self._servers.redis_url,
        }
        try:
            done = subprocess.run(
                command + (["-k", keyword] if keyword else []),
                cwd=self._folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=SECONDS,
                check=False,
                # It makes one call of the kernel and takes no lock.
                preexec_fn=die_with_parent,
            )
        except subprocess.TimeoutExpired:
            return Result(name, "seen", "they come to no end")
        failed = re.search(r"^(?:FAILED|ERROR) (tests/.+?)(?: - .*)?$", done.stdout, re.MULTILINE)
        what = {0: "survived", 1: "seen"}.get(done.returncode, "unusable")
        return Result(name, what, failed.group(1).removeprefix("tests/") if failed else "", done.stdout[-1500:])
