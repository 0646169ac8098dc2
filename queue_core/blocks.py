"""Files of SQL or Lua with several blocks, each behind a line `-- name: its name`."""

from __future__ import annotations

import re

_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)


def blocks_of(text: str) -> dict[str, str]:
    """Return the blocks of a file by their names."""
    _, *parts = _NAME.split(text)
    return {name: block.rstrip("\n") + "\n" for name, block in zip(parts[::2], parts[1::2], strict=True)}
