"""What there is to work on: files of this machine's own Python, found within bounds and always in the same order."""

from __future__ import annotations

import importlib.util
import io
import json
import os
import random
import shlex
import socket
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from jobconsole.embedded.places import DemoError

MAX_FILES = 2000
"""Of one kind below one folder; enough that an hour's run seldom repeats itself soon."""
MAX_LOOKED_AT = 20_000
"""Files below one folder: found within some tenths of a second, whatever else is installed there."""
LARGEST = 256 * 1024
"""Bytes of a file for the small jobs: none of them takes longer than some tenths of a second."""
SMALLEST_MODULE = 8 * 1024
"""Bytes of a module: a smaller one is processed before it can be seen running."""
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
        return  # another user's folder
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
        for entry in islice(_walk(root, NOT_MODULES), MAX_LOOKED_AT):
            paths = below.setdefault(Path(entry.name).suffix, [])
            if len(paths) < MAX_FILES and 0 < entry.stat().st_size <= LARGEST:
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


def draw(content: bytes, width: int) -> bytes:
    """Return a PNG in which each row shows `width` bytes of the content as shades of grey."""
    from PIL import Image

    height = max(1, len(content) // width)
    picture = Image.frombytes("L", (width, height), content[: width * height].ljust(width * height, b"\0"))
    target = io.BytesIO()
    picture.save(target, "PNG")
    return target.getvalue()


FOLDER_VARIABLE = "DEMO_FOLDER"
"""Where worker and producer processes find the folder. Not JOBS_…: these names belong to the settings."""


class Folder(NamedTuple):
    """Paths inside the demo's folder."""

    root: Path

    @property
    def ledger(self) -> Path:
        """One append-only file for each process."""
        return self.root / "ledger"

    @property
    def inbox(self) -> Path:
        """Files that jobs read and that are broken until they are repaired."""
        return self.root / "inbox"

    @property
    def good(self) -> Path:
        """The whole files to put into the inbox."""
        return self.root / "good"

    @property
    def pictures(self) -> Path:
        """Thumbnails and drawings that jobs make; names repeat, so it stays small."""
        return self.root / "pictures"

    @property
    def receipts(self) -> Path:
        """What jobs write for orders; names repeat."""
        return self.root / "receipts"

    @property
    def logs(self) -> Path:
        """What the processes print."""
        return self.root / "logs"

    @property
    def document(self) -> Path:
        """The JSON document that does not parse."""
        return self.inbox / "variables.json"

    @property
    def picture(self) -> Path:
        """The picture that does not decode."""
        return self.inbox / "picture.png"


def here() -> Folder:
    """Return the folder that this process was given.

    Raises:
        DemoError: this process was not started by the demo.
    """
    path = os.environ.get(FOLDER_VARIABLE)
    if not path:
        raise DemoError(f"The tasks of the demo run inside 'jobconsole demo' only: {FOLDER_VARIABLE} is not set.")
    return Folder(Path(path))


def prepare(root: Path) -> Folder:
    """Make the folder, with a document and (where Pillow is installed) a picture that are cut off in the middle."""
    folder = Folder(root)
    for path in (folder.root, folder.ledger, folder.inbox, folder.good, folder.pictures, folder.receipts, folder.logs):
        path.mkdir(mode=0o700, exist_ok=True)
    whole = json.dumps(sysconfig.get_config_vars(), indent=1, default=str).encode()
    _cut(folder.good / folder.document.name, folder.document, whole)
    picture = _picture(whole)
    if picture is not None:
        _cut(folder.good / folder.picture.name, folder.picture, picture)
    return folder


def _cut(good: Path, broken: Path, content: bytes) -> None:
    good.write_bytes(content)
    broken.write_bytes(content[: len(content) // 2])


def _picture(content: bytes) -> bytes | None:
    try:
        pass
    except ImportError:  # Pillow comes with the extra `demo`; without it there is no work on pictures
        return None
    return draw(content, 64)


PORTS = range(20_000, 30_000)
"""Below the ports that systems give to outgoing connections: one of those could connect to itself."""


def closed_port() -> int:
    """Return a port of 127.0.0.1 without a listener.

    Raises:
        DemoError: none was found.
    """
    # Two demos at once must not find the same one; nothing else depends on the number.
    for port in random.sample(PORTS, 50):
        with socket.socket() as listener:
            try:
                listener.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise DemoError("No free port was found on 127.0.0.1 between 20000 and 30000.")


def repair_hints(folder: Folder, port: int) -> list[str]:
    """Return one line for each kind of failure that can be repaired: what to run in another terminal, what to retry."""
    hints = [
        f"read_document: {_copy(folder.good / folder.document.name, folder.document)}",
        f"notify: python3 -m http.server {port} --bind 127.0.0.1 --directory {_quoted(folder.good)}",
    ]
    if folder.picture.exists():
        hints.append(f"thumbnail: {_copy(folder.good / folder.picture.name, folder.picture)}")
    return [f"repair {hint}" for hint in hints]


def _copy(good: Path, broken: Path) -> str:
    return f"cp {_quoted(good)} {_quoted(broken)}"


def _quoted(path: Path) -> str:
    return shlex.quote(str(path))
