"""The leader's walks over keys, once a minute: what should go on goes on, and what no job has is forgotten."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from functools import partial

from queue_core.model.rules import Rules
from queue_core.ports.locks import LockHeld
from queue_core.stores.postgres.dialect import plain_array, text_array
from queue_core.stores.postgres.ordering import (
    OrderingKey,
    Unblocked,
    create_locks,
    lock_free_keys,
    unblock_next,
)
from queue_core.stores.postgres.session.plans import Plan
from queue_core.stores.postgres.session.runner import SerialRunner

BEFORE_ALL_KEYS = (-1, "")
"""A place before all keys."""
KEYS_CHECKED = 2_000
"""Keys checked a minute for unreleased jobs: some 20 ms."""
LOCKS_PER_STATEMENT = 500
"""Locks looked at in a statement."""
KEYS_PER_STATEMENT = 500
"""Unique keys looked at, and locked, in a statement."""
STATEMENTS_PER_ROUND = 200
"""Statements in one go, so that the leader's other duties do not wait."""


class StalledKeys:
    """The safety net under the locks: a rule that lets more through than before counts at the next check, too."""

    def __init__(self, runner: SerialRunner, rules: Rules) -> None:
        self._runner = runner
        self._rules = rules
        self._place = BEFORE_ALL_KEYS

    async def run(self) -> None:
        """Check the next keys, and release jobs that should have been released."""
        rules = self._rules
        checked = await self._runner.run(
            "keys/stalled",
            {
                "queue": text_array(rules),
                "capacity": plain_array([one.open_keys for one in rules.values()]),
                "queue_id": self._place[0],
                "key": self._place[1],
                "limit": KEYS_CHECKED,
            },
        )
        stalled: Collection[OrderingKey] = [(queue, key) for _, queue, key, is_stalled in checked if is_stalled]
        if stalled:
            with suppress(LockHeld):  # the next round comes in a minute
                await self._runner.run_plan(lambda: unblock_stalled(stalled, rules), patient=False)
        self._place = (checked[-1][0], checked[-1][2]) if len(checked) == KEYS_CHECKED else BEFORE_ALL_KEYS


def unblock_stalled(keys: Iterable[OrderingKey], rules: Rules) -> Plan[list[Unblocked]]:
    """Release the next jobs of the keys that no other transaction has locked."""
    distinct = set(keys)
    yield from create_locks(distinct)
    locked, _ = yield from lock_free_keys(distinct)
    return (yield from unblock_next(locked, rules))


class UnusedLocks:
    """Deletes locks whose key no job has: they are made before a caller's transaction, which may be rolled back."""

    def __init__(self, runner: SerialRunner) -> None:
        self._runner = runner
        self._place = BEFORE_ALL_KEYS

    async def run(self) -> None:
        """Walk on over the locks."""
        for _ in range(STATEMENTS_PER_ROUND):
            queue_id, key = self._place
            place = {"queue_id": queue_id, "key": key, "limit": LOCKS_PER_STATEMENT}
            seen = await self._runner.run("keys/unused_locks", place)
            if unused := [(queue, key) for _, queue, key, is_unused in seen if is_unused]:
                await self._runner.run_plan(partial(_forget_locks, unused))
            if len(seen) < LOCKS_PER_STATEMENT:
                self._place = BEFORE_ALL_KEYS
                return
            self._place = seen[-1][0], seen[-1][2]


def _forget_locks(keys: Sequence[OrderingKey]) -> Plan[None]:
    locked, _ = yield from lock_free_keys(keys)
    if locked.rows:
        _, queue_ids, names = zip(*locked.rows, strict=True)
        yield "keys/forget_locks", {"queue_id": plain_array(queue_ids), "key": text_array(names)}


class UnusedKeys:
    """Deletes keys without a holder: so the end of a job never waits for a transaction that has its key locked."""

    def __init__(self, runner: SerialRunner) -> None:
        self._runner = runner
        self._place = BEFORE_ALL_KEYS

    async def run(self) -> None:
        """Forget what expired, and walk on over the keys of unfinished jobs."""
        expired = KEYS_PER_STATEMENT
        while expired == KEYS_PER_STATEMENT:
            ((expired,),) = await self._runner.run("keys/expire_unique", {"limit": KEYS_PER_STATEMENT})
        for _ in range(STATEMENTS_PER_ROUND):
            if await self._runner.run_plan(self._step):
                break

    def _step(self) -> Plan[bool]:
        """Look at the next keys; return whether they were the last."""
        queue, key = self._place
        rows = yield "keys/look_unique", {"queue_id": queue, "key": key, "limit": KEYS_PER_STATEMENT}
        if rows:
            yield (
                "keys/forget_unique",
                {"queue_id": plain_array([row[0] for row in rows]), "key": text_array([row[1] for row in rows])},
            )
        over = len(rows) < KEYS_PER_STATEMENT
        self._place = BEFORE_ALL_KEYS if over else (rows[-1][0], rows[-1][1])
        return over
