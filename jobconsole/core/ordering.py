"""Orders that stay while somebody looks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def held_order(fresh: Sequence[T], old: Sequence[str], key_of: Callable[[T], str]) -> list[T]:
    """Return fresh rows in the old order of their keys, new ones first as they came."""
    place = {key: index for index, key in enumerate(old)}
    new = [row for row in fresh if key_of(row) not in place]
    known = sorted((row for row in fresh if key_of(row) in place), key=lambda row: place[key_of(row)])
    return [*new, *known] if old else list(fresh)
