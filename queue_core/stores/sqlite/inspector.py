"""The operations path on SQLite, composed of its parts."""

from __future__ import annotations

from queue_core.rules import Rules
from queue_core.stores.sqlite.changes import Changes
from queue_core.stores.sqlite.facts import Facts
from queue_core.stores.sqlite.file import SqliteFile
from queue_core.stores.sqlite.logs import Logs
from queue_core.stores.sqlite.overview import Overviews
from queue_core.stores.sqlite.reads import Reads
from queue_core.stores.sqlite.signatures import Signatures
from queue_core.stores.sqlite.totals import Totals


class SqliteInspector(Overviews, Reads, Logs, Signatures, Totals, Changes, Facts):
    """See queue_core.inspection.Inspector for what each method does; opens the file when it is first used."""

    def __init__(self, file: SqliteFile, rules: Rules | None = None) -> None:
        self._file = file
        self._rules = rules or {}

    async def close(self) -> None:
        """Disconnect from what only this needs; doing it twice is safe."""
        await self._file.close_looks()
