"""A part of the product taken out or turned round, as a patch of its text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

STORES = "queue_core/stores"
Patch = tuple[str, str]
"""A text, which has to be there exactly once, and what replaces it."""


class PatchError(Exception):
    """A patch does not fit any more: what it takes out was changed."""


@dataclass(frozen=True)
class Mutant:
    """What is changed, and which tests have to see it."""

    name: str
    # below the root of the repository
    file: str
    patches: tuple[Patch, ...]
    # files of tests/, or tests of them
    tests: tuple[str, ...]
    # of these tests, those whose names have this in them and nothing of what follows; "": all
    keyword: str = ""
    # of SQL and Lua: the block "-- name: …" that is patched; "": the file as a whole
    block: str = ""

    def apply(self, root: Path) -> str:
        """Return the text of the file with the patches in it.

        Raises:
            PatchError: a text is not there, or more than once.
        """
        text = (root / self.file).read_text(encoding="utf-8")
        begin, end = self._place(text)
        part = text[begin:end]
        for old, new in self.patches:
            if part.count(old) != 1:
                raise PatchError(f"{self.name}: {part.count(old)} times in {self.file} {self.block}: {old!r}")
            part = part.replace(old, new)
        return text[:begin] + part + text[end:]

    def _place(self, text: str) -> tuple[int, int]:
        if not self.block:
            return 0, len(text)
        found = re.search(rf"^-- name: {self.block}\n", text, re.MULTILINE)
        if found is None:
            raise PatchError(f"{self.name}: {self.file} has no block {self.block}")
        following = text.find("\n-- name: ", found.end())
        return found.start(), len(text) if following < 0 else following


def on(mode: str) -> str:
    """Return the keyword of the tests in one mode."""
    others = {"postgres": "redis", "redis": "postgres"}
    return f"{mode} and not {others[mode]}" if mode in others else mode
