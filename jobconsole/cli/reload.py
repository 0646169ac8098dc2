"""`worker run --reload`: what notices that Python files have changed, by the package `watchfiles` or their times."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

TICK = 0.5
"""Seconds between two looks at the files' times; a thousand files take some 10 ms."""
QUIET = 0.1
"""Seconds without a further change after which a group of changes is complete: editors write several files."""
SKIPPED = frozenset({"__pycache__", "node_modules", "site-packages"})
"""Folders that hold no sources of the application; neither do hidden ones and virtual environments."""
GRACE = 5.0
"""Seconds that jobs get at most to finish before a reload gives them back."""


def watch(changed: Callable[[], None], folder: Path | None = None) -> None:
    """Call `changed` whenever Python files below the current folder have changed, for ever."""
    folder = (folder or Path.cwd()).resolve()
    try:
        import watchfiles
    except ImportError:
        _poll(changed, folder)
        return
    for _ in watchfiles.watch(folder, watch_filter=watchfiles.PythonFilter(), raise_interrupt=False):
        changed()


def _poll(changed: Callable[[], None], folder: Path, ticks: int | None = None) -> None:
    """Compare the files' times; `ticks`: how often, None for ever."""
    before = times(folder)
    while ticks is None or ticks > 0:
        ticks = None if ticks is None else ticks - 1
        time.sleep(TICK)
        now = times(folder)
        if now == before:
            continue
        while (latest := _after(QUIET, folder)) != now:
            now = latest
        before = now
        changed()


def _after(seconds: float, folder: Path) -> dict[str, tuple[int, int]]:
    time.sleep(seconds)
    return times(folder)


def times(folder: Path) -> dict[str, tuple[int, int]]:
    """Return the time of the last change and the size of each Python file below a folder."""
    found = {}
    for path in _sources(folder):
        try:
            status = os.stat(path)  # noqa: PTH116  a thousand files twice a second
        except OSError:  # it was removed meanwhile
            continue
        found[path] = status.st_mtime_ns, status.st_size
    return found


def _sources(folder: Path) -> Iterator[str]:
    for root, folders, names in os.walk(folder):
        folders[:] = [
            name
            for name in folders
            if name not in SKIPPED and not name.startswith(".") and not Path(root, name, "pyvenv.cfg").exists()
        ]
        yield from (f"{root}/{name}" for name in names if name.endswith(".py"))
