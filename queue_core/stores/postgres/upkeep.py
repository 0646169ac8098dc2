"""What the leader does beside sweeping: fold totals, make partitions ahead, remove what is over its retention."""

from __future__ import annotations

import time

from queue_core.settings import RetentionSettings
from queue_core.stores.postgres.lane import Lane

FOLD_LIMIT = 20_000
"""Appended tallies folded at a time: some 40 ms of work."""
FOLD_ROUNDS = 10
PRUNE_LIMIT = 5_000
"""Rows removed at a time, so that no statement holds locks for long."""
PRUNE_SECONDS = 60.0
SERIES_SECONDS = 2 * 86400.0
"""How long minutes are kept."""


class Upkeep:
    """One bounded round at a time, on the connection of the sweeps."""

    def __init__(self, lane: Lane, retention: RetentionSettings) -> None:
        self._lane = lane
        self._retention = retention
        self._pruned_at = float("-inf")

    async def run(self) -> None:
        """Fold what has gathered; once a minute prune."""
        for _ in range(FOLD_ROUNDS):
            if (await self._lane.run("upkeep/fold", {"limit": FOLD_LIMIT}))[0][0] < FOLD_LIMIT:
                break
        if time.monotonic() - self._pruned_at >= PRUNE_SECONDS:
            await self.prune()
            self._pruned_at = time.monotonic()

    async def prune(self) -> None:
        """Make partitions ahead and remove what is over its retention, the totals counting on."""
        await self._lane.run("upkeep/partitions")
        if self._retention.completed is not None:
            await self._lane.run("upkeep/drop_history", {"seconds": self._retention.completed})
        for query, seconds in (
            ("upkeep/expire_dead", self._retention.dead),
            ("upkeep/empty_trash", self._retention.trash),
        ):
            while seconds is not None:
                removed = (await self._lane.run(query, {"seconds": seconds, "limit": PRUNE_LIMIT}))[0][0]
                if removed < PRUNE_LIMIT:
                    break
        await self._lane.run("upkeep/trim_series", {"seconds": SERIES_SECONDS})
        await self._lane.run("sweep/orphans")
