"""The changes of this console that `undo` can take back, in the order of the requests."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["queue", "schedule"]
"""What can be paused."""
SOON = 1.0
"""Seconds that an undo waits for the one before it: two quick presses of the key are two undos."""
REMEMBERED = 50
"""Changes that can be taken back."""


@dataclass(eq=False, slots=True)
class Change:
    """A change that this console has requested; it is remembered from the start, while it is still written."""

    # the store has it, or it failed
    settled: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    failed: bool = field(default=False, init=False)

    @property
    def words(self) -> str:
        """What it is, for people."""
        raise NotImplementedError

    @property
    def name(self) -> str:
        """Its verb, beside a key."""
        raise NotImplementedError

    def lose(self, number: int) -> bool:
        """Forget an operation; whether nothing is left of the change."""
        return False


@dataclass(eq=False, slots=True)
class SubmittedChange(Change):
    """An operation on jobs."""

    verb: str
    label: str
    # 0: the store has not given it one yet
    number: int = 0

    def lose(self, number: int) -> bool:
        return number == self.number

    @property
    def words(self) -> str:
        """Verb and number."""
        return f"{self.verb} #{self.number}" if self.number else f"the {self.verb} that is being written"

    @property
    def name(self) -> str:
        """Its verb."""
        return self.verb


@dataclass(eq=False, slots=True)
class PausedChange(Change):
    """A queue or a schedule was paused or resumed."""

    kind: Kind
    # its name
    what: str
    # what it was made
    paused: bool
    # the number of the operation that notes it
    note: int = 0

    @property
    def words(self) -> str:
        """What was done to what."""
        what = "schedule " if self.kind == "schedule" else ""
        return f"the {self.name} of {what}{self.what}"

    @property
    def name(self) -> str:
        """Its verb."""
        return "pause" if self.paused else "resume"


NOTHING_TO_UNDO = "nothing to undo; a retry that has finished cannot be undone"


class Remembered:
    """The changes that can be taken back, the last one on top."""

    def __init__(self) -> None:
        self._changes: deque[Change] = deque(maxlen=REMEMBERED)
        # what is being taken back, in words; "" when nothing is
        self.taking_back = ""
        # a change after the last of these that cannot be taken back, in words; "" when there is none
        self._behind = ""
        self._taken = asyncio.Event()

    async def turn(self) -> bool:
        """Wait until nothing is being taken back; return False when that takes long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(SOON):
                while self.taking_back:
                    self._taken.clear()
                    await self._taken.wait()
        return not self.taking_back

    async def refusal(self) -> str:
        """Wait until it is the caller's turn; return why nothing is taken back now, "" when `last` can be.

        It is asked for twice where something came later: an undo never surprises with what was done long before.
        """
        if not await self.turn():
            return f"{self.taking_back} is still being undone: press u again when that is done"
        if self.last is None:
            return NOTHING_TO_UNDO
        behind, self._behind = self._behind, ""
        return f"{behind} cannot be undone; u again undoes {self.last.words}" if behind else ""

    def pass_by(self, words: str) -> None:
        """Note a change that cannot be taken back."""
        self._behind = words

    def taken_back(self) -> None:
        """Let the next one have its turn."""
        self.taking_back = ""
        self._taken.set()

    @property
    def last(self) -> Change | None:
        """What would be taken back next."""
        return self._changes[-1] if self._changes else None

    def add(self, change: Change) -> None:
        """Remember a change, before it is asked for."""
        self._changes.append(change)
        self._behind = ""

    def add_written(self, verb: str, label: str, number: int) -> None:
        """Remember an operation that the store has."""
        change = SubmittedChange(verb, label, number)
        change.settled.set()
        self.add(change)

    def drop(self, change: Change) -> None:
        """Forget a change: it failed, or it was taken back."""
        with suppress(ValueError):
            self._changes.remove(change)

    def drop_operation(self, number: int, done: bool = False) -> None:
        """Forget an operation; `done`: it has changed jobs, and that stays."""
        for change in [one for one in self._changes if one.lose(number)]:
            if done and change is self.last:
                self.pass_by(f"{change.words}, which has ended,")
            self.drop(change)
