"""Programs of the version before and of this one work on one store, through its migration, while jobs go through."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from queue_core import JobQueue, QueueCoreError
from queue_core.model.filters import Filter
from queue_core.model.settings import JobsSettings
from queue_core.stores.postgres.migrate import KNOWN
from queue_core.stores.sql.migrations import FIRST_VERSION
from tests.architecture.sources import ROOT
from tests.redis_topology.rig import die_with_parent
from tests.waiting import eventually

MODES = ("postgres+redis", "sqlite")
EACH = 150
"""Jobs that the processes of each version run beside each other, at least."""


def git(*arguments: str) -> str:
    """Run git; return what it prints, or nothing where it fails."""
    with suppress(OSError):
        done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
        return done.stdout.strip() if done.returncode == 0 else ""
    return ""


@pytest.fixture(scope="session")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sources of the last version with the schema before this one."""
    if FIRST_VERSION == KNOWN:
        pytest.skip("there is one schema so far")
    (file,) = (ROOT / "queue_core" / "stores" / "postgres" / "migrations").glob(f"{KNOWN:04}_*.sql")
    added = git("log", "--diff-filter=A", "--format=%H", "-1", "--", str(file.relative_to(ROOT)))
    before = added and git("rev-parse", f"{added}^")
    if not before:
        pytest.skip("there is no git history here")
    folder = tmp_path_factory.mktemp("earlier")
    archive = subprocess.run(
        ["git", "archive", before, "queue_core", "jobconsole"], cwd=ROOT, capture_output=True, check=True
    )
    subprocess.run(["tar", "-x"], cwd=folder, input=archive.stdout, check=True)
    return folder


class Fleet:
    """Processes of both versions."""

    def __init__(self, folder: Path, sources: Mapping[str, Path], settings: Mapping[str, Any]) -> None:
        self._folder, self._sources, self._settings = folder, sources, settings
        self._processes: list[subprocess.Popen[bytes]] = []
        shutil.copy(Path(__file__).with_name("fleet_app.py"), folder)

    def _environment(self, version: str) -> dict[str, str]:
        return dict(os.environ) | {
            "FLEET_FOLDER": str(self._folder),
            "FLEET_SETTINGS": json.dumps(self._settings),
            "FLEET_VERSION": version,
            "PYTHONPATH": f"{self._sources[version]}{os.pathsep}{self._folder}",
        }

    def start(self, version: str, *command: str) -> subprocess.Popen[bytes]:
        """Start a program."""
        with (self._folder / f"{version}.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, *command],
                cwd=self._folder,
                env=self._environment(version),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # It makes one call of the kernel and takes no lock.
                preexec_fn=die_with_parent,  # noqa: PLW1509
            )
        self._processes.append(process)
        return process

    def work(self, version: str) -> subprocess.Popen[bytes]:
        """Start a service with one worker."""
        return self.start(version, "-m", "jobconsole", "worker", "run", "fleet_app:jobs", "--concurrency", "10")

    def migrate(self, version: str) -> None:
        """Bring the store to the schema of a version."""
        code = f"""
import json, os
from queue_core.model.settings import JobsSettings
settings = JobsSettings.model_validate(json.loads(os.environ["FLEET_SETTINGS"]))
if settings.queue_backend == "sqlite":
    from queue_core.stores.sqlite.migrate import migrate
    migrate(settings.sqlite)
else:
    from queue_core.stores.postgres.migrate import migrate
    migrate(settings.postgres.url.get_secret_value())
print("migrated to the schema of {version}", flush=True)
"""
        assert self.start(version, "-c", code).wait(60) == 0, self.log()

    def lines(self, *first: str) -> list[list[str]]:
        """Return the lines of all ledgers that begin with a word."""
        found = [line.split() for path in self._folder.glob("*.ledger") for line in path.read_text().splitlines()]
        return [words for words in found if words[0] in first]

    def runs(self, version: str) -> int:
        """Return how many jobs a version has run."""
        return sum(words[3] == version for words in self.lines("ran"))

    def log(self) -> str:
        """Return the end of what the processes have logged."""
        return "\n".join(path.read_text(errors="replace")[-2000:] for path in self._folder.glob("*.log"))

    def close(self) -> None:
        """Kill what is left."""
        for process in self._processes:
            process.kill()
            process.wait()


@pytest.fixture(params=MODES)
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    """The settings of a mode, whose store is empty."""
    if request.param == "sqlite":
        return {"queue_backend": "sqlite", "sqlite": {"path": str(tmp_path / "jobs.db")}}
    postgres = {"url": request.getfixturevalue("empty_postgres_url")}
    redis = {"url": request.getfixturevalue("redis_url"), "prefix": request.getfixturevalue("redis_prefix")}
    return {"queue_backend": "redis", "postgres": postgres, "redis": redis}


@pytest.fixture
def fleet(tmp_path: Path, earlier: Path, settings: dict[str, Any]) -> Iterator[Fleet]:
    """No process yet."""
    fleet = Fleet(tmp_path, {"before": earlier, "now": ROOT}, settings)
    yield fleet
    fleet.close()


@pytest.mark.timeout(300)
async def test_all_jobs_run_once_through_the_migration(fleet: Fleet, settings: dict[str, Any], tmp_path: Path) -> None:
    await asyncio.to_thread(fleet.migrate, "before")
    old = [fleet.work("before"), fleet.start("before", "fleet_app.py")]
    assert await eventually(lambda: fleet.runs("before") > EACH), fleet.log()
    await asyncio.to_thread(fleet.migrate, "now")
    ran = fleet.runs("before")
    assert await eventually(lambda: fleet.runs("before") > ran + EACH), fleet.log()
    new = [fleet.work("now"), fleet.start("now", "fleet_app.py")]
    assert await eventually(lambda: fleet.runs("now") > EACH), fleet.log()
    ran = fleet.runs("before")
    assert await eventually(lambda: fleet.runs("before") > ran + EACH), fleet.log()
    # The rest of the deploy.
    old[0].send_signal(signal.SIGTERM)
    assert await asyncio.to_thread(old[0].wait, 60) == 0, fleet.log()
    (tmp_path / "stop").touch()
    assert [await asyncio.to_thread(one.wait, 60) for one in (old[1], new[1])] == [0, 0], fleet.log()
    async with JobQueue(settings=JobsSettings.model_validate(settings)) as jobs:

        async def quiet() -> bool:
            with suppress(QueueCoreError):
                return (await jobs.inspector.conservation()).unfinished == 0
            return False

        assert await eventually(quiet), fleet.log()
        found = {}
        cursor = None
        while True:
            page = await jobs.inspector.jobs(Filter(), 1000, cursor)
            found |= {job.id: job for job in page.jobs}
            if (cursor := page.cursor) is None:
                break
        where = await jobs.inspector.conservation()
    new[0].send_signal(signal.SIGTERM)
    assert await asyncio.to_thread(new[0].wait, 60) == 0, fleet.log()
    acknowledged = {job_id for words in fleet.lines("enqueued") for job_id in words[1:]}
    assert acknowledged <= found.keys()
    runs = Counter(words[1] for words in fleet.lines("ran"))
    assert {job_id: count for job_id, count in runs.items() if count > 1} == {}
    assert runs.keys() == found.keys()
    assert {str(job.status) for job in found.values()} == {"completed"}
    assert (where.completed, where.dead, where.cancelled) == (len(found), 0, 0)
