"""The rounds of the leader: what is folded, and what is removed after its retention."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from functools import partial
from typing import Any

from queue_core.errors import StoreRefused
from queue_core.model.operation import ABANDONED_SECONDS, NEVER_STARTED
from queue_core.model.rules import Rules
from queue_core.model.settings import PostgresSettings, RetentionSettings
from queue_core.ports.locks import LockHeld
from queue_core.stores.postgres.dialect import Rows, plain_array
from queue_core.stores.postgres.logs import LogRemoval
from queue_core.stores.postgres.ordering import lock_free_keys, unblock_next
from queue_core.stores.postgres.scans.blocks import BlockScan
from queue_core.stores.postgres.scans.history import History
from queue_core.stores.postgres.scans.keys import StalledKeys, UnusedKeys, UnusedLocks
from queue_core.stores.postgres.session.plans import Plan, make_days
from queue_core.stores.postgres.session.runner import SerialRunner
from queue_core.stores.postgres.statistics.totals import Titles

logger = logging.getLogger("queue_core.worker")

FOLD_LIMIT = 20_000
"""Appended tallies folded at a time: some 40 ms of work."""
FOLD_ROUNDS = 10
PRUNE_LIMIT = 5_000
"""Rows removed at a time, so that no statement holds locks for long."""
PRUNE_SECONDS = 60.0
SERIES_SECONDS = 2 * 86400.0
"""How long minutes are kept."""


def _unfinished(folded: Rows) -> bool:
    return bool(folded[0][0] >= FOLD_LIMIT)


def abandon_operations() -> tuple[str, dict[str, Any]]:
    """Return the statement, with its parameters, that ends operations which are left unfinished."""
    return "upkeep/abandon_operations", {"seconds": ABANDONED_SECONDS, "note": NEVER_STARTED}


class PostgresUpkeep:
    """One bounded round at a time, on the connection of the sweeps."""

    def __init__(
        self,
        runner: SerialRunner,
        keyed: SerialRunner,
        settings: PostgresSettings,
        retention: RetentionSettings,
        rules: Rules,
    ) -> None:
        self._runner = runner
        self.history = History(settings, retention.completed)
        # for what locks ordering keys
        self._keyed = keyed
        self._retention = retention
        self._deltas = BlockScan(runner, "tally_deltas")
        self._leases = BlockScan(runner, "leases")
        self._pruned_at = float("-inf")
        # why the days ahead cannot be made, as it was logged
        self._without = ""
        self._log_removal = LogRemoval(runner)
        self._titles = Titles(runner)
        self._rules = rules
        self._keepers = (UnusedKeys(runner), UnusedLocks(keyed), StalledKeys(keyed, rules))

    async def run(self) -> None:
        """Fold what has gathered; once a minute prune."""
        for _ in range(FOLD_ROUNDS):
            ((folded,),) = await self._deltas.run("upkeep/fold", {"limit": FOLD_LIMIT}, _unfinished)
            if folded < FOLD_LIMIT:
                break
        if time.monotonic() - self._pruned_at >= PRUNE_SECONDS:
            await self.prune()
            self._pruned_at = time.monotonic()

    async def prepare_history(self) -> None:
        """Make partitions ahead, unless the history is locked: they exist a week ahead."""
        try:
            await self._runner.run_plan(make_days, patient=False)
        except LockHeld as error:
            # Many workers that start at once want the same days; one of them makes these, and fails if it cannot.
            ((made,),) = await self._runner.run("upkeep/partitions_made")
            level = logging.INFO if made else logging.WARNING
            logger.log(level, "no days of the history are made now: %s", error)
        except StoreRefused as error:
            if error.passing:
                raise
            await self._do_without(error)

    async def _do_without(self, refused: StoreRefused) -> None:
        """Warn once that days cannot be made, as long as today's is there.

        Raises:
            StoreRefused: it is not, so that no job could end.
        """
        who = "migrate once a day as the role that made the schema, or let workers act as it"
        ((today,),) = await self._runner.run("upkeep/has_today")
        if not today:
            text = f"{refused.reason}, to make today's table of the history, without which no job can end; {who}"
            raise StoreRefused("postgres", text) from refused
        if refused.reason != self._without:
            self._without = refused.reason
            logger.warning("the next days of the history cannot be made: %s; %s", refused.reason, who)

    async def prune(self) -> None:
        """Make partitions ahead and remove what is over its retention, the totals counting on."""
        await self.prepare_history()
        self.history.begin()
        gone = self.history.taken()
        for query, seconds in (
            ("upkeep/expire_dead", self._retention.dead),
            ("upkeep/empty_trash", self._retention.trash),
        ):
            while seconds is not None:
                removed = (await self._runner.run(query, {"seconds": seconds, "limit": PRUNE_LIMIT, "ids": None}))[0][0]
                gone += removed
                if removed < PRUNE_LIMIT:
                    break
        gone += await self._expire_holding()
        for keeper in self._keepers:
            await keeper.run()
        await self._runner.run("upkeep/trim_capacity")
        await self._trim_ticks()
        await self._trim_operations()
        await self._runner.run("upkeep/trim_series", {"seconds": SERIES_SECONDS})
        await self._leases.run("upkeep/orphans", {})
        await self._log_removal.run(gone > 0)
        await self._titles.run()

    async def _expire_holding(self) -> int:
        """Remove expired dead jobs that hold ordering keys, and release the next ones."""
        seconds, gone = self._retention.dead, 0
        while seconds is not None:
            found = {"seconds": seconds, "limit": PRUNE_LIMIT}
            rows = await self._runner.run("upkeep/keys_of_expired", found)
            removed = await self._keyed.run_plan(partial(self._expire, rows, found)) if rows else 0
            gone += removed
            # Locked rows are left to a later round.
            if removed < PRUNE_LIMIT:
                break
        return gone

    def _expire(self, rows: Rows, found: Mapping[str, Any]) -> Plan[int]:
        keys = {(queue, key) for _, queue, key in rows}
        locks, _ = yield from lock_free_keys(keys)
        locked = {(queue, key) for queue, _, key in locks.rows}
        ids = [job_id for job_id, queue, key in rows if (queue, key) in locked]
        removed = yield "upkeep/expire_dead", {**found, "ids": plain_array(ids)}
        yield from unblock_next(locks, self._rules)
        return int(removed[0][0])

    async def _trim_ticks(self) -> None:
        seconds = self._retention.completed
        while seconds is not None:
            gone = await self._runner.run("upkeep/trim_schedule_ticks", {"seconds": seconds, "limit": PRUNE_LIMIT})
            if gone[0][0] < PRUNE_LIMIT:
                break

    async def _trim_operations(self) -> None:
        await self._runner.run(*abandon_operations())
        seconds, more = self._retention.operations, True
        while seconds is not None and more:
            wanted = {"seconds": seconds, "limit": PRUNE_LIMIT}
            more = (await self._runner.run("upkeep/forget_operations", wanted))[0][0]
