"""Style sheets that are parsed once."""

from __future__ import annotations

from textual.cache import LRUCache
from textual.css import stylesheet
from textual.css.model import RuleSet

SOURCES = 64
"""How many sources are kept for a theme; the console has some twenty."""

_parsed: dict[frozenset[tuple[str, str]], LRUCache[tuple[object, ...], list[RuleSet]]] = {}
"""What was parsed with these variables."""


class Stylesheet(stylesheet.Stylesheet):
    """Parses each source once for each theme; Textual does so at each change of the view, which took 15 ms."""

    def __init__(self, *, variables: dict[str, str]) -> None:
        super().__init__()
        self.set_variables(variables)

    def set_variables(self, variables: dict[str, str]) -> None:
        """Replace the variables: with those of before nothing has to be parsed again."""
        if variables != self._variables:
            # What it clears must not be what is kept for the theme until now.
            self._parse_cache = LRUCache(1)
            super().set_variables(variables)
            self._parse_cache = _parsed.setdefault(frozenset(variables.items()), LRUCache(SOURCES))

    def reparse(self) -> None:
        """Apply new variables. What cannot be parsed leaves the rules as they were."""
        self.parse()
