"""What screens are made of is harmless in every field, also in one that no screen shows yet."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any

import pytest

from jobconsole.core.rows import clean_signature, clean_worker
from queue_core.model.report import SignatureInfo, WorkerInfo

HOSTILE = "\x1b[2J\u202e"
NOW = datetime(2026, 3, 1, tzinfo=UTC)
VALUES: dict[str, Any] = {
    "str": HOSTILE, "str | None": HOSTILE, "tuple[str, ...]": (HOSTILE,), "tuple[str, ...] | None": (HOSTILE,),
    "tuple[tuple[str, int], ...]": ((HOSTILE, 1),), "tuple[int, ...]": (1,), "int": 1, "float": 1.0, "bool": True,
    "datetime": NOW,
}  # fmt: skip
"""A value for each annotation; every text is hostile."""
KEYS = {"id", "signature", "sample_id"}
"""Fields by which a verb names its target: they stay as the store knows them, and each place that shows them cleans."""


def texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, tuple):
        for one in value:
            yield from texts(one)


@pytest.mark.parametrize(("kind", "clean"), [(WorkerInfo, clean_worker), (SignatureInfo, clean_signature)])
def test_no_field_holds_what_controls_a_terminal(kind: type[Any], clean: Callable[[Any], Any]) -> None:
    cleaned = clean(kind(**{one.name: VALUES[str(one.type)] for one in fields(kind)}))
    raw = {one.name for one in fields(kind) if any("\x1b" in text for text in texts(getattr(cleaned, one.name)))}
    assert raw <= KEYS
