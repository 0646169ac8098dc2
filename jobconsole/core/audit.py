"""The list of operations as far as it was read: pages by number, from the newest on, without gaps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from jobconsole.core.progress import OperationLine

MOST = 20_000
"""Operations held at most."""


@dataclass(slots=True)
class Audit:
    """Operations by number; reading returns pages, `take` adopts them."""

    lines: dict[int, OperationLine] = field(default_factory=dict)
    # whether the newest page was ever read
    loaded: bool = False
    # whether nothing older follows
    complete: bool = False

    @property
    def newest_first(self) -> list[OperationLine]:
        """All of them."""
        return [self.lines[number] for number in sorted(self.lines, reverse=True)]

    @property
    def oldest(self) -> int | None:
        """The number before which the next page goes on; None: from the newest."""
        return min(self.lines, default=None)

    @property
    def full(self) -> bool:
        """Whether no more is read."""
        return self.complete or len(self.lines) >= MOST

    def take(self, page: Sequence[OperationLine], before: int | None, size: int) -> None:
        """Adopt a page of at most `size` that was asked for before a number, or the newest one."""
        if before is None and len(page) == size and not any(line.number in self.lines for line in page):
            # So many new ones that nothing is known of those between: begin anew.
            self.lines, self.complete = {}, False
        self.lines.update((line.number, line) for line in page)
        if len(page) < size:
            self.complete = True
        self.loaded = True

    def follow(self, underway: Iterable[OperationLine], size: int) -> tuple[int | None, ...]:
        """Adopt what is known of operations that have not ended; return before which number to read what was missed."""
        known = {line.number: line for line in underway}
        newest = sorted(self.lines, reverse=True)[:size]
        missed = [number for number, line in self.lines.items() if number not in known and not line.operation.ended]
        fresh = any(number > newest[0] for number in known) if newest else bool(known)
        self.lines.update((number, line) for number, line in known.items() if number in self.lines)
        if fresh or any(number >= newest[-1] for number in missed):
            return (None,)
        return (max(missed) + 1,) if missed else ()
