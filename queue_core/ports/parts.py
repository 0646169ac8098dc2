"""What a store adds that is on several servers, each with queues of its own."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Protocol, runtime_checkable


@runtime_checkable
class PartedStore(Protocol):
    """A store of which one part may be away while the queues in the others go on."""

    apart: bool
    """Whether it has several parts."""

    def part_of(self, queue: str) -> Hashable:
        """Return the part that has a queue, as far as is known; it may become another one at any time."""
        ...
