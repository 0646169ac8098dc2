"""Which process a worker is, and whether another one is still there: the same number is not enough."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from queue_core.errors import StoreUnavailable
from queue_core.ports.store import Neighbour
from queue_core.worker import neighbours
from tests.architecture.sources import ROOT
from tests.waiting import eventually, until

ASK = (
    "from queue_core.worker import neighbours as lives; print(lives.place(), '|', lives.process(), flush=True); input()"
)
NAMESPACE = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="no /proc here: leases decide")


def start(*before: str) -> tuple[subprocess.Popen[str], str, str]:
    """Start a process that says who it is and waits; return it, its place and itself."""
    process = subprocess.Popen(
        [*before, sys.executable, "-c", ASK], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    assert process.stdout is not None
    place, _, said = process.stdout.readline().strip().partition(" | ")
    return process, place, said


def test_a_process_is_there_until_it_ends() -> None:
    process, place, said = start()
    try:
        assert place == neighbours.place() != ""
        assert said.split()[0] == str(process.pid)
        assert not neighbours.is_gone(said)
        process.send_signal(signal.SIGSTOP)
        assert not neighbours.is_gone(said), "a process that stands still is there"
    finally:
        process.kill()
    assert until(lambda: neighbours.is_gone(said)), "also before its parent has asked for its end"
    process.communicate()
    assert neighbours.is_gone(said)


def test_another_process_of_the_same_number_is_not_it() -> None:
    number, start_ = neighbours.process().split()
    assert number == str(os.getpid())
    assert not neighbours.is_gone(f"{number} {start_}")
    assert neighbours.is_gone(f"{number} {int(start_) - 1}")


@pytest.mark.parametrize("said", ["", "71", "x 1", "-1 5", "99999999999999999999 1"])
def test_what_says_nothing_is_never_gone(said: str) -> None:
    assert not neighbours.is_gone(said)


def test_a_hidden_process_is_not_gone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where /proc shows no processes of others, only the end of the number itself says anything."""
    said = neighbours.process()
    monkeypatch.setattr(neighbours, "PROC", tmp_path)
    assert not neighbours.is_gone(said)


def test_two_containers_on_one_host_are_two_places() -> None:
    """They have the same host name here, and the same numbers for other processes."""
    try:
        process, place, said = start(*NAMESPACE)
    except OSError:
        pytest.skip("unshare is not installed")
    try:
        if not said:
            pytest.skip("this user may not make a process namespace")
        assert said.split()[0] != str(process.pid)
        assert place.split()[:2] == neighbours.place().split()[:2]
        assert place != neighbours.place()
    finally:
        process.communicate("\n")


class Watching:
    """The watch over one other worker, with a store that remembers who is registered."""

    def __init__(self, process: str) -> None:
        self.registered = {"other": process}
        self.written_off: list[str] = []
        self.asked = 0
        # how often the store is away before it writes one off
        self.away = 0
        self.watch = neighbours.Neighbours(self, self.reclaim)  # type: ignore[arg-type]
        self.watch.ask = self.ask
        self.answers = True
        self.update_neighbours()

    def update_neighbours(self) -> None:
        self.watch.update_neighbours([Neighbour(*one) for one in self.registered.items()])

    def ask(self) -> None:
        self.asked += 1
        if self.answers:
            asyncio.get_running_loop().call_soon(self.update_neighbours)

    async def write_off(self, workers: Sequence[str], place: str) -> None:
        assert place == neighbours.place()
        if self.away:
            self.away -= 1
            raise StoreUnavailable("memory", "away")
        self.written_off += workers

    async def reclaim(self) -> int:
        return 0

    async def until_written_off(self) -> None:
        running = asyncio.create_task(self.watch.run())
        try:
            assert await eventually(lambda: bool(self.written_off))
        finally:
            running.cancel()
        assert self.asked == 1


@pytest.fixture
def ended() -> str:
    """A process that has ended."""
    process, _, said = start()
    process.communicate("\n")
    return said


GONE = "the process of worker other is gone; its jobs are taken back"


async def test_a_worker_that_has_unregistered_is_not_warned_about(ended: str, caplog: pytest.LogCaptureFixture) -> None:
    watching = Watching(ended)
    watching.registered.clear()
    await watching.until_written_off()
    assert caplog.messages == []


@pytest.mark.parametrize("answers", [True, False])
async def test_one_that_has_not_is_warned_about_once(
    ended: str, answers: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Also where the store does not answer."""
    watching = Watching(ended)
    watching.answers = answers
    await watching.until_written_off()
    watching.update_neighbours()
    await watching.watch.check()
    assert caplog.messages == [GONE]
    assert watching.asked == 1


@pytest.mark.parametrize("away", [0, 6])
async def test_it_is_written_off_again_and_again(ended: str, away: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server may carry out its last claims after its end. A store that is away is tried again each time."""
    monkeypatch.setattr(neighbours, "WRITE_OFF_DELAYS", (0.0, 0.05, 0.1, 0.15))
    watching = Watching(ended)
    watching.away = away
    running = asyncio.create_task(watching.watch.run())
    try:
        assert await eventually(lambda: not watching.away and not watching.watch._gone and bool(watching.written_off))
    finally:
        running.cancel()
    assert watching.away == 0
    if not away:
        assert len(watching.written_off) > 1
