"""The executor of operations: takes their steps, waits for canaries, and stops operations whose jobs fail."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from queue_core.client.effects import Effects
from queue_core.client.logs import OutageLog
from queue_core.client.operating.drain import carry_on, watch_drain
from queue_core.client.operating.verdict import OutcomeCounts, ReleaseWatch, judge, read_outcomes, reason
from queue_core.errors import OperationNotFound, StoreRefused, StoreUnavailable
from queue_core.model.operation import Operation
from queue_core.ports.inspector import Inspector
from queue_core.ports.locks import LockHeld
from queue_core.ports.operations import OperationStore

logger = logging.getLogger("queue_core.operations")


STEP_MEMBERS = 500
"""Members of a step: few enough that other transactions do not wait for it, enough to be fast."""
RATED_STEP = 0.25
"""Seconds of its rate that one step of a throttled operation takes."""
POLL_SECONDS = 1.0
"""Seconds between two reads of operations, and between two reads of the outcomes of retried jobs."""
CANARY_POLL = 0.5
"""Seconds between two reads of a canary's outcomes."""
ABANDON_POLL = 60.0
"""Seconds between two searches for abandoned operations."""
MAX_CONCURRENT = 100
"""Operations that run concurrently."""
HELD_SECONDS = 10.0
"""Seconds until an operation is tried again whose jobs need what another transaction holds: a try takes seconds."""


class Executor:
    """Runs operations. Any number of executors may work on one store: each step is taken once."""

    def __init__(self, store: OperationStore, effects: Effects, inspector: Inspector) -> None:
        self._store = store
        self._effects = effects
        self._inspector = inspector
        self._releases = ReleaseWatch(store, inspector)
        self._counts = OutcomeCounts(store, inspector)
        # operation -> time.monotonic of the next read of its outcomes
        self._poll_at: dict[int, float] = {}
        # operation -> members to take one by one, after a step of many failed
        self._single: dict[int, int] = {}
        # operation -> time.monotonic until which it waits for other transactions
        self._held: dict[int, float] = {}
        # seconds of time.monotonic
        self._abandon_at = self._count_at = float("-inf")

    async def run(self, may: Callable[[], bool]) -> None:
        """Run operations without end, while `may` returns True."""
        waits = OutageLog(logger, "operations wait")
        while True:
            wait = POLL_SECONDS
            if may():
                try:
                    wait = await self.run_once()
                    waits.worked()
                except StoreUnavailable as error:
                    waits.failed(error)
                except Exception:
                    logger.exception("operations failed and are tried again")
            await asyncio.sleep(wait)

    async def run_once(self) -> float:
        """Take a step of each running operation, and count outcomes; return the seconds until the next call.

        Drains that were left alone while they began are carried on; other operations are cancelled then, periodically.

        Raises:
            StoreUnavailable: the remaining steps are still to be taken.
        """
        wait = POLL_SECONDS
        # The oldest first: a drain before its move.
        unfinished = list(reversed(await self._store.list_operations(MAX_CONCURRENT, unfinished=True)))
        self._held = {one.number: self._held[one.number] for one in unfinished if one.number in self._held}
        for operation in unfinished:
            try:
                if operation.state == "running":
                    wait = min(wait, await self._advance_unless_held(operation))
                elif operation.state == "preparing":
                    await carry_on(self._store, self._inspector, operation)
            except OperationNotFound:
                continue
        if time.monotonic() >= self._abandon_at:
            # Behind the drains, of which a step was taken: they are not abandoned, however long the store was away.
            await self._store.abandon()
            self._abandon_at = time.monotonic() + ABANDON_POLL
        if time.monotonic() >= self._count_at:
            await self._counts.run_once()
            self._count_at = time.monotonic() + POLL_SECONDS
        return wait

    async def _advance_unless_held(self, operation: Operation) -> float:
        """Do as `advance`, but let no other operation wait for what this one's jobs need from another transaction."""
        number = operation.number
        if self._held.get(number, 0.0) > time.monotonic():
            return POLL_SECONDS
        try:
            wait = await self.advance(operation)
        except LockHeld as error:
            if number not in self._held:
                logger.warning("operation #%d waits, and is tried again: %s", number, error)
            self._held[number] = time.monotonic() + HELD_SECONDS
            return POLL_SECONDS
        self._held.pop(number, None)
        return wait

    async def advance(self, operation: Operation) -> float:
        """Take the next step of an operation that was just read; return the seconds until the following step.

        Raises:
            StoreUnavailable, OperationNotFound: no step was taken.
        """
        if operation.state != "running":
            return POLL_SECONDS
        if operation.request.verb == "drain":
            return await self._watch_drain(operation)
        if not await self._may_go_on(operation):
            return CANARY_POLL
        return await self._step(operation)

    async def _watch_drain(self, operation: Operation) -> float:
        number, now = operation.number, time.monotonic()
        if (due := self._poll_at.get(number, now)) > now:
            return due - now
        self._poll_at[number] = now + POLL_SECONDS
        if (await watch_drain(self._store, self._inspector, operation)).ended:
            del self._poll_at[number]
        return POLL_SECONDS

    async def _may_go_on(self, operation: Operation) -> bool:
        """Check the outcomes of the jobs, when due; return False when the next step must wait or must not follow."""
        rollout, number = operation.request.rollout, operation.number
        if operation.waits_for:
            if not await self._releases.is_live(operation):
                return False
            await self._store.pass_barrier(number, 0)
            return True
        due = self._poll_at.get(number, 0.0) <= time.monotonic()
        watched = operation.request.verb == "retry" and rollout.stop_percent is not None and operation.processed > 0
        if not (operation.awaiting_canary or (watched and due)):
            return True
        self._poll_at[number] = time.monotonic() + POLL_SECONDS
        outcomes = await read_outcomes(self._store, operation)
        verdict = judge(operation, outcomes)
        if verdict == "stop":
            await self._store.move(number, "stopped", reason(operation, outcomes))
            return False
        if operation.awaiting_canary and verdict == "go":
            await self._store.pass_barrier(number, operation.barrier)
            return True
        return not operation.awaiting_canary

    async def _step(self, operation: Operation) -> float:
        number, rate = operation.number, operation.request.rollout.rate
        most = STEP_MEMBERS if rate is None else max(1, min(STEP_MEMBERS, round(rate * RATED_STEP)))
        single = self._single.get(number, 0)
        if single:
            self._single[number] = single - 1
        try:
            step = await self._store.step(number, 1 if single else most)
        except OperationNotFound:
            raise
        except Exception as error:  # whatever a step fails on, the others must not wait behind it
            if _wait_for(error):
                raise
            if not single:
                logger.warning("a step of operation #%d failed, its jobs are taken one by one: %s", number, error)
                self._single[number] = most
            else:
                await self._store.fail_member(number, f"{type(error).__name__}: {error}"[:500])
            return 0.0
        await self._effects.publish(operation.request.verb, step.changed)  # type: ignore[arg-type]
        if step.operation.ended:
            self._poll_at.pop(number, None)
            self._single.pop(number, None)
        return CANARY_POLL if step.operation.awaiting_canary else step.wait


def _wait_for(error: Exception) -> bool:
    """Return whether a step may succeed later unchanged; otherwise one of its members makes it fail."""
    if isinstance(error, StoreRefused):
        return error.passing
    return isinstance(error, StoreUnavailable)
