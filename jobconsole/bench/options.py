"""The arguments of `jobconsole bench`."""

from __future__ import annotations

from dataclasses import dataclass

MODES = ("postgres+redis", "postgres", "redis", "sqlite", "memory")
USES = {"postgres+redis": ("postgres", "redis"), "postgres": ("postgres",), "redis": ("redis",)}
"""The servers that a mode stands on."""


@dataclass(frozen=True, slots=True)
class BenchOptions:
    """What is measured, and where."""

    mode: str = "postgres+redis"
    # jobs that are enqueued and then drained
    jobs: int = 20_000
    # worker processes
    workers: int = 1
    # other servers than the embedded ones; only an empty database and an empty prefix are accepted
    postgres_url: str | None = None
    redis_url: str | None = None
    prefix: str = "bench:"
