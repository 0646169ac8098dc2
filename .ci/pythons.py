"""Other releases of Python than the one that runs this, for the passes on older servers: installed, or of pyenv."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PATIENCE = 300
"""Seconds that one installation may take."""
RELEASES = ("3.14", "3.13", "3.12", "3.11")
ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Python:
    """An interpreter."""

    path: Path
    release: str


class Unusable(Exception):
    """It cannot run the tests; the message names the reason."""


def other_pythons() -> list[Python]:
    """Return those that are not of this program's release, the newest first, one a release."""
    found = {one.release: one for one in reversed([*_candidates()]) if one.release in RELEASES}
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    return [found[release] for release in RELEASES if release in found and release != own]


def environment(python: Python, folder: Path) -> Path:
    """Make a virtual environment with the package and all that its tests need; return its interpreter.

    Raises:
        Unusable: that failed.
    """
    place = folder / f"python-{python.release}"
    own = place / "bin" / "python"
    _run([str(python.path), "-m", "venv", str(place)])
    _run([str(own), "-m", "pip", "install", "-q", "-e", f"{ROOT}[dev]"])
    return own


def _candidates() -> Iterator[Python]:
    for release in RELEASES:
        if path := shutil.which(f"python{release}"):
            yield from _asked(Path(path))
    if shutil.which("pyenv"):
        root = subprocess.run(["pyenv", "root"], capture_output=True, text=True, check=False).stdout.strip()
        for path in sorted(Path(root).glob("versions/3.*/bin/python"), reverse=True):
            yield from _asked(path)


def _asked(path: Path) -> Iterator[Python]:
    """Yield an interpreter where it runs, with its release: what bears the name may be a shim for none."""
    asked = "import ensurepip, sys; print('%d.%d' % sys.version_info[:2])"
    done = subprocess.run([path, "-c", asked], capture_output=True, text=True, check=False)
    if done.returncode == 0:
        yield Python(path, done.stdout.strip())


def _run(command: list[str]) -> None:
    environ = os.environ | {"PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    try:
        subprocess.run(command, env=environ, timeout=PATIENCE, check=True, capture_output=True, text=True)
    except subprocess.TimeoutExpired:
        raise Unusable(f"it took longer than {PATIENCE} s") from None
    except subprocess.CalledProcessError as error:
        lines = error.stderr.strip().splitlines()
        raise Unusable(lines[-1] if lines else f"exit code {error.returncode}") from None
