"""What operators have set of signatures, the deaths and runs by release that states follow from, and saved filters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from queue_core.model.filters.saved import SavedFilter, saved_of, saved_text
from queue_core.model.triage.signatures import (
    SignatureDeaths,
    SignatureFacts,
    StoredFacts,
    TypeRuns,
    facts_of,
    facts_text,
    newest_runs,
    resolved_of,
)
from queue_core.stores.postgres.dialect import text_array
from queue_core.stores.postgres.session.plans import Plan
from queue_core.stores.postgres.session.pool import ConnectionPool


async def read_facts(pool: ConnectionPool, signatures: Sequence[str] | None) -> StoredFacts:
    """Return what is set of these signatures, or of all."""
    named = None if signatures is None else text_array(signatures)
    rows = await pool.rows("signatures/facts", {"signatures": named})
    return StoredFacts(rows[0][0], {signature: facts_of(text) for _, signature, text in rows if signature is not None})


async def read_deaths(pool: ConnectionPool, signatures: Sequence[str]) -> list[SignatureDeaths]:
    """Return the deaths of these signatures by release."""
    if not signatures:
        return []
    rows = await pool.rows("signatures/deaths", {"signatures": text_array(signatures)})
    return [SignatureDeaths(*row) for row in rows]


async def read_titles(pool: ConnectionPool, beginning: str, limit: int) -> dict[str, str]:
    """Return the titles of errors whose signatures begin so."""
    return dict(await pool.rows("signatures/titles", {"beginning": beginning, "limit": limit}))


async def read_runs(pool: ConnectionPool, types: Sequence[str], newest: int) -> list[TypeRuns]:
    """Return what became of the jobs of some types on their newest releases."""
    rows = await pool.rows("signatures/runs", {"types": list(types), "newest": newest})
    return newest_runs((TypeRuns(*row) for row in rows), newest)


def set_facts(signature: str, before: SignatureFacts, after: SignatureFacts) -> Plan[bool]:
    """Write what is set of a signature, if it is as `before`."""
    given: dict[str, Any] = {"signature": signature, "after": facts_text(after), "by": after.changed_by}
    if not before.changed_by:
        rows = yield "signatures/add_facts", given
    else:
        rows = yield "signatures/change_facts", {**given, "before": before.changed_by}
    resolved = resolved_of(after)
    if rows and resolved is not None:
        yield "signatures/note_resolved", {"signature": signature, "us": resolved.us, **resolved._asdict()}
    return bool(rows)


async def read_filters(pool: ConnectionPool) -> list[SavedFilter]:
    """Return the saved filters by name."""
    return [saved_of(name, text) for name, text in await pool.rows("signatures/saved_filters")]


def set_filter(name: str, before: int, after: SavedFilter | None) -> Plan[bool]:
    """Write a saved filter, or forget it, if it is as `before`."""
    if after is None:
        return bool((yield "signatures/forget_filter", {"name": name, "before": before}))
    given = {"name": name, "by": after.changed_by, "filter": saved_text(after)}
    if not before:
        return bool((yield "signatures/save_filter", given))
    return bool((yield "signatures/change_filter", {**given, "before": before}))
