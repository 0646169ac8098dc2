"""What the leader does beside sweeping: remove what is over its retention, a batch at a time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial

from queue_core.rules import Rules
from queue_core.settings import RetentionSettings
from queue_core.stores.sqlite.file import SqliteFile
from queue_core.stores.sqlite.forgetting import forget_operations
from queue_core.stores.sqlite.gates import let_go
from queue_core.stores.sqlite.link import Transaction
from queue_core.stores.sqlite.tallying import Tallying
from queue_core.stores.sqlite.uniqueness import forget

BATCH = 1_000
"""Jobs removed in one transaction: some 20 ms, in which no other process can write."""
BATCHES = 20
"""Batches of one round; a round comes each second, so this bounds what may complete in a second for good."""
LINES = 10_000
"""Lines of logs removed in one transaction, before their jobs: some 20 ms, too."""
KEYS = 10_000
"""Unique keys forgotten in one round."""
SERIES_SECONDS = 2 * 86400.0
"""How long minutes are kept."""
TITLES_REST = 3600.0
"""Seconds between two walks over the error signatures."""
LOST_SECONDS = 86400.0
"""How long the entry of a lost worker is shown."""
MESSAGE_SECONDS = 60.0
"""How long events wait for other processes, which look several times a second."""


class Upkeep:
    """One bounded round at a time; others get the lock between its batches."""

    def __init__(self, file: SqliteFile, retention: RetentionSettings, rules: Rules) -> None:
        self._file = file
        self._rules = rules
        self._kept = [
            ("completed", retention.completed),
            ("cancelled", retention.completed),
            ("dead", retention.dead),
            ("trashed", retention.trash),
        ]
        self._ticks = retention.completed
        self._operations = retention.operations
        # the last signature looked at, and when the walk over them goes on, in seconds of time.monotonic
        self._after = ""
        self._titles_at = float("-inf")

    async def run(self) -> None:
        """Remove finished jobs, minutes, messages, entries of lost workers and operations over their retention."""
        left = BATCHES
        for place, seconds in self._kept:
            while seconds is not None and left:
                left -= 1
                if not await self._file.write_soft(partial(_expire, place, seconds, self._rules)):
                    break
        await self._file.write_soft(partial(_trim, self._ticks))
        for _ in range(BATCHES):
            if not await self._file.write_soft(partial(forget_operations, self._operations)):
                break
        await self._forget_titles()

    async def _forget_titles(self) -> None:
        """Go on with the walk over the signatures, a batch a round, and rest behind the last one."""
        if time.monotonic() < self._titles_at:
            return
        self._after = await self._file.write_soft(partial(_forget_titles, self._after))
        if not self._after:
            self._titles_at = time.monotonic() + TITLES_REST


def _expire(place: str, seconds: float, rules: Rules, transaction: Transaction) -> bool:
    """Remove a batch; False when there is no other one."""
    before = transaction.now - seconds
    if transaction.run("upkeep/expired_logs", (place, before, BATCH, LINES)) == LINES:
        return True
    rows = transaction.rows("upkeep/expired", (place, before, BATCH))
    remove(transaction, [row[0] for row in rows])
    forget(transaction, [(queue_id, unique_key, number) for number, queue_id, _, _, _, _, unique_key in rows])
    outcome = "expired_dead" if place == "trashed" else f"expired_{place}"
    tallying = Tallying()
    for _, queue_id, _, type_, *_ in rows:
        tallying.note(queue_id, type_, outcome)
    tallying.write(transaction)
    let_go(transaction, rules, [(queue, queue_id, key) for _, queue_id, queue, _, key, holds, _ in rows if holds])
    return len(rows) == BATCH


def remove(transaction: Transaction, numbers: Sequence[int]) -> None:
    """Remove jobs with everything that belongs to them."""
    for statement in ("remove_attempts", "remove_endings", "remove_logs", "remove_payload", "remove_job"):
        transaction.run_many(f"upkeep/{statement}", [(number,) for number in numbers])


def _forget_titles(after: str, transaction: Transaction) -> str:
    """Forget the titles of signatures that no dead job has; return the last one looked at, "" behind the end."""
    wanted = {"before": transaction.now - SERIES_SECONDS, "after": after, "limit": BATCH}
    rows = transaction.rows("upkeep/titles", wanted)
    transaction.run_many("upkeep/remove_title", [(signature,) for signature, unused in rows if unused])
    return rows[-1][0] if len(rows) == BATCH else ""


def _trim(ticks: float | None, transaction: Transaction) -> None:
    now = transaction.now
    if ticks is not None:
        transaction.run("upkeep/trim_schedule_ticks", (now - ticks, BATCH))
    transaction.run("upkeep/trim_unique", (now, KEYS))
    trims: list[tuple[str, float]] = [
        ("minutes", (now - SERIES_SECONDS) // 60),
        ("signature_minutes", (now - SERIES_SECONDS) // 60),
        ("workers", now - LOST_SECONDS),
        ("leaders", now - LOST_SECONDS),
        ("messages", now - MESSAGE_SECONDS),
        ("listeners", now),
    ]
    for name, before in trims:
        transaction.run(f"upkeep/trim_{name}", (before,))
