"""The demo's own folder: what lies where in it, and the things in it that are broken on purpose."""

from __future__ import annotations

import json
import os
import sysconfig
from pathlib import Path
from typing import NamedTuple

from jobconsole.demo.errors import DemoError

FOLDER_VARIABLE = "DEMO_FOLDER"
"""Where worker and producer processes find the folder. Not JOBCONSOLE_…: these names belong to the settings."""


class Folder(NamedTuple):
    """Paths inside the demo's folder."""

    root: Path

    @property
    def ledger(self) -> Path:
        """One append-only file for each process."""
        return self.root / "ledger"

    @property
    def inbox(self) -> Path:
        """Files that jobs read and that are broken until somebody puts them right."""
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
    def logs(self) -> Path:
        """What the processes print."""
        return self.root / "logs"

    @property
    def settings(self) -> Path:
        """An empty settings file: the demo's processes read no other."""
        return self.root / "empty.yaml"

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
    for path in (folder.root, folder.ledger, folder.inbox, folder.good, folder.pictures, folder.logs):
        path.mkdir(mode=0o700, exist_ok=True)
    folder.settings.touch()
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
        from jobconsole.demo.drawing import draw
    except ImportError:  # Pillow comes with the extra `demo`; without it there is no work on pictures
        return None
    return draw(content, 64)
