"""The console as a program in a real terminal, over servers with dead jobs: two keys retry what is under the cursor."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from queue_core import JobQueue
from queue_core.model.states import Status
from tests.acceptance.terminal import PseudoTerminal, Terminal, Tmux, plain_environment
from tests.conformance.world import World
from tests.tui.plans import timetable
from tests.tui.scenes import night

Open = Callable[[tuple[int, int]], Terminal]
SIZES = pytest.mark.parametrize("size", [(80, 24), (200, 50)], ids=["80x24", "200x50"])


async def _nothing(seconds: float) -> None:
    raise NotImplementedError("the real store has its own clock")


@pytest.fixture
def buried(postgres_url: str, redis_url: str, redis_prefix: str) -> dict[str, list[str]]:
    """The dead jobs of a night by their type, beside schedules."""

    async def make() -> dict[str, list[str]]:
        async with JobQueue(postgres=postgres_url, redis=redis_url, prefix=redis_prefix) as jobs:
            await jobs.store.acquire_leadership("upkeep", "leader", 60.0)
            world = World(jobs.store, jobs.inspector, _nothing, operations=jobs._backend.operations)
            found = await night(world)
            await timetable(jobs, world)
            await world.close()
            return found

    return asyncio.run(make())


@pytest.fixture(params=["pty", "tmux"])
def opened(
    request: pytest.FixtureRequest, tmp_path: Path, postgres_url: str, redis_url: str, redis_prefix: str
) -> Iterator[Open]:
    """Open the console in a terminal of a size."""
    if request.param == "tmux" and not Tmux.is_there():
        pytest.skip("tmux is not installed; the same runs in a pseudo-terminal")
    environment = plain_environment(
        JOBS__POSTGRES__URL=postgres_url,
        JOBS__REDIS__URL=redis_url,
        JOBS__REDIS__PREFIX=redis_prefix,
        XDG_STATE_HOME=str(tmp_path),
        LC_ALL="C.UTF-8",
    )
    started: list[Terminal] = []

    def start(size: tuple[int, int]) -> Terminal:
        command = [sys.executable, "-m", "jobconsole"]
        terminal: Terminal = (
            PseudoTerminal(command, size, environment)
            if request.param == "pty"
            else Tmux(command, size, environment, tmp_path)
        )
        started.append(terminal)
        return terminal

    yield start
    for terminal in started:
        terminal.close()


def states(postgres_url: str, redis_url: str, redis_prefix: str, ids: list[str]) -> list[Status]:
    """Return the states of jobs."""

    async def read() -> list[Status]:
        async with JobQueue(postgres=postgres_url, redis=redis_url, prefix=redis_prefix) as jobs:
            return [(await jobs.inspector.get(one)).status for one in ids]

    return asyncio.run(read())


@SIZES
def test_two_keys_retry(
    opened: Open, buried: dict[str, list[str]], postgres_url: str, redis_url: str, redis_prefix: str,
    size: tuple[int, int],
) -> None:  # fmt: skip
    terminal = opened(size)
    terminal.wait_for("TimeoutError")
    terminal.wait_for("mail.py")
    terminal.press("R")
    terminal.wait_for("Retry 5 jobs")
    terminal.press("\r")
    terminal.wait_for("retried 5 jobs")
    terminal.press("5")
    terminal.wait_for("nightly")
    terminal.press("q")
    assert terminal.end() == 0
    address = (postgres_url, redis_url, redis_prefix)
    assert set(states(*address, buried["send_email"])) == {Status.QUEUED}
    assert set(states(*address, buried["resize_image"] + buried["sync_crm"])) == {Status.DEAD}


def test_it_ends_with_its_terminal(tmp_path: Path) -> None:
    """Also where the system sends no signal: a lost connection must not leave a process that burns a core."""
    command = [sys.executable, "-m", "jobconsole"]
    environment = plain_environment(
        JOBS__POSTGRES__URL=f"postgresql://app@/app?host={tmp_path}", XDG_STATE_HOME=str(tmp_path)
    )
    terminal = PseudoTerminal(command, (80, 24), environment)
    try:
        terminal.wait_for("Triage")
        assert terminal.hang_up() == 128 + signal.SIGHUP
    finally:
        terminal.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_the_terminal_as_it_was(tmp_path: Path, number: signal.Signals) -> None:
    """The alternate screen, the hidden cursor and the reports of the mouse were left behind."""
    terminal = PseudoTerminal([sys.executable, "-m", "jobconsole"], (80, 24), unreachable(tmp_path))
    try:
        modes = terminal.modes
        terminal.wait_for("(R)retry")
        terminal.signal(number)
        assert terminal.end() == 128 + number
        last = terminal.drawn.rpartition(b"\x1b[?1049h")[2]
        assert [one for one in (b"\x1b[?1049l", b"\x1b[?25h", b"\x1b[?1003l") if one not in last] == []
        assert b"Traceback" not in terminal.drawn
        assert terminal.modes == modes
    finally:
        terminal.close()


def test_an_ended_terminal_leaves_no_traceback(tmp_path: Path) -> None:
    """Also where errors go into a file."""
    errors = tmp_path / "errors"
    command = ["bash", "-c", f"exec {sys.executable} -m jobconsole 2>{errors}"]
    terminal = PseudoTerminal(command, (80, 24), unreachable(tmp_path), controlling=True)
    try:
        terminal.wait_for("(R)retry")
        assert terminal.hang_up() == 128 + signal.SIGHUP
        assert errors.read_text() == ""
    finally:
        terminal.close()


def unreachable(tmp_path: Path) -> dict[str, str]:
    """Return the environment of a console whose server is not there."""
    return plain_environment(
        JOBS__POSTGRES__URL=f"postgresql://app@/app?host={tmp_path}", XDG_STATE_HOME=str(tmp_path), PS1="ready> "
    )


def test_it_draws_everything_again_after_it_was_stopped(tmp_path: Path) -> None:
    """By SIGSTOP, of which a program hears nothing, and after which the shell has the terminal in its modes."""
    terminal = PseudoTerminal([sys.executable, "-m", "jobconsole"], (80, 24), unreachable(tmp_path))
    try:
        modes = terminal.modes
        # Then it draws its first line alone.
        terminal.wait_for("No such file")
        terminal.stop()
        terminal.modes = modes
        terminal.go_on()
        terminal.wait_for("(R)retry")
        terminal.press("2")
        terminal.wait_for("Queues")
        terminal.press("q")
        assert terminal.end() == 0
        assert terminal.modes == modes
    finally:
        terminal.close()


@pytest.mark.parametrize("wrapped", [False, True], ids=["alone", "in-a-script"])
def test_the_shell_takes_over_and_goes_on_with_it(tmp_path: Path, wrapped: bool) -> None:
    """Also where a script has started it and waits for it: the console alone was stopped, and the shell waited."""
    command = f"{sys.executable} -m jobconsole"
    if wrapped:
        script = tmp_path / "wrap.sh"
        script.write_text(f'#!/bin/bash\n{command} "$@"\necho "the script goes on"\n')
        script.chmod(0o755)
        command = str(script)
    terminal = PseudoTerminal(["bash", "--norc", "-i"], (80, 24), unreachable(tmp_path), controlling=True)
    try:
        terminal.wait_for("ready>")
        terminal.press(f"{command}\r")
        terminal.wait_for("(R)retry")
        for _ in range(2):
            terminal.press("\x1a")
            terminal.wait_for("Stopped")
            terminal.press("echo $((6 * 7)) here\r")
            terminal.wait_for("42 here")
            terminal.press("fg\r")
            terminal.wait_for("(R)retry")
        terminal.press("2")
        terminal.wait_for("Queues")
        terminal.press("q")
        if wrapped:
            terminal.wait_for("the script goes on")
        terminal.press("\r")  # the first prompt may have come with that
        terminal.wait_for("ready>")
        terminal.press("exit\r")
        assert terminal.end() == 0
    finally:
        terminal.close()


@pytest.mark.parametrize("controlling", [False, True])
def test_it_goes_on_where_there_is_no_shell_to_go_back_to(tmp_path: Path, controlling: bool) -> None:
    """As the command of a terminal window: no process would ever continue what is stopped there."""
    command = ["bash", "-c", f'{sys.executable} -m jobconsole; echo "the script goes on"']
    terminal = PseudoTerminal(command, (80, 24), unreachable(tmp_path), controlling=controlling)
    try:
        terminal.wait_for("(R)retry")
        terminal.press("\x1a")
        terminal.wait_for("no shell to go back to")
        terminal.press("2")
        terminal.wait_for("Queues")
        terminal.press("q")
        terminal.wait_for("the script goes on")
        assert terminal.end() == 0
    finally:
        terminal.close()
