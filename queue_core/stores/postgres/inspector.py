"""The operations path on PostgreSQL, composed of its parts."""

from __future__ import annotations

from queue_core.rules import Rules
from queue_core.settings import PostgresSettings
from queue_core.stores.postgres.changes import Changes
from queue_core.stores.postgres.facts import Facts
from queue_core.stores.postgres.logs import Logs
from queue_core.stores.postgres.overview import Overviews
from queue_core.stores.postgres.pool import Pool
from queue_core.stores.postgres.reads import Reads
from queue_core.stores.postgres.signatures import Signatures
from queue_core.stores.postgres.totals import Totals


class PostgresInspector(Overviews, Reads, Logs, Signatures, Totals, Changes, Facts):
    """See queue_core.inspection.Inspector for what each method does; connects when it is first used."""

    def __init__(self, settings: PostgresSettings, rules: Rules | None = None) -> None:
        super().__init__(Pool(settings), rules)

    async def close(self) -> None:
        """Disconnect; doing it twice is safe."""
        await self._pool.close()
