"""What there is to work on: files of this machine's own Python, found within bounds and always in the same order."""

from __future__ import annotations

import importlib.util
import os
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

MOST_FILES = 2000
"""Of one kind below one folder; enough that an hour's run seldom repeats itself soon."""
MOST_LOOKED_AT = 20_000
"""Files below one folder: found within some tenths of a second, whatever else is installed there."""
LARGEST = 256 * 1024
"""Bytes of a file for the small jobs: none of them takes longer than some tenths of a second."""
SMALLEST_MODULE = 8 * 1024
"""Bytes of a module: a smaller one is worked off before anybody sees it running."""
PICTURE_FOLDERS = ("/usr/share/pixmaps", "/usr/share/icons", "/usr/share/doc", "/System/Library/Desktop Pictures")
PICTURE_ENDINGS = (".png", ".jpg", ".jpeg", ".gif", ".webp")
BAD_SYNTAX = ("lib2to3/tests/data/py2_test_grammar.py", "test/badsyntax_3131.py", "test/tokenizedata/badsyntax_3131.py")
"""Modules of the standard library that no Python 3 parses, some of them in each version."""
INSTALLED = ("site-packages", "dist-packages")
LARGER = range(1 << 20, 12 << 20)
"""Bytes of a folder that takes some seconds to archive."""
NOT_MODULES = frozenset(
    {"test", "tests", "data", "tokenizedata", "templates", "__pycache__", "node_modules", *INSTALLED}
)


@dataclass(frozen=True, slots=True)
class Material:
    """Files by what can be done with them; each is at least one."""

    modules: tuple[Path, ...]
    # CSV: what each installed distribution consists of
    records: tuple[Path, ...]
    # headers and text, as in mail
    metadata: tuple[Path, ...]
    documents: tuple[Path, ...]
    # may be empty
    pictures: tuple[Path, ...]
    # not text in any encoding
    binaries: tuple[Path, ...]
    # do not parse as Python, and never will
    bad_modules: tuple[Path, ...]
    # packages of the standard library, from a few files to some hundred
    folders: tuple[Path, ...]
    # take some seconds to archive
    larger_folders: tuple[Path, ...]
    # takes minutes to archive
    large_folder: Path


def find_material(document: Path) -> Material:
    """Return what this machine has; `document` is a JSON file that there is in any case."""
    library = Path(sysconfig.get_path("stdlib"))
    packages = Path(sysconfig.get_path("purelib"))
    found = _survey((library, packages))
    binaries = tuple(found.get(".so", ())) or (Path(os.path.realpath(sys.executable)),)
    modules = tuple(path for path in found[".py"] if path.stat().st_size >= SMALLEST_MODULE)
    return Material(
        modules=modules,
        records=_named(packages, "RECORD") or modules,
        metadata=_named(packages, "METADATA") or modules,
        documents=(document, *found.get(".json", ())),
        pictures=_pictures((library, packages)) if importlib.util.find_spec("PIL") else (),
        binaries=binaries,
        bad_modules=_bad_modules(library) or _named(packages, "METADATA")[:1] or binaries[:1],
        folders=_folders(library),
        larger_folders=_larger(packages) or _folders(library),
        large_folder=library,
    )


def files_below(folder: Path) -> list[Path]:
    """Return the regular files below a folder, in order, without compiled modules and links."""
    return [Path(entry.path) for entry in _walk(folder, frozenset({"__pycache__", *INSTALLED}))]


def _walk(folder: Path | str, skipped: frozenset[str]) -> Iterator[os.DirEntry[str]]:
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return  # somebody else's folder
    for entry in entries:
        if entry.is_file(follow_symlinks=False) and os.access(entry.path, os.R_OK):
            yield entry
        elif entry.is_dir(follow_symlinks=False) and entry.name not in skipped:
            yield from _walk(entry.path, skipped)


def _survey(roots: tuple[Path, ...]) -> dict[str, list[Path]]:
    """Return the handy files below the folders by their ending."""
    found: dict[str, list[Path]] = {}
    for root in roots:
        below: dict[str, list[Path]] = {}
        for entry in islice(_walk(root, NOT_MODULES), MOST_LOOKED_AT):
            paths = below.setdefault(Path(entry.name).suffix, [])
            if len(paths) < MOST_FILES and 0 < entry.stat().st_size <= LARGEST:
                paths.append(Path(entry.path))
        for ending, paths in below.items():
            found.setdefault(ending, []).extend(paths)
    return found


def _bad_modules(library: Path) -> tuple[Path, ...]:
    return tuple(path for path in (library / name for name in BAD_SYNTAX) if path.is_file())


def _named(packages: Path, name: str) -> tuple[Path, ...]:
    found = (path for path in sorted(packages.glob(f"*.dist-info/{name}")) if os.access(path, os.R_OK))
    return tuple(path for path in found if 0 < path.stat().st_size <= LARGEST)


def _pictures(roots: tuple[Path, ...]) -> tuple[Path, ...]:
    found = _survey((*roots, *(Path(folder) for folder in PICTURE_FOLDERS)))
    return tuple(path for ending in PICTURE_ENDINGS for path in found.get(ending, ()))


def _folders(library: Path) -> tuple[Path, ...]:
    found = {path.parent for path in library.glob("*/__init__.py")} - {library / name for name in ("test", *INSTALLED)}
    return tuple(sorted(found)) or (library,)


def _larger(packages: Path) -> tuple[Path, ...]:
    folders = sorted(path for path in packages.iterdir() if path.is_dir() and path.name.isidentifier())
    return tuple(path for path in folders if _bytes_below(path) in LARGER)


def _bytes_below(folder: Path) -> int:
    total = 0
    for entry in _walk(folder, frozenset({"__pycache__"})):
        total += entry.stat().st_size
        if total >= LARGER.stop:
            break
    return total
