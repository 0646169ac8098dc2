"""What filters ask of texts and payloads, as functions that SQL can call: the rules themselves, not a copy in SQL."""

from __future__ import annotations

import json
import sqlite3
from typing import cast

from queue_core.filters import Operator, Term
from queue_core.matching import contains, payload_holds


def add_functions(connection: sqlite3.Connection) -> None:
    """Make the functions known to a connection."""
    connection.create_function("holds_text", 2, _holds_text, deterministic=True)
    connection.create_function("holds_payload", 4, _holds_payload, deterministic=True)


def _holds_text(found: str | None, part: str) -> bool | None:
    return None if found is None else contains(found, part)


def _holds_payload(text: str, path: str, operator: str, value: str) -> bool:
    try:
        payload = json.loads(text)
    except (ValueError, RecursionError):
        return False
    if not isinstance(payload, dict):
        return False
    return payload_holds(payload, path, Term(f"payload.{path}", cast("Operator", operator), value))
