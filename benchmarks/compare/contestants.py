"""The queues that are compared, and the virtual environment of each that is not this one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

PEERS_FOLDER = Path(__file__).parent / "peers"
PLAYERS = ("uvloop", "hiredis")
"""What every peer is played with."""


class PeerUnavailable(Exception):
    """A peer cannot be installed; the message is one sentence."""


@dataclass(frozen=True, slots=True)
class Contestant:
    """One queue, or one mode of this queue."""

    # in tables and for --only
    name: str
    # peers/<module>_peer.py
    module: str
    # the servers it uses: postgres, redis
    servers: tuple[str, ...]
    # from the package index; empty: this project, in the Python that runs the program
    requirements: tuple[str, ...] = ()

    @property
    def own(self) -> bool:
        """Whether it is this queue."""
        return not self.requirements

    @property
    def label(self) -> str:
        """The name with the release that is measured."""
        return self.name if self.own else self.requirements[0].partition("[")[0].partition("=")[0] + self._release

    @property
    def _release(self) -> str:
        return " " + self.requirements[0].rpartition("=")[2]


OWN = (
    Contestant("postgres", "own", ("postgres",)),
    Contestant("postgres+redis", "own", ("postgres", "redis")),
    Contestant("redis", "own", ("redis",)),
)
PEERS = (
    Contestant("pgqueuer", "pgqueuer", ("postgres",), ("pgqueuer==1.6.0", "asyncpg")),
    Contestant("awa", "awa", ("postgres",), ("awa-pg==0.6.9", "psycopg[binary]")),
    Contestant("dramatiq", "dramatiq", ("redis",), ("dramatiq[redis]==2.2.1",)),
    Contestant("huey", "huey", ("redis",), ("huey==3.5.4", "redis")),
)
CONTESTANTS = (*OWN, *PEERS)


def default_folder() -> Path:
    """Return where the environments are kept between runs, outside of the repository."""
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(cache) / "jobconsole-compare"


def python_of(contestant: Contestant, folder: Path) -> Path:
    """Return the Python of a contestant; its environment is made at the first use, and again for another release.

    Raises:
        PeerUnavailable: the environment cannot be made, or the package index has no such package.
    """
    if contestant.own:
        return Path(sys.executable)
    place = folder / f"{contestant.name}-{sys.version_info.major}.{sys.version_info.minor}"
    wanted = "\n".join((*contestant.requirements, *PLAYERS))
    python, complete = place / "bin" / "python", place / "complete"
    if complete.exists() and complete.read_text(encoding="utf-8") == wanted and python.exists():
        return python
    shutil.rmtree(place, ignore_errors=True)
    try:
        venv.create(place, with_pip=True)
    except (OSError, subprocess.CalledProcessError) as problem:
        raise PeerUnavailable(f"its environment cannot be made: {problem}") from problem
    command = [str(python), "-m", "pip", "install", "-q", *contestant.requirements, *PLAYERS]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"pip ended with {done.returncode}"]
        raise PeerUnavailable(f"it cannot be installed: {lines[-1]}")
    complete.write_text(wanted, encoding="utf-8")
    return python
