"""What operators have set of signatures, the deaths and runs by release that states follow from, and saved filters."""

from __future__ import annotations

from collections.abc import Sequence

from queue_core.model.filters.saved import SavedFilter, saved_of, saved_text
from queue_core.model.triage.signatures import (
    UNTOUCHED,
    SignatureDeaths,
    SignatureFacts,
    StoredFacts,
    TypeRuns,
    facts_of,
    facts_text,
    resolved_of,
)
from queue_core.stores.sqlite.dialect import texts
from queue_core.stores.sqlite.session import SqliteFile, Transaction


async def read_facts(file: SqliteFile, signatures: Sequence[str] | None) -> StoredFacts:
    """Return what is set of these signatures, or of all."""
    named = None if signatures is None else texts(signatures)

    def read(transaction: Transaction) -> StoredFacts:
        rows = transaction.rows("signatures/facts", {"signatures": named})
        return StoredFacts(transaction.now, {signature: facts_of(text) for signature, text in rows})

    return await file.inspect(read)


async def read_deaths(file: SqliteFile, signatures: Sequence[str]) -> list[SignatureDeaths]:
    """Return the deaths of these signatures by release."""
    rows = await file.inspect(lambda transaction: transaction.rows("signatures/deaths", (texts(signatures),)))
    return [SignatureDeaths(*row) for row in rows]


async def read_titles(file: SqliteFile, beginning: str, limit: int) -> dict[str, str]:
    """Return the titles of errors whose signatures begin so."""
    given = {"beginning": beginning, "limit": limit}
    rows = await file.inspect(lambda transaction: transaction.rows("signatures/titles", given))
    return {signature: title for signature, title in rows}


async def read_runs(file: SqliteFile, types: Sequence[str], newest: int) -> list[TypeRuns]:
    """Return what became of the jobs of some types on their newest releases."""
    given = {"types": texts(types), "newest": newest}
    rows = await file.inspect(lambda transaction: transaction.rows("signatures/runs", given))
    return [TypeRuns(*row) for row in rows]


def set_facts(transaction: Transaction, signature: str, before: SignatureFacts, after: SignatureFacts) -> bool:
    """Write what is set of a signature, if it is as `before`."""
    rows = transaction.rows("signatures/facts", {"signatures": texts([signature])})
    found = facts_of(rows[0][1]) if rows else UNTOUCHED
    if found.changed_by != before.changed_by:
        return False
    transaction.run("signatures/write_facts", (signature, facts_text(after)))
    resolved = resolved_of(after)
    if resolved is not None:
        transaction.run("signatures/note_resolved", {"signature": signature, "us": resolved.us, **resolved._asdict()})
    return True


def read_filters(transaction: Transaction) -> list[SavedFilter]:
    """Return the saved filters by name."""
    return [saved_of(name, text) for name, text in transaction.rows("signatures/saved_filters")]


def set_filter(transaction: Transaction, name: str, before: int, after: SavedFilter | None) -> bool:
    """Write a saved filter, or forget it, if it is as `before`."""
    rows = transaction.rows("signatures/filter_changed_by", (name,))
    if (rows[0][0] if rows else 0) != before:
        return False
    if after is None:
        transaction.run("signatures/forget_filter", (name,))
    else:
        transaction.run("signatures/save_filter", (name, after.changed_by, saved_text(after)))
    return True
