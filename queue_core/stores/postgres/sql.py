"""The SQL files of this package, and array literals for their parameters."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib.resources import files


@cache
def load(name: str) -> bytes:
    """Return a query by its name, such as `claim/by_ids`: the file's text without its comment lines.

    Raises:
        FileNotFoundError: no query has this name.
    """
    text = files("queue_core.stores.postgres").joinpath("queries", f"{name}.sql").read_text(encoding="utf-8")
    return "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("--")).strip().encode()


def plain_array(values: Iterable[object]) -> str:
    """Return the array literal of numbers or uuids; None becomes NULL.

    Batches go to the server as a handful of array literals: building them costs a tenth of what the driver takes to
    adapt lists value by value.
    """
    return "{" + ",".join(["NULL" if value is None else str(value) for value in values]) + "}"


def text_array(values: Iterable[str | None]) -> str:
    """Return the array literal of texts, quoted; None becomes NULL."""
    parts = [
        "NULL" if value is None else '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"' for value in values
    ]
    return "{" + ",".join(parts) + "}"
