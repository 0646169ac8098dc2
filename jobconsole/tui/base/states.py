"""The part of the operator that sets states, owners and notes of signatures, and takes that back."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from jobconsole.actions.states import StateChange, overtaken
from jobconsole.core.connection import Connection
from jobconsole.tui.base.undo import Change, Remembered
from queue_core.client.operating.signatures import VERBS
from queue_core.model.text import safe
from queue_core.model.triage.signatures import UNTOUCHED, SignatureFacts, SignatureState

NOUNS = {"own": "owner", "resolve": "resolution", "save": "saving", "remove": "removal"}
"""What verbs on signatures set, where that has another name."""
BESIDE = 6.0
"""Seconds after a change in which it is shown that another one has set the same."""


@dataclass(eq=False, slots=True)
class StatesChange(Change):
    """States, owners or notes of signatures were set."""

    # own, note, mute, resolve
    verbs: tuple[str, ...]
    label: str
    # the operations that did it, in their order
    numbers: list[int] = field(default_factory=list)

    def lose(self, number: int) -> bool:
        found = number in self.numbers
        if found:
            self.numbers.remove(number)
        return found and not self.numbers

    @property
    def words(self) -> str:
        """What was set of what."""
        named = (NOUNS.get(verb, verb) for verb in self.verbs)
        return f"the {' and '.join(named)} of {self.label}"

    @property
    def name(self) -> str:
        """What was set last."""
        return "owner" if self.verbs[-1] == "own" else self.verbs[-1]


class SignatureStates:
    """Each change is one for `undo`, however many operations it is."""

    def __init__(self, connection: Connection, remembered: Remembered, check: Callable[[str], None]) -> None:
        """`check` refuses a command, by its words, where nothing may be changed."""
        self._connection = connection
        self._check = check
        self._remembered = remembered
        # the operations of this console, and what it has set last: of what, what was shown then, and until when others
        # may have set the same at the same time
        self._own: set[int] = set()
        self._last: tuple[str, Mapping[str, SignatureFacts], float] = "", {}, 0.0

    async def set(
        self, signatures: Sequence[str], label: str, change: StateChange, shown: Mapping[str, SignatureFacts]
    ) -> str:
        """Set states, owners and notes of signatures; returns a sentence. `shown`: what was known of them.

        Raises:
            ReadOnly, InvalidArgument, SignatureNotFound, StoreUnavailable: not all of them were changed; those that
                were can be undone.
        """
        self._check(f"dlq {change.verbs[-1]}")
        done = StatesChange(tuple(change.verbs), label)
        self._remembered.add(done)
        try:
            for name in signatures:
                link = shown[name].link if name in shown else ""
                await change.carry_out(self._connection.jobs.signatures, name, link, done.numbers.append)
        finally:
            done.failed = not done.numbers
            if done.failed:
                self._remembered.drop(done)
            done.settled.set()
            self._own.update(done.numbers)
        self._last = label, {name: shown.get(name, UNTOUCHED) for name in signatures}, time.monotonic() + BESIDE
        return f"{change.words}, u undoes it: {label}"

    def overtaken(self, states: Mapping[str, SignatureState]) -> str:
        """Return what others have set beside this console's last change, once; "" for nothing."""
        label, shown, until = self._last
        for name in shown if time.monotonic() < until else ():
            text = overtaken(states[name].facts, shown[name].changed_by, self._own) if name in states else ""
            if text:
                self._last = "", {}, 0.0
                return f"{text}: {label}"
        return ""

    async def save_filter(self, name: str, text: str) -> str:
        """Save a filter under a name; returns a sentence.

        Raises:
            ReadOnly, FilterError, InvalidArgument, StoreUnavailable: it was not saved.
        """
        self._check("filter save")
        done = StatesChange(("save",), f"filter {name}")
        self._remembered.add(done)
        try:
            done.numbers.append(await self._connection.jobs.filters.save(name, text))
        finally:
            done.failed = not done.numbers
            if done.failed:
                self._remembered.drop(done)
            done.settled.set()
        return f"saved as {safe(name, 64)}, u undoes it: {safe(text, 200)}"

    async def undo_operation(self, number: int, verb: str, label: str) -> str | None:
        """Undo one operation, of this console or another; None: it is on no signature and no saved filter.

        Raises:
            OperationNotFound, StoreUnavailable: it was not undone.
        """
        of_a_filter = verb in ("save", "remove") and label.startswith("filter ")
        return await self.undo(StatesChange((verb,), label, [number])) if verb in VERBS or of_a_filter else None

    async def undo(self, change: StatesChange) -> str:
        """Undo the last operation first; returns a sentence.

        Raises:
            OperationNotFound, StoreUnavailable: not all of it was undone.
        """
        jobs = self._connection.jobs
        of = jobs.signatures if change.verbs[-1] in VERBS else jobs.filters
        self._last = "", {}, 0.0
        undone = {number: await of.undo(number) for number in reversed(change.numbers)}
        self._own.update(number for number in undone.values() if number is not None)
        kept = [number for number, by in undone.items() if by is None]
        if not kept:
            return f"undone: {change.words}"
        numbers = ", ".join(f"#{number}" for number in reversed(kept))
        return f"not undone: {numbers}, for the signature was changed since: {change.label}"
