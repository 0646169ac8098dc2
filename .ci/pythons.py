"""Environments for the passes on older servers: other releases of Python, of pyenv too, and the oldest packages."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

PATIENCE = 300
"""Seconds that one installation may take."""
RELEASES = ("3.14", "3.13", "3.12", "3.11")
OF_OLD = ("3.11", "3.12")
"""For which there are wheels of the oldest releases of all packages."""
TOOLS = ("dev", "demo")
"""Extras of which an application has none installed."""
ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Python:
    """An interpreter."""

    path: Path
    release: str
    # with the oldest releases of packages that pyproject.toml allows
    old: bool = False

    @property
    def name(self) -> str:
        """As the pass is named."""
        return "the oldest packages" if self.old else f"Python {self.release}"


class Unusable(Exception):
    """It cannot run the tests; the message names the reason."""


def other_pythons() -> list[Python]:
    """Return those that are not of this program's release, the newest first, one a release."""
    found = {one.release: one for one in reversed([*_candidates()]) if one.release in RELEASES}
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    return [found[release] for release in RELEASES if release in found and release != own]


def with_oldest_packages(others: list[Python]) -> Python | None:
    """Return an interpreter for them, this one or another one; None where there is none."""
    own = Python(Path(sys.executable), f"{sys.version_info.major}.{sys.version_info.minor}")
    found = next((one for one in (own, *others) if one.release in OF_OLD), None)
    return found and replace(found, old=True)


def oldest(folder: Path) -> list[str]:
    """Return constraints for pip: of each package the series that pyproject.toml names as its oldest."""
    project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = (lines for name, lines in project["optional-dependencies"].items() if name not in TOOLS)
    found = []
    for line in [*project["dependencies"], *(line for lines in extras for line in lines)]:
        requirement, _, marker = line.partition(";")
        if bound := re.fullmatch(r"([\w.-]+)(?:\[(\w+)\])?>=([\d.]+)(?:,!=[\d.]+)*", requirement.strip()):
            name, extra, release = bound.groups()
            names = [name, f"{name}-{extra}"] if extra == "binary" else [name]
            found += [f"{one}=={release}.*{' ;' + marker if marker else ''}" for one in names]
    return found


def environment(python: Python, folder: Path) -> Path:
    """Make a virtual environment with the package and all that its tests need; return its interpreter.

    Raises:
        Unusable: that failed.
    """
    place = folder / python.name.replace(" ", "-")
    own, constraints = place / "bin" / "python", folder / "constraints.txt"
    constraints.write_text("\n".join(oldest(ROOT) if python.old else ()), encoding="utf-8")
    _run([str(python.path), "-m", "venv", str(place)])
    _run([str(own), "-m", "pip", "install", "-q", "-e", f"{ROOT}[dev]", "-c", str(constraints)])
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
