"""What carries out operations: it takes steps, waits for canaries, and stops what makes things worse."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from queue_core.client.effects import Effects
from queue_core.errors import OperationNotFound, StoreRefused, StoreUnavailable
from queue_core.model.operation import Operation, Outcomes, judge
from queue_core.ports.operations import OperationStore

logger = logging.getLogger("queue_core.operations")


CHUNK = 500
"""Members of a step: short enough that nobody waits behind its transaction, long enough to be fast."""
RATED_STEP = 0.25
"""Seconds of its rate that one step of a throttled operation takes."""
LOOK = 1.0
"""Seconds between two looks for operations, and between two looks at what became of retried jobs."""
CANARY_LOOK = 0.5
"""Seconds between two looks at a canary."""
LATELY = 1000
"""Retried jobs whose outcome decides whether an operation is stopped: the last ones."""
ABANDON_LOOK = 60.0
"""Seconds between two looks for operations whose authors are gone."""
MOST = 100
"""Operations that are carried out beside each other."""


class Executor:
    """Any number of them may work on one store: each step is taken once."""

    def __init__(self, store: OperationStore, effects: Effects) -> None:
        self._store = store
        self._effects = effects
        # operation -> time.monotonic of the next look at what became of its jobs
        self._look_at: dict[int, float] = {}
        # operation -> members to be taken one by one, since a step of many has failed
        self._single: dict[int, int] = {}
        # seconds of time.monotonic
        self._abandon_at = float("-inf")

    async def run(self, may: Callable[[], bool]) -> None:
        """Carry out operations for ever, as long as `may` says so."""
        waits = False
        while True:
            wait = LOOK
            if may():
                try:
                    wait = await self.run_once()
                    waits = False
                except StoreUnavailable as error:
                    # Once for each absence: the sweeps of the same process go on telling.
                    if not waits:
                        logger.warning("operations wait for the store: %s", error)
                    waits = True
                except Exception:
                    logger.exception("operations failed and are tried again")
            await asyncio.sleep(wait)

    async def run_once(self) -> float:
        """Take a step of each operation that runs; return the seconds until it wants to be called again.

        Once in a while, those that nobody will begin any more are cancelled.

        Raises:
            StoreUnavailable: what was not done is still to be done.
        """
        wait = LOOK
        if time.monotonic() >= self._abandon_at:
            await self._store.abandon()
            self._abandon_at = time.monotonic() + ABANDON_LOOK
        for operation in await self._store.find(MOST, unfinished=True):
            if operation.state == "running":
                try:
                    wait = min(wait, await self.advance(operation))
                except OperationNotFound:
                    continue
        return wait

    async def advance(self, operation: Operation) -> float:
        """Take the next step of an operation as it was just read; return the seconds until the one after it.

        Raises:
            StoreUnavailable, OperationNotFound: nothing was done.
        """
        if operation.state != "running":
            return LOOK
        if not await self._may_go_on(operation):
            return CANARY_LOOK
        return await self._step(operation)

    async def _may_go_on(self, operation: Operation) -> bool:
        """Look at what became of the jobs, when it is time; False: not now, or not any more."""
        pace, number = operation.asked.pace, operation.number
        due = self._look_at.get(number, 0.0) <= time.monotonic()
        watched = operation.asked.verb == "retry" and pace.stop_percent is not None and operation.processed > 0
        if not (operation.held or (watched and due)):
            return True
        self._look_at[number] = time.monotonic() + LOOK
        outcomes = await self._store.outcomes(number, operation.barrier if operation.in_canary else LATELY)
        verdict = judge(operation, outcomes)
        if verdict == "stop":
            await self._store.move(number, "stopped", _reason(operation, outcomes))
            return False
        if operation.held and verdict == "go":
            await self._store.release(number)
            return True
        return not operation.held

    async def _step(self, operation: Operation) -> float:
        number, rate = operation.number, operation.asked.pace.rate
        most = CHUNK if rate is None else max(1, min(CHUNK, round(rate * RATED_STEP)))
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
                await self._store.err(number, f"{type(error).__name__}: {error}"[:500])
            return 0.0
        await self._effects.publish(operation.asked.verb, step.changed)  # type: ignore[arg-type]
        if step.operation.ended:
            self._look_at.pop(number, None)
            self._single.pop(number, None)
        return CANARY_LOOK if step.operation.held else step.wait


def _wait_for(error: Exception) -> bool:
    """Tell whether a step can work later as it is; else something in one of its members makes it fail."""
    if isinstance(error, StoreRefused):
        return error.passing
    return isinstance(error, StoreUnavailable)


def _reason(operation: Operation, outcomes: Outcomes) -> str:
    which = "canary jobs" if operation.in_canary else "jobs whose outcome was known"
    number = outcomes.looked if operation.in_canary else outcomes.ended
    return f"{outcomes.dead:,} of {number:,} {which} died again"
