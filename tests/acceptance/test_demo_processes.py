"""Nothing that the demo starts outlives it, however it ends."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobconsole.embedded.fleet import Fleet
from jobconsole.embedded.places import DemoError
from tests.waiting import running, until

# A parent that starts two processes, one of which has a stopped child in a group of its own, and tells all pids.
PARENT = """
import os, sys, time
from pathlib import Path
from jobconsole.embedded.fleet import Fleet
folder = Path(sys.argv[1])
(folder / "logs").mkdir(parents=True)
fleet = Fleet(folder, os.environ)
(folder / "family.py").write_text(
    "import subprocess, sys, time, os, signal\n"
    "child = subprocess.Popen([sys.executable, '-m', 'http.server', '0'], process_group=0)\n"
    "os.kill(child.pid, signal.SIGSTOP)\n"
    "print(child.pid, flush=True)\n"
    "time.sleep(600)\n"
)
one, two = fleet.start("one", "http.server", ["0"]), fleet.start("family", "family", [])
while not two.last_words():
    time.sleep(0.02)
print(one.pid, two.pid, two.last_words(), flush=True)
time.sleep(600)
"""

STUBBORN = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
time.sleep(600)
"""


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    (tmp_path / "fleet" / "logs").mkdir(parents=True)
    made = Fleet(tmp_path / "fleet", os.environ)
    yield made
    made.close()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_demo_leaves_no_process_and_no_folder(tmp_path: Path, how: signal.Signals) -> None:
    folder = tmp_path / "demo"
    with subprocess.Popen([sys.executable, "-c", PARENT, str(folder)], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pids = [int(word) for word in parent.stdout.readline().split()]
        assert running(pids) == set(pids)
        parent.send_signal(how)
    assert until(lambda: not running(pids))
    assert until(lambda: not folder.exists())


def test_closing_ends_everything_and_may_be_done_twice(fleet: Fleet, tmp_path: Path) -> None:
    child = fleet.start("server", "http.server", ["0"])
    fleet.close()
    fleet.close()
    assert not running([child.pid])
    assert not (tmp_path / "fleet").exists()


async def test_a_process_that_ignores_the_wish_is_killed(fleet: Fleet, tmp_path: Path) -> None:
    (tmp_path / "fleet" / "stubborn.py").write_text(STUBBORN)
    child = fleet.start("stubborn", "stubborn", [])
    assert await asyncio.to_thread(until, lambda: child.last_words() == "ready")
    assert not await fleet.end(child, 0.2)
    assert child.ended == -signal.SIGKILL


async def test_an_end_that_was_asked_for_is_no_failure(fleet: Fleet) -> None:
    child = fleet.start("server", "http.server", ["0"])
    assert await fleet.end(child, 30.0)
    fleet.check()


def test_a_process_that_ends_by_itself_is_named_with_its_last_words(fleet: Fleet) -> None:
    child = fleet.start("broken", "no_such_module", [])
    assert until(lambda: child.ended is not None)
    with pytest.raises(DemoError, match=r"broken process has ended with 1: .*No module named no_such_module"):
        fleet.check()
