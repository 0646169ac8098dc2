"""The queue in a notebook: look at jobs, retry and delete them behind a preview, take them into data frames.

    from jobconsole.notebook import connect

    c = connect()
    c.stats()

Importing this registers how jobs, pages, counts and handles are shown with the running IPython, where there is one.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jobconsole.notebook.change import Preview
    from jobconsole.notebook.records import as_html, as_text
    from jobconsole.notebook.rows import JobRows
    from jobconsole.notebook.session import NotebookConsole, connect

__all__ = ["JobRows", "NotebookConsole", "Preview", "as_html", "as_text", "connect", "load_ipython_extension"]

_HOMES = {
    "JobRows": "rows",
    "NotebookConsole": "session",
    "Preview": "change",
    "as_html": "records",
    "as_text": "records",
    "connect": "session",
}


if not TYPE_CHECKING:  # for which each name would be there, also one with a typing error

    def __getattr__(name: str) -> Any:
        """Load what is asked for, once."""
        home = _HOMES.get(name)
        if home is None:
            raise AttributeError(f"module 'jobconsole.notebook' has no attribute '{name}'")
        value = globals()[name] = getattr(import_module(f"jobconsole.notebook.{home}"), name)
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def load_ipython_extension(shell: Any) -> None:
    """Register how this package's records are shown, as `%load_ext jobconsole.notebook` does."""
    from jobconsole.notebook.records import register

    register(shell)


def _register() -> None:
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    if shell is not None:
        load_ipython_extension(shell)


_register()
