"""The context that one looks at: its name, and how it stands out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

from jobconsole.core.alerts import Thresholds

CALM, LOUD = "on-accent", "on-bad"
_TONES = {
    "red": "on-red", "orange": "on-orange", "yellow": "on-yellow", "green": "on-green", "cyan": "on-cyan",
    "blue": "on-blue", "magenta": "on-magenta", "grey": "on-muted",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Where the jobs are that a console shows."""

    # as the configuration file names it; "" for none
    name: str = ""
    # stands in the header; "" for none
    word: str = ""
    # a colour's name; "" chooses one by the word
    colour: str = ""
    # when somebody who looks elsewhere is told
    thresholds: Thresholds = field(default_factory=Thresholds)

    @classmethod
    def of(cls, given: Self | str | None) -> Self:
        """Return the surroundings of a word, of nothing, or themselves."""
        if isinstance(given, cls):
            return given
        word = given if isinstance(given, str) else ""
        return cls(word.lower(), word)

    @property
    def tone(self) -> str:
        """The tone of the word: production stands out also where nobody chose a colour."""
        if self.colour:
            return _TONES.get(self.colour, CALM)
        return LOUD if self.word.lower().startswith("prod") else CALM
