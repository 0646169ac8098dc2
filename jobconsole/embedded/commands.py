"""The command lines of the two servers."""

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

# The superuser of the embedded PostgreSQL.
USER = "app"
DATABASE = "postgres"

# Nothing here has to survive a crash of the machine, so nothing waits for the disk.
THROW_AWAY = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


def initdb_command(program: Path, durable: bool) -> list[str]:
    """Answer the command that makes a data folder; the folder itself is added by whoever runs it."""
    command = [str(program.with_name("initdb")), "-U", USER, "-A", "trust", "-E", "UTF8", "--no-locale"]
    return [*command, "--no-instructions"] if durable else [*command, "--no-instructions", "-N"]


def postgres_command(
    program: Path, data: Path, sockets: Path, max_connections: int, durable: bool, options: Mapping[str, str]
) -> list[str]:
    """Answer the command that starts PostgreSQL on a unix socket and nowhere else."""
    settings = {
        "max_connections": str(max_connections),
        "shared_buffers": "128MB",
        # Inside the data folder: /dev/shm is small in containers and is not ours to litter.
        "dynamic_shared_memory_type": "mmap",
        # Huge pages of this machine, if it has any, are meant for somebody else.
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
    """Answer the command that starts the Redis-protocol server on a unix socket and nowhere else."""
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
    """Answer the address of the PostgreSQL in a folder of sockets."""
    # The port is named, for PGPORT in the environment would be used instead.
    return f"postgresql://{USER}@/{DATABASE}?host={quote(str(sockets))}&port=5432"


def redis_url(socket: Path) -> str:
    """Answer the address of the Redis-protocol server behind a socket."""
    return f"unix://{quote(str(socket))}?db=0"
