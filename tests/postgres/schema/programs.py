"""PostgreSQL's own programs for backups, of the version that a test's server has."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import psycopg
import pytest

from jobconsole.embedded.binaries import find_postgres
from tests.servers import SessionServers


def backup_programs(servers: SessionServers, url: str) -> Path:
    """Return the folder of pg_dump and pg_restore, or skip the test where there are none that fit the server."""
    folder = find_postgres(servers.prefer).path.parent
    if not all((folder / name).exists() for name in ("pg_dump", "pg_restore")):
        pytest.skip("this PostgreSQL comes without pg_dump and pg_restore")
    with psycopg.connect(url) as connection:
        server = connection.info.server_version // 10_000
    answer = subprocess.run([folder / "pg_dump", "--version"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"\) (\d+)", answer)
    if found is None or int(found[1]) != server:
        pytest.skip(f"the server is PostgreSQL {server}, and {answer.strip()} is here")
    return folder


def run(program: Path, *arguments: str | Path) -> str:
    """Run one of them; return what it has written as errors, nothing where all went well."""
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stderr or f"exit code {done.returncode}"
