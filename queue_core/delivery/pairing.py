"""Whether the Redis of this process is the one that works with its database: another one hears of no retry."""

from __future__ import annotations

import asyncio
import logging
import random
import secrets
import time
from collections.abc import Mapping, Sequence
from typing import Protocol

from queue_core.dispatch import DispatchUnavailable
from queue_core.errors import QueueCoreError
from queue_core.store import Led

DUTY, OTHERS = "delivery", "delivery by others"
"""Names in the table of leaders: which Redis delivers for the database, and that another one is in use beside it."""
WINDOW = 75.0
"""Seconds for which a pair counts as in use after it was last confirmed."""
PAIRED, DOUBTFUL = 25.0, 5.0
"""Seconds between two looks, while the pair is found and while it is not."""

logger = logging.getLogger("queue_core.delivery")


class PairedStore(Protocol):
    """What a database tells of the Redis that delivers for it."""

    async def leaders(self, duties: Sequence[str]) -> Mapping[str, Led]:
        """Return who leads these duties, or has led them last."""
        ...

    async def lead(self, duty: str, worker: str, seconds: float) -> bool:
        """Take or renew the leadership of a duty."""
        ...


class PairedDelivery(Protocol):
    """What a Redis tells of the database that it delivers for."""

    @property
    def place(self) -> str:
        """The prefix and the database of the server, for people."""
        ...

    async def identity(self) -> tuple[str | None, bool]:
        """Return the identity that is kept under the prefix, and whether a database has confirmed it lately."""
        ...

    async def identify(self, identity: str, seconds: float) -> str:
        """Keep an identity where there is none, return the one that is there, and confirm it for some seconds."""
        ...


class Pairing:
    """A random identity stands in the database and under the prefix of its Redis; equal ones are a pair.

    A side that has lost its identity (FLUSHALL, a restored database, a new server) gets one again, unless the other
    side is in use by somebody else. Who is not of the pair says so in the database, so that the others know, too.
    """

    def __init__(self, store: PairedStore, delivery: PairedDelivery) -> None:
        self._store = store
        self._delivery = delivery
        # of the pair that was found last; this process restores it where one side loses it
        self._identity = ""
        # the foreign pair, and how long it was confirmed for, as seen first
        self._foreign: tuple[str, float] | None = None
        # Whether jobs may be waiting that only another Redis hears of: workers then look into the store themselves.
        self.doubtful = False
        # why, for people; "" while it is not known that anything is wrong
        self.reason = ""
        # seconds since the epoch
        self.since: float | None = None

    async def run(self) -> None:
        """Look again and again, for ever."""
        while True:
            try:
                await self.look()
            except (DispatchUnavailable, QueueCoreError) as error:
                logger.debug("cannot compare the identities: %s", error)
            await asyncio.sleep((DOUBTFUL if self.doubtful else PAIRED) * random.uniform(0.8, 1.0))

    async def look(self, change: bool = True) -> None:
        """Compare the two sides; pair them where neither belongs to others, unless nothing is to be changed.

        Raises:
            StoreUnavailable, DispatchUnavailable: one of the sides does not answer; what was found before stands.
        """
        # Redis is written last and read first: what it confirms stands in its database.
        kept, confirmed = await self._delivery.identity()
        led = await self._store.leaders((DUTY, OTHERS))
        pair = led.get(DUTY)
        theirs = "" if pair is None else pair.worker.partition(" ")[0]
        if (pair is not None and kept == theirs) or self._was_ours(kept, theirs):
            await self._found(kept or theirs, change and (kept is None or _ends_soon(pair)))
            others = led.get(OTHERS)
            if others is not None and others.seconds > 0:
                self._tell(f"another application works on this database with another Redis ({others.worker})")
            else:
                self._tell("")
            return
        if (pair is None or pair.seconds <= 0) and not confirmed:
            if change:
                await self._found(kept or secrets.token_hex(8), True)
            self._tell("")
            return
        await self._differs(kept, pair, change)

    def _was_ours(self, kept: str | None, theirs: str) -> bool:
        """Tell whether one side has lost what this process has seen on both."""
        return bool(self._identity) and {kept or self._identity, theirs or self._identity} == {self._identity}

    async def _found(self, identity: str, confirm: bool) -> None:
        if confirm and not await self._store.lead(DUTY, f"{identity} {self._delivery.place}", WINDOW):
            return  # another process was first: the next look finds its pair
        self._identity, self._foreign = identity, None
        if confirm:
            self._identity = await self._delivery.identify(identity, WINDOW)

    async def _differs(self, kept: str | None, pair: Led | None, change: bool) -> None:
        """Say so, once it is sure that the other pair is in use and not just the one before a side was emptied."""
        if pair is None or pair.seconds <= 0:
            self._tell(f"Redis ({self._delivery.place}) delivers for another database")
            return
        theirs, _, place = pair.worker.partition(" ")
        ends = time.monotonic() + pair.seconds
        if self._foreign is None or self._foreign[0] != theirs:
            self._foreign = (theirs, ends)
        if kept is None and place == self._delivery.place and ends < self._foreign[1] + 1.0:
            self.doubtful = True  # its server may have been emptied or replaced: then nobody confirms it any more
            return
        if change:
            await self._store.lead(OTHERS, self._delivery.place, WINDOW)
        self._tell(
            f"another Redis ({place}) delivers for this database, not the one of this process ({self._delivery.place})"
        )

    def _tell(self, reason: str) -> None:
        self.doubtful = bool(reason)
        if reason == self.reason:
            return
        if reason:
            logger.warning("%s; workers look into the database themselves, later than they would be told", reason)
        else:
            logger.warning("the database and Redis belong together again")
        self.since = time.time() if reason else None
        self.reason = reason


def _ends_soon(pair: Led | None) -> bool:
    return pair is None or pair.seconds < WINDOW - PAIRED / 2
