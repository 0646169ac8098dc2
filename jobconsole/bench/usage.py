"""CPU time and memory of processes and servers; None where this system or this server does not tell."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

PROC = Path("/proc")


def cpu_seconds(pid: int) -> float | None:
    """Return the CPU time of a process, its ended children included."""
    fields = _stat(pid)
    return None if fields is None else sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def peak_mib(pids: Iterable[int]) -> float | None:
    """Return the largest resident size that one of these processes has ever had."""
    return max((peak for pid in pids if (peak := _peak_mib(pid)) is not None), default=None)


def _peak_mib(pid: int) -> float | None:
    with suppress(OSError):
        for line in (PROC / str(pid) / "status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    return None


def children(pid: int) -> list[int]:
    """Return the child processes of a process."""
    found = []
    for entry in PROC.glob("[0-9]*"):
        fields = _stat(int(entry.name))
        if fields is not None and int(fields[1]) == pid:
            found.append(int(entry.name))
    return found


def parent(pid: int) -> int | None:
    """Return the parent of a process."""
    fields = _stat(pid)
    return None if fields is None else int(fields[1])


def _stat(pid: int) -> list[str] | None:
    """Return the fields behind the name of the program, which may contain anything."""
    try:
        return (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None


class PostgresUsage:
    """The CPU time of all processes of a PostgreSQL on this machine."""

    def __init__(self, url: str) -> None:
        import psycopg

        self._connection = psycopg.connect(url, autocommit=True)
        self._own = self._connection.info.backend_pid
        self._server = parent(self._own)

    def cpu_seconds(self) -> float | None:
        """Return the CPU time of the server so far, without that of this connection."""
        total = None if self._server is None else cpu_seconds(self._server)
        if total is None or self._server is None:
            return None
        return total + sum(cpu_seconds(pid) or 0.0 for pid in children(self._server) if pid != self._own)

    def close(self) -> None:
        """Disconnect."""
        self._connection.close()


class RedisUsage:
    """The CPU time that a Redis says it has used."""

    def __init__(self, url: str) -> None:
        import redis

        self._client = redis.Redis.from_url(url)

    def cpu_seconds(self) -> float | None:
        """Return the CPU time of the server so far."""
        told = self._client.info("cpu")
        return float(told["used_cpu_sys"]) + float(told["used_cpu_user"])

    def close(self) -> None:
        """Disconnect."""
        self._client.close()
