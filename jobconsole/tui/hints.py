"""What whoever starts the console knows about repairing what fails."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from queue_core.inspection import SignatureInfo

_NAMED = re.compile(r"(?:repair )?(?P<about>[\w.-]+): (?P<text>.+)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Hint:
    """One line of advice."""

    text: str
    # shown with the signatures whose title, types or queues contain this; "" = with none, only in the help
    about: str = ""

    @classmethod
    def parse(cls, line: str) -> Self:
        """Return the advice in `type: what to do`, or in a line about nothing in particular."""
        match = _NAMED.fullmatch(line)
        return cls(match["text"], match["about"]) if match else cls(line)

    @property
    def line(self) -> str:
        """The advice with what it is about."""
        return f"{self.about}: {self.text}" if self.about else self.text


def hint_of(hints: Sequence[Hint], group: SignatureInfo) -> str:
    """Return the first advice about a group of dead jobs; "" when there is none."""
    names = " ".join((group.title, *(name for name, _ in group.types), *group.queues)).lower()
    return next((hint.text for hint in hints if hint.about and hint.about.lower() in names), "")
