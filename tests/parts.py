"""Which tests run again on other releases of the servers, of Python and of packages.

`-m on_postgres`, `on_redis`, `on_python`, `on_packages`.

Everything whose statements or scripts a release could refuse or carry out in another way, and no test twice for the
same reason: the conformance suite in the modes of that server, the tests of its store, every operator verb of the
command line, and a look with the console. Left out are the tests of what lies above the stores, and those that take
their time with killing and waiting.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

MODES = {"postgres": ("postgres", "postgres+redis"), "redis": ("redis", "postgres+redis")}
"""Values of a test's parameters that name a mode on this server."""
BY_MODE = ("conformance/", "cli/", "tui/test_modes.py")
"""Tests that are run in several modes: those of the server's modes are its part."""
WHOLE = {"postgres": ("postgres/",), "redis": ("redis/",)}
"""Tests that are the server's part, in whatever mode."""
OF_PYTHON = (
    "acceptance/test_terminal.py", "blocking/", "cli/test_process.py", "integrations/", "simulation/",
    "tui/test_burst.py", "worker/",
)  # fmt: skip
"""Tests of what a release of Python does otherwise: tasks, processes, signals, and how Textual starts."""
OF_PACKAGES = (
    "acceptance/test_terminal.py", "cli/test_addresses.py", "cli/test_process.py", "examples/", "exporter/",
    "integrations/", "notebook/", "redis/", "tui/test_burst.py", "tui/test_edit.py", "tui/test_views.py", "web/",
)  # fmt: skip
"""Tests that meet each package that is not a test's own: the drivers, Textual, pydantic, those of integrations."""


def mark_parts(items: Iterable[pytest.Item]) -> None:
    """Mark the tests of each server's part."""
    root = Path(__file__).parent
    for item in items:
        path = item.path.relative_to(root).as_posix() if item.path.is_relative_to(root) else ""
        callspec = getattr(item, "callspec", None)
        values = [value for value in callspec.params.values() if isinstance(value, str)] if callspec else []
        if path.startswith(OF_PYTHON):
            item.add_marker("on_python")
        if path.startswith(OF_PACKAGES):
            item.add_marker("on_packages")
        for server, modes in MODES.items():
            whole = path.startswith(WHOLE[server])
            if whole or (path.startswith(BY_MODE) and any(value in modes for value in values)):
                item.add_marker(f"on_{server}")
