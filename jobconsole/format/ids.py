"""Parts of the ids of jobs, as a person types or copies them."""

from __future__ import annotations

import re
from uuid import UUID

LEAST_PREFIX = 4
"""Characters of an id from which it is looked for."""
PART = re.compile(r"(?i)([0-9a-f]+(?:-[0-9a-f]*)*)(?:(?:\u2026|\.\.\.|~)([0-9a-f]+))?")
"""The beginning of an id, and its end where the middle is left out."""


def whole_id(text: str) -> str | None:
    """Return a whole id as stores write it; None: it is none."""
    try:
        return str(UUID(text))
    except ValueError:
        return None


def canonical_id(text: str) -> str | None:
    """Return a whole id as stores write it, and a part of one as it was given; None: it is neither."""
    part = PART.fullmatch(text) is not None and len(text.partition("-")[0]) >= LEAST_PREFIX
    return whole_id(text) or (text if part else None)
