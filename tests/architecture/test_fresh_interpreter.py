"""What an import loads, seen in an interpreter that has loaded nothing else."""

import ast
import os
import pty
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import queue_core
from queue_core import errors
from tests.architecture.sources import ROOT

# Runs the console, and notes what is loaded where it would connect; it never does, so what it draws needs no more.
DRAWN_ALONE = """
import asyncio, sys
from pathlib import Path
from jobconsole.core.connection import Connection

async def check(connection):
    note = Path(sys.argv[1])
    note.with_suffix(".new").write_text(" ".join(sys.modules))
    note.with_suffix(".new").rename(note)
    await asyncio.sleep(3600)

Connection.check = check
from jobconsole.cli.root import main
main(["--postgres-url", "postgresql://nobody@127.0.0.1/none", "--redis-url", "redis://127.0.0.1/0"])
"""


def loaded_by(module: str) -> set[str]:
    """Answer the top-level packages that are loaded after an import."""
    code = f"import sys, {module}; print(*sorted({{name.partition('.')[0] for name in sys.modules}}))"
    answer = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    assert answer.returncode == 0, answer.stderr
    return set(answer.stdout.split())


def exists(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


@pytest.mark.parametrize("unwanted", ["textual", "rich", "prometheus_client", "jobconsole"])
def test_the_queue_loads_nothing_that_draws(unwanted: str) -> None:
    assert unwanted not in loaded_by("queue_core")


def test_the_worker_loads_nothing_that_draws() -> None:
    modules = [name for name in ("queue_core.queue", "queue_core.backends", "queue_core.worker.worker") if exists(name)]
    loaded = set().union(*(loaded_by(name) for name in modules))
    assert loaded & {"textual", "rich", "prometheus_client", "jobconsole"} == set()


def test_the_command_line_starts_without_textual() -> None:
    module = "jobconsole.cli.root"
    # Before that module is there, the package itself must not load it either.
    assert "textual" not in loaded_by(module if exists(module) else "jobconsole")


def test_a_notebook_loads_on_demand() -> None:
    unwanted = {"textual", "rich", "IPython", "anywidget", "pandas", "polars", "pyarrow", "pydantic", "asyncio"}
    assert loaded_by("jobconsole.notebook") & unwanted == set()


def test_the_console_core_draws_nothing() -> None:
    modules = [f"jobconsole.core.{path.stem}" for path in (ROOT / "jobconsole" / "core").glob("[a-z]*.py")]
    for module in modules:
        assert loaded_by(module) & {"textual", "prometheus_client"} == set(), module


def test_the_first_picture_needs_no_driver(tmp_path: Path) -> None:
    noted = tmp_path / "modules"
    master, slave = pty.openpty()
    console = subprocess.Popen(
        [sys.executable, "-c", DRAWN_ALONE, str(noted)],
        cwd=ROOT, stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
        env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "80", "LINES": "24"},
    )  # fmt: skip
    os.close(slave)
    try:
        drawn = b""
        while b"Dead letters" not in drawn:
            # Were the console to end first, this would raise an OSError.
            drawn += os.read(master, 65_536)
        while not noted.exists():
            os.read(master, 65_536)
    finally:
        console.kill()
        console.wait()
        os.close(master)
    modules = noted.read_text().split()
    views = {name for name in modules if name.endswith(".screens.triage") or name.endswith(".screens.live")}
    assert views == {"jobconsole.tui.screens.triage"}, "the other views come when somebody goes there"
    loaded = {name.partition(".")[0] for name in modules}
    assert "textual" in loaded
    assert loaded & {"psycopg", "redis", "hiredis", "sqlite3", "uvloop", "prometheus_client", "jsonschema"} == set()


def test_the_package_itself_loads_nothing() -> None:
    assert loaded_by("queue_core") & {"pydantic", "asyncio", "cronsim"} == set()


@pytest.mark.parametrize("name", queue_core.__all__)
def test_what_the_package_offers_is_there(name: str) -> None:
    assert getattr(queue_core, name).__name__ == name
    assert name in dir(queue_core)


def test_the_package_offers_what_it_says() -> None:
    assert sorted(queue_core._HOMES) == queue_core.__all__
    tree = ast.parse(Path(str(queue_core.__file__)).read_text(encoding="utf-8"))
    seen = {
        name.name: str(line.module).removeprefix("queue_core.")
        for line in ast.walk(tree)
        if isinstance(line, ast.ImportFrom) and str(line.module).startswith("queue_core.")
        for name in line.names
    }
    assert seen == queue_core._HOMES, "what a type checker finds"


def test_every_error_is_public() -> None:
    """Whoever calls a method can name what it raises."""
    tree = {name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, Exception)}
    assert tree <= {*queue_core.__all__}
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = queue_core.Nothing
