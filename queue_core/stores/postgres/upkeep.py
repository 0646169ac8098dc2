"""What the leader does beside sweeping: fold totals, make partitions ahead, remove what is over its retention."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from functools import partial
from typing import Any

from queue_core.operations import ABANDONED, NEVER_STARTED
from queue_core.rules import Rules
from queue_core.settings import PostgresSettings, RetentionSettings
from queue_core.stores.postgres.forgetting import Forgetting
from queue_core.stores.postgres.gates import GateKeeper, lock_free_gates, open_gates
from queue_core.stores.postgres.history import History
from queue_core.stores.postgres.lane import Lane, LockHeld
from queue_core.stores.postgres.plan import Plan, Rows
from queue_core.stores.postgres.sql import plain_array
from queue_core.stores.postgres.titles import Titles
from queue_core.stores.postgres.uniqueness import KeyKeeper
from queue_core.stores.postgres.walking import Walk

FOLD_LIMIT = 20_000
"""Appended tallies folded at a time: some 40 ms of work."""
FOLD_ROUNDS = 10
PRUNE_LIMIT = 5_000
"""Rows removed at a time, so that no statement holds locks for long."""
PRUNE_SECONDS = 60.0
SERIES_SECONDS = 2 * 86400.0
"""How long minutes are kept."""

logger = logging.getLogger("queue_core.worker")


def _unfinished(folded: Rows) -> bool:
    return bool(folded[0][0] >= FOLD_LIMIT)


def _make_partitions() -> Plan[None]:
    yield "upkeep/partitions", {}


class Upkeep:
    """One bounded round at a time, on the connection of the sweeps."""

    def __init__(
        self, lane: Lane, keyed: Lane, settings: PostgresSettings, retention: RetentionSettings, rules: Rules
    ) -> None:
        self._lane = lane
        self.history = History(settings, retention.completed)
        # for what locks gates
        self._keyed = keyed
        self._retention = retention
        self._deltas = Walk(lane, "tally_deltas")
        self._leases = Walk(lane, "leases")
        self._pruned_at = float("-inf")
        self._forgetting = Forgetting(lane)
        self._titles = Titles(lane)
        self._rules = rules
        self._keepers = (KeyKeeper(lane), GateKeeper(keyed, rules))

    async def run(self) -> None:
        """Fold what has gathered; once a minute prune."""
        for _ in range(FOLD_ROUNDS):
            ((folded,),) = await self._deltas.run("upkeep/fold", {"limit": FOLD_LIMIT}, _unfinished)
            if folded < FOLD_LIMIT:
                break
        if time.monotonic() - self._pruned_at >= PRUNE_SECONDS:
            await self.prune()
            self._pruned_at = time.monotonic()

    async def make_room(self) -> None:
        """Make partitions ahead, unless somebody has the history locked: they are there for a week."""
        try:
            await self._lane.carry_out(_make_partitions, patient=False)
        except LockHeld as error:
            # Many workers that start at once want the same days; one of them makes these, and says so if it cannot.
            ((made,),) = await self._lane.run("upkeep/partitions_made")
            level = logging.INFO if made else logging.WARNING
            logger.log(level, "no days of the history are made now: %s", error)

    async def prune(self) -> None:
        """Make partitions ahead and remove what is over its retention, the totals counting on."""
        await self.make_room()
        self.history.begin()
        gone = self.history.taken()
        for query, seconds in (
            ("upkeep/expire_dead", self._retention.dead),
            ("upkeep/empty_trash", self._retention.trash),
        ):
            while seconds is not None:
                removed = (await self._lane.run(query, {"seconds": seconds, "limit": PRUNE_LIMIT, "ids": None}))[0][0]
                gone += removed
                if removed < PRUNE_LIMIT:
                    break
        gone += await self._expire_holding()
        for keeper in self._keepers:
            await keeper.run()
        await self._lane.run("upkeep/trim_returns")
        await self._trim_ticks()
        await self._trim_operations()
        await self._lane.run("upkeep/trim_series", {"seconds": SERIES_SECONDS})
        await self._leases.run("sweep/orphans", {})
        await self._forgetting.run(gone > 0)
        await self._titles.run()

    async def _expire_holding(self) -> int:
        """Remove dead jobs over their retention that hold ordering keys, and let the next ones through."""
        seconds, gone = self._retention.dead, 0
        while seconds is not None:
            found = {"seconds": seconds, "limit": PRUNE_LIMIT}
            rows = await self._lane.run("gates/of_expired", found)
            removed = await self._keyed.carry_out(partial(self._expire, rows, found)) if rows else 0
            gone += removed
            # What somebody has locked is left to a later round.
            if removed < PRUNE_LIMIT:
                break
        return gone

    def _expire(self, rows: Rows, found: Mapping[str, Any]) -> Plan[int]:
        wanted = {(queue, key) for _, queue, key in rows}
        gates, _ = yield from lock_free_gates(wanted)
        locked = {(queue, key) for queue, _, key in gates.rows}
        ids = [job_id for job_id, queue, key in rows if (queue, key) in locked]
        removed = yield "upkeep/expire_dead", {**found, "ids": plain_array(ids)}
        yield from open_gates(gates, self._rules)
        return int(removed[0][0])

    async def _trim_ticks(self) -> None:
        seconds = self._retention.completed
        while seconds is not None:
            gone = await self._lane.run("upkeep/trim_schedule_ticks", {"seconds": seconds, "limit": PRUNE_LIMIT})
            if gone[0][0] < PRUNE_LIMIT:
                break

    async def _trim_operations(self) -> None:
        await self._lane.run("upkeep/abandon_operations", {"seconds": ABANDONED, "note": NEVER_STARTED})
        seconds, more = self._retention.operations, True
        while seconds is not None and more:
            wanted = {"seconds": seconds, "limit": PRUNE_LIMIT}
            more = (await self._lane.run("upkeep/forget_operations", wanted))[0][0]
