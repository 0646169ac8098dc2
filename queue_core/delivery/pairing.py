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
NONE = "none"
"""Stands in the place of the other Redis for workers in mode `postgres`, which have none."""
PAIRED, DOUBTFUL = 35.0, 5.0
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
    Without a Redis (`delivery` is None) any that delivers for the database is another one.
    """

    def __init__(self, store: PairedStore, delivery: PairedDelivery | None) -> None:
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
            # Without a Redis it hardly matters when another one is found, and an idle fleet asks for little.
            paired = WINDOW if self._delivery is None else PAIRED
            await asyncio.sleep((DOUBTFUL if self.doubtful else paired) * random.uniform(0.8, 1.0))

    async def look(self, change: bool = True) -> None:
        """Compare the two sides; pair them where neither belongs to others, unless nothing is to be changed.

        Raises:
            StoreUnavailable, DispatchUnavailable: one of the sides does not answer; what was found before stands.
        """
        if self._delivery is None:
            await self._look_without(change)
            return
        # Redis is written last and read first: what it confirms stands in its database.
        kept, confirmed = await self._delivery.identity()
        led = await self._store.leaders((DUTY, OTHERS))
        pair = led.get(DUTY)
        theirs = "" if pair is None else pair.worker.partition(" ")[0]
        if (pair is not None and kept == theirs) or self._was_ours(kept, theirs):
            await self._found(self._delivery, kept or theirs, change and (kept is None or _ends_soon(pair)))
            self._tell(_beside(led.get(OTHERS)))
            return
        if (pair is None or pair.seconds <= 0) and not confirmed:
            if change:
                await self._found(self._delivery, kept or secrets.token_hex(8), True)
            self._tell("")
            return
        await self._differs(self._delivery.place, kept, pair, change)

    async def _look_without(self, change: bool) -> None:
        """Look whether a Redis delivers for the database, which hears nothing of what this process makes ready."""
        pair = (await self._store.leaders((DUTY,))).get(DUTY)
        if pair is None or pair.seconds <= 0:
            self._foreign = None
            self._tell("")
            return
        if change and not self._renewed(pair):
            return  # its last process may have ended a moment ago
        if change:
            await self._store.lead(OTHERS, NONE, WINDOW)
        self._tell(f"a Redis ({pair.worker.partition(' ')[2]}) delivers for this database, and this process has none")

    def _renewed(self, pair: Led) -> bool:
        """Tell whether a foreign pair was confirmed again since it was seen first."""
        theirs, ends = pair.worker.partition(" ")[0], time.monotonic() + pair.seconds
        if self._foreign is None or self._foreign[0] != theirs:
            self._foreign = (theirs, ends)
        return ends >= self._foreign[1] + 1.0

    def _was_ours(self, kept: str | None, theirs: str) -> bool:
        """Tell whether one side has lost what this process has seen on both."""
        return bool(self._identity) and {kept or self._identity, theirs or self._identity} == {self._identity}

    async def _found(self, delivery: PairedDelivery, identity: str, confirm: bool) -> None:
        if confirm and not await self._store.lead(DUTY, f"{identity} {delivery.place}", WINDOW):
            return  # another process was first: the next look finds its pair
        self._identity, self._foreign = identity, None
        if confirm:
            self._identity = await delivery.identify(identity, WINDOW)

    async def _differs(self, ours: str, kept: str | None, pair: Led | None, change: bool) -> None:
        """Say so, once it is sure that the other pair is in use and not just the one before a side was emptied."""
        if pair is None or pair.seconds <= 0:
            self._tell(f"Redis ({ours}) delivers for another database")
            return
        place = pair.worker.partition(" ")[2]
        renewed = self._renewed(pair)
        if kept is None and place == ours and not renewed:
            self.doubtful = True  # its server may have been emptied or replaced: then nobody confirms it any more
            return
        if change:
            await self._store.lead(OTHERS, ours, WINDOW)
        self._tell(f"another Redis ({place}) delivers for this database, not the one of this process ({ours})")

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


def _beside(others: Led | None) -> str:
    """Return what is told of those who work on the database and are not of its pair."""
    if others is None or others.seconds <= 0:
        return ""
    if others.worker == NONE:
        return "workers in mode postgres work on this database, and tell its Redis nothing"
    return f"another application works on this database with another Redis ({others.worker})"


def _ends_soon(pair: Led | None) -> bool:
    return pair is None or pair.seconds < WINDOW - PAIRED / 2
