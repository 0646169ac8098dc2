"""Filters that operators keep by name, shared in the store."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from queue_core.errors import InvalidArgument
from queue_core.model.text import safe

MAX_SAVED = 200
"""Filters that a store keeps."""
LONGEST_SAVED_NAME, LONGEST_SAVED = 64, 1000
"""Characters of a name, and of a filter."""
SAVED_CHANGES = 5
"""The last changes of a saved filter that are kept, to undo them."""


@dataclass(frozen=True, slots=True)
class SavedFilter:
    """A filter with a name."""

    name: str
    # in the language of filters; "": it was removed
    text: str = ""
    # who saved it, and when, in seconds since the epoch by the store's clock
    by: str = ""
    at: float = 0.0
    # the last changes, the newest last: number of the operation, and the text before and after
    changes: tuple[tuple[int, str, str], ...] = ()

    @property
    def saved_at(self) -> datetime:
        """When it was saved."""
        return datetime.fromtimestamp(self.at, UTC)

    @property
    def changed_by(self) -> int:
        """The number of the operation that changed it last; 0: none has."""
        return self.changes[-1][0] if self.changes else 0

    def changed(self, text: str, number: int, by: str, at: float) -> SavedFilter:
        """Return it with another text, as an operation with this number sets it; "" removes it."""
        changes = (*self.changes, (number, self.text, text))[-SAVED_CHANGES:]
        return replace(self, text=text, by=by, at=at, changes=changes)

    def before(self, number: int) -> str | None:
        """Return its text before an operation; None: it was changed since, or that operation is not known."""
        found = next((change for change in self.changes if change[0] == number), None)
        return None if found is None or found[2] != self.text else found[1]


def saved_text(saved: SavedFilter) -> str:
    """Return a saved filter as a store keeps it, beside its name."""
    return json.dumps({"text": saved.text, "by": saved.by, "at": saved.at, "changes": saved.changes})


def saved_of(name: str, stored: str) -> SavedFilter:
    """Return a saved filter as a store has it; what cannot be read is as if removed."""
    try:
        found = json.loads(stored)
        changes = tuple((int(number), str(before), str(after)) for number, before, after in found["changes"])
        return SavedFilter(name, str(found["text"]), str(found["by"]), float(found["at"]), changes)
    except (ValueError, TypeError, KeyError):
        return SavedFilter(name)


def check_saved_name(name: object) -> str:
    """Return the name of a saved filter: one word, so that no quotes are needed.

    Raises:
        InvalidArgument: no text, too long, with blanks, or with characters that cannot be printed.
    """
    if not isinstance(name, str) or not name:
        raise InvalidArgument(f"the name of a saved filter is a text, not {name!r}")
    if len(name) > LONGEST_SAVED_NAME:
        raise InvalidArgument(
            f"the name of a saved filter has {len(name)} characters; the limit is {LONGEST_SAVED_NAME}"
        )
    if not name.isprintable() or " " in name or safe(name) != name or name.startswith("-"):
        raise InvalidArgument(
            f"the name of a saved filter is one word without control characters, as in 'smtp-eu': {safe(name, 80)}"
        )
    return name
