"""Nothing outlives the application: no process, no folder, no shared memory."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from jobconsole.embedded import guard
from jobconsole.embedded.folders import EmbeddedError
from jobconsole.embedded.servers import EmbeddedServers
from tests.conftest import StartServers
from tests.embedded.processes import (
    Application,
    processes_on,
    shared_memory,
    shared_memory_of,
    start_application,
    wait_until,
)
from tests.servers import SessionServers
from tests.waiting import is_running, running

StartApplication = Callable[..., Application]


@pytest.fixture
def application(servers: SessionServers) -> Iterator[StartApplication]:
    """Start processes that start servers, and end them with the test."""
    started: list[Application] = []

    def start(kind: str = "plain", closed: bool = False, **environment: str) -> Application:
        options: dict[str, object] = {"prefer": servers.prefer}
        if servers.embedded:
            options["template"] = str(servers.embedded.data_template())
        started.append(start_application(options, kind, environment, closed))
        return started[-1]

    yield start
    for each in started:
        each.end()
        os.close(each.leash)


def assert_all_gone(family: set[int], folder: Path) -> float:
    return wait_until(lambda: not running(family) and not folder.exists())


def test_a_killed_application_takes_everything_with_it(application: StartApplication) -> None:
    victim = application()
    family = victim.family()
    assert {victim.told["postgres"], victim.told["redis"], victim.told["guard"]} <= family
    victim.process.kill()
    assert_all_gone(family, victim.folder)
    assert not processes_on(victim.folder)


@pytest.mark.skipif(sys.platform != "linux", reason="the segments of this machine are only listed on Linux")
def test_a_killed_postgres_leaves_no_shared_memory(own_servers: EmbeddedServers) -> None:
    segment = shared_memory_of(own_servers.folder / "postgres")
    assert segment in shared_memory()
    own_servers.postgres.kill()
    own_servers.close()
    assert segment not in shared_memory()


def test_busy_servers_go_too(application: StartApplication) -> None:
    victim = application()
    with psycopg.connect(victim.told["postgres_url"]) as connection:
        # A loop inside the server that looks at nothing but signals.
        sleeper = subprocess.Popen(
            [
                sys.executable,
                "-c",
                "import sys, psycopg\n"
                "c = psycopg.connect(sys.argv[1]); print(c.info.backend_pid, flush=True)\n"
                "c.execute('select count(*) from generate_series(1, 100000000000)')",
                victim.told["postgres_url"],
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert sleeper.stdout is not None
        backend = int(sleeper.stdout.readline())
        wait_until(lambda: _state_of(connection, backend) == "active")
    family = victim.family()
    assert backend in family
    victim.process.kill()
    assert_all_gone(family, victim.folder)
    with sleeper:
        assert sleeper.wait(timeout=60) != 0


def _state_of(connection: psycopg.Connection, backend: int) -> str:
    row = connection.execute("select state from pg_stat_activity where pid = %s", [backend]).fetchone()
    connection.rollback()
    return str(row[0]) if row else ""


def test_frozen_servers_go_too(application: StartApplication) -> None:
    victim = application("frozen")
    family = victim.family()
    victim.process.kill()
    assert_all_gone(family, victim.folder)


def test_a_child_of_the_application_keeps_nothing_alive(application: StartApplication) -> None:
    victim = application("forked")
    family = victim.family() - {victim.told["child"]}
    victim.process.kill()
    assert_all_gone(family, victim.folder)
    assert is_running(victim.told["child"])
    os.write(victim.leash, b".")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_an_ended_application_takes_everything_with_it(application: StartApplication, number: signal.Signals) -> None:
    victim = application()
    family = victim.family()
    victim.process.send_signal(number)
    assert_all_gone(family, victim.folder)


def test_a_normal_end_leaves_nothing(application: StartApplication) -> None:
    victim = application()
    family = victim.family()
    victim.end()
    assert victim.process.returncode == 0
    assert not running(family)
    assert not victim.folder.exists()


def test_it_starts_without_standard_streams(application: StartApplication) -> None:
    without = application(closed=True)
    with psycopg.connect(without.told["postgres_url"]) as connection:
        assert connection.execute("select 1").fetchone() == (1,)
    without.end()
    assert without.process.returncode == 0
    assert not without.folder.exists()


def test_a_killed_guard_takes_the_servers_with_it(own_servers: EmbeddedServers) -> None:
    if sys.platform != "linux":
        pytest.skip("only Linux tells a process that its parent was killed; elsewhere the next start sweeps")
    family = processes_on(own_servers.folder)
    os.kill(own_servers.guard_pid, signal.SIGKILL)
    wait_until(lambda: not running(family))
    with pytest.raises(EmbeddedError, match="guard of the embedded servers is gone"):
        own_servers.postgres.start()
    own_servers.close()
    # Somebody else who starts at this moment may be the one who sweeps it.
    wait_until(lambda: not own_servers.folder.exists())


def test_a_folder_without_guard_is_swept_and_a_live_one_is_not(
    application: StartApplication, start_servers: StartServers
) -> None:
    live = application()
    victim = application("frozen")
    family = processes_on(victim.folder)
    # Both at once, and the servers frozen: nobody is left to clean up.
    os.kill(victim.told["guard"], signal.SIGSTOP)
    victim.process.kill()
    os.kill(victim.told["guard"], signal.SIGKILL)
    wait_until(lambda: not is_running(victim.told["guard"]))
    assert victim.folder.exists()
    segment = shared_memory_of(victim.folder / "postgres")
    start_servers()
    # Somebody else who starts at this moment may be the one who sweeps it.
    wait_until(lambda: not victim.folder.exists())
    assert sys.platform != "linux" or segment not in shared_memory()
    wait_until(lambda: not running(family))
    with psycopg.connect(live.told["postgres_url"]) as connection:
        assert connection.execute("select 1").fetchone() == (1,)
    assert live.folder.exists()


def test_two_instances_live_side_by_side(start_servers: StartServers) -> None:
    first, second = start_servers(), start_servers()
    first.create_database("mine")
    first.close()
    assert not first.folder.exists()
    with psycopg.connect(second.postgres_url) as connection:
        found = connection.execute("select count(*) from pg_database where datname = 'mine'").fetchone()
    assert found == (0,)
    assert second.redis.pid is not None


def test_the_guard_loads_the_standard_library_alone() -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); before = set(sys.modules)\n"
        "import jobconsole.embedded.guard\n"
        "tops = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "print(*sorted(tops - set(sys.stdlib_module_names) - {'jobconsole'}))"
    )
    root = str(Path(guard.__file__).parents[2])
    # As it is started: without site packages.
    answer = subprocess.run([sys.executable, "-S", "-E", "-c", code, root], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == ""
