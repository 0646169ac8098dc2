"""What operators' interfaces have in common: copies that may change nothing, or only try what they would change."""

from __future__ import annotations

from copy import copy
from typing import Self

from queue_core.errors import ReadOnly


class Guarded:
    """The store's operators' interface; every change through a read-only one raises `ReadOnly`."""

    _read_only = False

    def read_only(self) -> Self:
        """Return a read-only copy."""
        guarded = copy(self)
        guarded._read_only = True
        return guarded

    def _check(self, verb: str) -> None:
        if self._read_only:
            raise ReadOnly(verb)


class DryRunnable(Guarded):
    """One whose changes are made at once and recorded; they can be tried, too."""

    _dry = False

    def dry_run(self) -> Self:
        """Return a copy whose changes write nothing: they raise what they would raise, else return 0 for a number."""
        trying = copy(self)
        trying._read_only, trying._dry = False, True
        return trying
