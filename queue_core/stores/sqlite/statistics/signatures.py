"""What operators have set of signatures, and the deaths and runs by release that their states follow from."""

from __future__ import annotations

from collections.abc import Sequence

from queue_core.model.triage.signatures import (
    UNTOUCHED,
    SignatureDeaths,
    SignatureFacts,
    StoredFacts,
    TypeRuns,
    facts_of,
    facts_text,
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


async def read_runs(file: SqliteFile) -> list[TypeRuns]:
    """Return what became of the jobs of each type by release."""
    return [TypeRuns(*row) for row in await file.inspect(lambda transaction: transaction.rows("signatures/runs"))]


def set_facts(transaction: Transaction, signature: str, before: SignatureFacts, after: SignatureFacts) -> bool:
    """Write what is set of a signature, if it is as `before`."""
    rows = transaction.rows("signatures/facts", {"signatures": texts([signature])})
    found = facts_of(rows[0][1]) if rows else UNTOUCHED
    if found.changed_by != before.changed_by:
        return False
    transaction.run("signatures/write_facts", (signature, facts_text(after)))
    return True
