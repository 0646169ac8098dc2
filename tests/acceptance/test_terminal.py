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
        assert terminal.hang_up() == -signal.SIGHUP
    finally:
        terminal.close()


@pytest.mark.parametrize("stop", ["ctrl-z", "SIGSTOP"])
def test_it_draws_everything_again_when_the_shell_goes_on_with_it(tmp_path: Path, stop: str) -> None:
    """After SIGSTOP, too, of which a program hears nothing, and after which the shell has the terminal in its modes."""
    command = [sys.executable, "-m", "jobconsole"]
    environment = plain_environment(
        JOBS__POSTGRES__URL=f"postgresql://app@/app?host={tmp_path}", XDG_STATE_HOME=str(tmp_path)
    )
    terminal = PseudoTerminal(command, (80, 24), environment)
    try:
        modes = terminal.modes
        # Then it draws its first line alone.
        terminal.wait_for("No such file")
        terminal.stop("\x1a" if stop == "ctrl-z" else "")
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
