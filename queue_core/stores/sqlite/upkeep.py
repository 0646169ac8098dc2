"""What the leader does beside sweeping: remove what is over its retention, a batch at a time."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from functools import partial

from queue_core.model.job import Ready
from queue_core.model.operation import ABANDONED_SECONDS, NEVER_STARTED
from queue_core.model.rules import Rules
from queue_core.model.settings import RetentionSettings
from queue_core.stores.sqlite.claim import keep_time
from queue_core.stores.sqlite.ordering import SqliteOrderingLocks, forget, notify_arrived, rank_of, release_keys
from queue_core.stores.sqlite.session import SqliteFile, Transaction
from queue_core.stores.sqlite.statistics.totals import TallyWriter

MEMBERS_PER_TRANSACTION = 10_000
"""Members forgotten in one transaction: some 20 ms, in which no other process can write."""
OPERATIONS_PER_TRANSACTION = 100
"""Operations forgotten in one transaction."""


def abandon_operations(transaction: Transaction) -> None:
    """Cancel operations that are still preparing long after their last change."""
    now = transaction.now
    transaction.run(
        "upkeep/abandoned_operations", {"note": NEVER_STARTED, "now": now, "before": now - ABANDONED_SECONDS}
    )


def forget_operation(transaction: Transaction, number: int) -> None:
    """Remove an operation that is preparing, with its members, if it is that."""
    if transaction.rows("upkeep/preparing_operation", (number,)):
        transaction.run("upkeep/remove_members", (number, MEMBERS_PER_TRANSACTION))
        transaction.run("upkeep/remove_signatures", (number,))
        transaction.run("upkeep/remove_operation", (number,))


def forget_operations(seconds: float | None, transaction: Transaction) -> bool:
    """Forget a batch of those that ended so many seconds ago; False when there is no other one."""
    now = transaction.now
    abandon_operations(transaction)
    if seconds is None:
        return False
    left = MEMBERS_PER_TRANSACTION
    found = transaction.rows("upkeep/expired_operations", (now - seconds, OPERATIONS_PER_TRANSACTION))
    for (number,) in found:
        left -= transaction.run("upkeep/remove_members", (number, left))
        if not left:
            return True
        transaction.run("upkeep/remove_signatures", (number,))
        transaction.run("upkeep/remove_operation", (number,))
    return len(found) == OPERATIONS_PER_TRANSACTION


JOBS_PER_TRANSACTION = 1_000
"""Jobs removed in one transaction: some 20 ms, in which no other process can write."""
BATCHES_PER_ROUND = 20
"""Batches of one round; a round comes each second, so this bounds what may complete in a second for good."""
LINES_PER_TRANSACTION = 10_000
"""Lines of logs removed in one transaction, before their jobs: some 20 ms, too."""
KEYS_PER_ROUND = 10_000
"""Unique keys forgotten in one round."""
SERIES_SECONDS = 2 * 86400.0
"""How long minutes are kept."""
TITLES_REST = 3600.0
"""Seconds between two walks over the error signatures."""
LOST_SECONDS = 86400.0
"""How long the entry of a lost worker is shown."""
MESSAGE_SECONDS = 60.0
"""How long events wait for other processes, which look several times a second."""


class SqliteUpkeep:
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
        # the last signature looked at, and when the walk over them continues, in seconds of time.monotonic
        self._after = ""
        self._titles_at = float("-inf")

    async def run(self) -> None:
        """Remove finished jobs, minutes, messages, entries of lost workers and operations over their retention."""
        left = BATCHES_PER_ROUND
        for state, seconds in self._kept:
            while seconds is not None and left:
                left -= 1
                if not await self._file.write_soft(partial(_expire, state, seconds, self._rules)):
                    break
        await self._file.write_soft(partial(_trim, self._ticks))
        for _ in range(BATCHES_PER_ROUND):
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


def _expire(state: str, seconds: float, rules: Rules, transaction: Transaction) -> bool:
    """Remove a batch; False when there is no other one."""
    before = transaction.now - seconds
    if (
        transaction.run("upkeep/expired_logs", (state, before, JOBS_PER_TRANSACTION, LINES_PER_TRANSACTION))
        == LINES_PER_TRANSACTION
    ):
        return True
    rows = transaction.rows("upkeep/expired", (state, before, JOBS_PER_TRANSACTION))
    remove(transaction, [row[0] for row in rows])
    forget(transaction, [(queue_id, unique_key, number) for number, queue_id, _, _, _, _, unique_key in rows])
    outcome = "expired_dead" if state == "trashed" else f"expired_{state}"
    tallying = TallyWriter()
    for _, queue_id, _, type_, *_ in rows:
        tallying.note(queue_id, type_, outcome)
    tallying.write(transaction)
    release_keys(
        transaction, rules, [(queue, queue_id, key) for _, queue_id, queue, _, key, admitted, _ in rows if admitted]
    )
    return len(rows) == JOBS_PER_TRANSACTION


def remove(transaction: Transaction, numbers: Sequence[int]) -> None:
    """Remove jobs with everything that belongs to them."""
    for statement in ("remove_attempts", "remove_outcomes", "remove_logs", "remove_payload", "remove_job"):
        transaction.run_many(f"upkeep/{statement}", [(number,) for number in numbers])


def _forget_titles(after: str, transaction: Transaction) -> str:
    """Forget the titles of signatures that no dead job has; return the last one looked at, "" behind the end."""
    wanted = {"before": transaction.now - SERIES_SECONDS, "after": after, "limit": JOBS_PER_TRANSACTION}
    rows = transaction.rows("upkeep/titles", wanted)
    for query in ("upkeep/remove_title", "upkeep/remove_facts", "upkeep/remove_deaths"):
        transaction.run_many(query, [(signature,) for signature, unused in rows if unused])
    return rows[-1][0] if len(rows) == JOBS_PER_TRANSACTION else ""


def _trim(ticks: float | None, transaction: Transaction) -> None:
    now = transaction.now
    if ticks is not None:
        transaction.run("upkeep/trim_schedule_ticks", (now - ticks, JOBS_PER_TRANSACTION))
    transaction.run("upkeep/trim_unique", (now, KEYS_PER_ROUND))
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


def promote(transaction: Transaction, limit: int, rules: Rules) -> list[Ready]:
    """Move due scheduled and retrying jobs to queued, those first that are due for the longest time.

    What waits for its ordering key from here on is not among those that are returned.
    """
    now, locks = transaction.now, SqliteOrderingLocks(transaction, rules)
    promoted: list[tuple[int, float, int]] = []
    with_keys: list[tuple[int | None, bool | None, float, int]] = []
    ready: list[tuple[int, int, str, str]] = []
    due = transaction.rows("upkeep/due", (now, max(limit, 0)))
    # An ordering key lets those of them through that arrived first, whichever was due first.
    for number, job_id, queue_id, queue, priority, seq, aged_rank, key, admitted in sorted(due, key=lambda row: row[5]):
        rank = rank_of(priority, seq, aged_rank)
        through = True if admitted or key is None else locks.admit(queue, queue_id, key)
        if key is None:
            promoted.append((rank, now, number))
        else:
            with_keys.append((rank if through else None, through, now, number))
        if through:
            ready.append((rank, queue_id, job_id, queue))
    transaction.run_many("upkeep/promote", promoted)
    transaction.run_many("upkeep/promote_keyed", with_keys)
    notify_arrived(transaction, Counter(queue_id for _, queue_id, _, _ in ready))
    return [Ready(job_id, queue, rank) for rank, _, job_id, queue in sorted(ready)]


def next_due(transaction: Transaction) -> float | None:
    """Return the seconds until the next scheduled or retrying job is due."""
    rows = transaction.rows("upkeep/next_due")
    return max(0.0, rows[0][0] - transaction.now) if rows else None


def acquire_leadership(transaction: Transaction, duty: str, worker: str, seconds: float) -> bool:
    """Take or renew the leadership of a duty."""
    keep_time(transaction)
    held = transaction.rows("upkeep/leader", (duty, worker))
    if held and seconds / 2 < held[0][0] - transaction.now <= seconds:
        return True  # so that an idle worker does not write all the time
    params = {"duty": duty, "worker": worker, "now": transaction.now, "until": transaction.now + seconds}
    return transaction.run("upkeep/lead", params) > 0


def unregister_worker(transaction: Transaction, worker: str) -> None:
    """Remove a worker's entry and its leaderships."""
    transaction.run("upkeep/worker_retire", (worker,))
    transaction.run("upkeep/worker_resign", (worker,))


def write_off(transaction: Transaction, workers: Sequence[str]) -> None:
    """Remove the entries and leaderships of workers whose processes have ended, and end their leases."""
    for worker in workers:
        transaction.run("upkeep/worker_end_leases", (worker,))
        unregister_worker(transaction, worker)
