"""The lease epoch, above which tokens are given out: raised where another server gives them out from now on.

A crash, a failover or a restore from a backup forgets tokens that were given out before; what comes behind it must not
give one of them out a second time.
"""

from __future__ import annotations

import logging
import time

from queue_core.errors import StoreRefused
from queue_core.stores.postgres.session.runner import SerialRunner

logger = logging.getLogger("queue_core.worker")

EPOCH_SECONDS = 5.0
"""For how long it is known where the lease epoch was raised: a worker that hung finds out when it goes on."""


class LeaseEpoch:
    """Compares the place where the epoch was raised with the server and database of this process, before claims."""

    def __init__(self, runner: SerialRunner) -> None:
        self._runner = runner
        # time.monotonic until which the lease epoch counts as this database's
        self._known = float("-inf")

    async def check(self) -> None:
        """Raise the epoch where its live copy is another database's, of which this one is a copy.

        One that was restored from a dump, or made from a template, knows nothing of the tokens given out since.
        """
        if time.monotonic() < self._known:
            return
        place, is_here = await self._place()
        # A role that may not ask, or not raise it, does not try again and again.
        known = time.monotonic() + EPOCH_SECONDS if place else float("inf")
        if not is_here:
            try:
                await self._raise(place)
            except StoreRefused as error:
                if error.passing:
                    raise
                logger.warning("tokens go on where they are, also in a restored database: %s", error)
                known = float("inf")
        self._known = known

    async def renew(self) -> None:
        """Raise the epoch, also after a crash of the server, which empties its unlogged live copy."""
        await self._raise((await self._place())[0])

    async def _place(self) -> tuple[str, bool]:
        """Return where tokens are given out, "" where that is not reported, and whether the epoch was raised there."""
        try:
            ((place, is_here),) = await self._runner.run("epoch/place", light=True)
        except StoreRefused as error:
            if error.passing:
                raise
            return "", True
        return place, is_here

    async def _raise(self, place: str) -> None:
        await self._runner.transaction([("epoch/lock", None), ("epoch/raise", {"place": place})])
