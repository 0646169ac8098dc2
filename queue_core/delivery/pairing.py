"""Whether the Redis of this process is the one that works with its database: another one learns of no retry."""

from __future__ import annotations

import asyncio
import logging
import random
import secrets
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from queue_core.errors import QueueCoreError
from queue_core.ports.delivery import DispatchUnavailable, Led

logger = logging.getLogger("queue_core.delivery")


DUTY, OTHERS = "delivery", "delivery by others"
"""Names in the table of leaders: which Redis delivers for the database, and that another one is in use beside it."""
DATABASE = "database"
"""Name in the table of leaders of the database that the two before were written for: a copy of it has them, too."""
IN_USE_SECONDS = 75.0
"""Seconds for which a pair counts as in use after it was last confirmed."""
NONE = "none"
"""The identity of the other Redis for workers in mode `postgres`, which have none."""
PAIRED_INTERVAL, DOUBTFUL_INTERVAL, UNSURE_INTERVAL = 8.0, 5.0, 2.0
"""Seconds between two checks: while the pair is found, while it is not, and while that is not known."""


class PairingRecord(NamedTuple):
    """What a Redis keeps under its prefix about the database that it delivers for."""

    identity: str | None
    # the address of that database, when it was confirmed lately
    confirmed: str | None = None
    # that of another one whose processes have lately noted that they use this Redis, too
    others: str | None = None
    # that of another Redis, which a process has found in that database lately
    beside: str | None = None


class PairedStore(Protocol):
    """What a database holds about the Redis that delivers for it."""

    async def leaders(self, duties: Sequence[str]) -> Mapping[str, Led]:
        """Return who leads these duties, or has led them last."""
        ...

    async def identity_and_leaders(self, duties: Sequence[str]) -> tuple[str, Mapping[str, Led]]:
        """Return which database this is, which its copies do not share, and who leads these duties.

        "" where the server does not report it.
        """
        ...

    async def acquire_leadership(self, duty: str, worker: str, seconds: float) -> bool:
        """Take or renew the leadership of a duty."""
        ...


class PairedDelivery(Protocol):
    """What a Redis holds about the database that it delivers for."""

    @property
    def place(self) -> str:
        """The server, its database and the prefix, for people."""
        ...

    async def read_record(self, turn: float = 0.0) -> tuple[PairingRecord, bool]:
        """Return what is kept under the prefix about the database, and whether no other process took this turn before.

        `turn` are the seconds for which this process takes it; 0 = not at all.
        """
        ...

    async def identify(self, identity: str, replaces: str | None, database: str, seconds: float) -> str:
        """Keep an identity where there is none, or the one that it replaces, and return the one that is kept.

        Where it is this one, its database is confirmed for some seconds.
        """
        ...

    async def note_other_database(self, database: str, seconds: float) -> None:
        """Note for some seconds that processes of another database use this Redis, too."""
        ...

    async def note_other_redis(self, redis: str, seconds: float) -> None:
        """Note for some seconds that processes of the database use another Redis."""
        ...


class Pairing:
    """A random identity is stored in the database and under the prefix of its Redis; equal ones are a pair.

    A side that has lost its identity (FLUSHALL, a restored database, a new server) gets it again from a process that
    knows it, and else both get a new one, unless one side is in use by others. Who is not of the pair notes so on the
    side that is not theirs alone, where the pair's own processes read it: in the database, of another Redis; in Redis,
    of another database.
    A copy of a database (CREATE DATABASE … TEMPLATE, pg_restore) has the identity of the original, but not its place:
    to the copy it is no identity, for two databases with the same one would not be noticed on one Redis.
    Without a Redis (`delivery` is None) any that delivers for the database is another one.
    """

    def __init__(self, store: PairedStore, delivery: PairedDelivery | None, database: str = "") -> None:
        self._store = store
        # its server and name, for people
        self._database = database
        self._delivery = delivery
        # which database it is, as of the last check
        self._here = ""
        # of the pair that was found last; this process restores it where one side loses it
        self._identity = ""
        # the foreign pair, and how long it was confirmed for, as seen first
        self._foreign: tuple[str, float] | None = None
        # Whether jobs may be waiting that only another Redis learns of: workers then look into the store themselves.
        self.doubtful = False
        # why, for people; "" while it is not known that anything is wrong
        self.reason = ""
        # the reason that was logged last: only who works logs, not who asks how things are
        self._logged = ""
        # seconds since the epoch
        self.since: float | None = None

    async def run(self) -> None:
        """Check again and again, for ever."""
        while True:
            try:
                await self._glance()
            except (DispatchUnavailable, QueueCoreError) as error:
                logger.debug("cannot compare the identities: %s", error)
            # Without a Redis it hardly matters when another one is found, and an idle fleet asks for little.
            paired = IN_USE_SECONDS if self._delivery is None else PAIRED_INTERVAL
            pause = (DOUBTFUL_INTERVAL if self.reason else UNSURE_INTERVAL) if self.doubtful else paired
            await asyncio.sleep(pause * random.uniform(0.8, 1.0))

    async def _glance(self) -> None:
        """Check; but of the processes that are a pair only one at a time asks the database, and the others Redis alone.

        An idle fleet asks for little: twenty workers would ask PostgreSQL twice a second, all of them for the same.
        """
        if self._delivery is not None and self._identity and not self.doubtful:
            kept, first = await self._delivery.read_record(PAIRED_INTERVAL)
            if not (first or kept.identity != self._identity or kept.others or kept.beside):
                return
        await self.check()

    async def check(self, change: bool = True) -> None:
        """Compare the two sides; pair them where neither belongs to others, unless nothing is to be changed.

        Raises:
            StoreUnavailable, DispatchUnavailable: one of the sides does not answer; what was found before is kept.
        """
        if self._delivery is None:
            await self._check_without_redis(change)
            return
        # Redis is written last and read first: what it confirms is stored in its database.
        kept, _ = await self._delivery.read_record()
        self._here, led = await self._store.identity_and_leaders((DUTY, OTHERS, DATABASE))
        place = led.get(DATABASE)
        if place is not None and self._here not in ("", place.worker):
            # A copy: this database has never been paired, nor was it the one that this process has seen so.
            led, self._identity = {}, ""
        pair, others = led.get(DUTY), _live(led.get(OTHERS))
        theirs = "" if pair is None else pair.worker.partition(" ")[0]
        if (pair is not None and kept.identity == theirs) or self._was_ours(kept.identity, theirs):
            confirm = change and (kept.identity is None or _ends_soon(pair))
            await self._found(self._delivery, kept.identity or theirs, pair, confirm)
            if change and others is not None:
                await self._delivery.note_other_redis(others.worker, PAIRED_INTERVAL * 2)
            self._report(self._beside(others, kept.others, self._delivery.place), change)
            return
        if _live(pair) is None and not kept.confirmed:
            if change:
                # A new one, not the one found: that may be of another application, which is down just now. Its own
                # database still has it, and so it sees that this Redis delivers for another one when it is back.
                await self._found(self._delivery, secrets.token_hex(8), None, True, kept.identity)
            self._report("", change)
            return
        await self._differs(self._delivery, kept, _live(pair), others, change)

    async def _check_without_redis(self, change: bool) -> None:
        """Check whether a Redis delivers for the database, which learns nothing of what this process makes ready."""
        pair = _live((await self._store.leaders((DUTY,))).get(DUTY))
        if pair is None:
            self._foreign = None
            self._report("", change)
            return
        if change and not self._renewed(pair):
            return  # its last process may have ended a moment ago
        if change:
            await self._store.acquire_leadership(OTHERS, NONE, IN_USE_SECONDS)
        reason = f"a Redis ({_place(pair)}) delivers for this database, and this process has none"
        self._report(reason, change)

    def _renewed(self, pair: Led) -> bool:
        """Return whether a foreign pair was confirmed again since it was seen first."""
        theirs, ends = pair.worker.partition(" ")[0], time.monotonic() + pair.seconds
        if self._foreign is None or self._foreign[0] != theirs:
            self._foreign = (theirs, ends)
        return ends >= self._foreign[1] + 1.0

    def _was_ours(self, kept: str | None, theirs: str) -> bool:
        """Return whether one side has lost what this process has seen on both."""
        return bool(self._identity) and {kept or self._identity, theirs or self._identity} == {self._identity}

    async def _found(
        self, delivery: PairedDelivery, identity: str, pair: Led | None, confirm: bool, replaces: str | None = None
    ) -> None:
        if confirm:
            # Two processes of a pair may write the address of its Redis in two ways: the first one's is kept.
            ours = f"{identity} {delivery.place}"
            kept = _live(pair)
            name = kept.worker if kept is not None and kept.worker.startswith(f"{identity} ") else ours
            if self._here and not await self._store.acquire_leadership(DATABASE, self._here, IN_USE_SECONDS):
                return  # that of the original, which the copy took with it a moment ago
            if not await self._store.acquire_leadership(DUTY, name, IN_USE_SECONDS):
                return  # another process was first: the next check finds its pair
            if await delivery.identify(identity, replaces, self._database, IN_USE_SECONDS) != identity:
                return  # a process of another database was first, and the next check finds that
        self._identity, self._foreign = identity, None

    async def _differs(
        self, delivery: PairedDelivery, kept: PairingRecord, pair: Led | None, others: Led | None, change: bool
    ) -> None:
        """Note it, once it is sure that the other pair is in use and not just the one before a side was emptied."""
        ours = delivery.place
        # Its server may have been emptied or replaced: then no process confirms the pair any more, nor denies it.
        elsewhere = pair is not None and (
            self._renewed(pair) or _place(pair) != ours or (others is not None and others.worker == ours)
        )
        if pair is not None and elsewhere:
            reason = f"another Redis ({_place(pair)}) delivers for this database, not the one of this process ({ours})"
        elif kept.confirmed:
            reason = f"Redis ({ours}) delivers for another database ({kept.confirmed})"
        else:
            self.doubtful = True
            return
        if change and elsewhere:
            await self._store.acquire_leadership(OTHERS, ours, IN_USE_SECONDS)
        if change and kept.confirmed:
            await delivery.note_other_database(self._database, IN_USE_SECONDS)
        self._report(reason, change)

    def _beside(self, others: Led | None, database: str | None, ours: str) -> str:
        """Return a sentence about those who use one side of the pair and not the other."""
        found = []
        if others is not None and others.worker == NONE:
            found.append("workers in mode postgres work on this database, and tell its Redis nothing")
        elif others is not None:
            found.append(f"another application works on this database with another Redis ({others.worker})")
        if database and database != self._database:
            found.append(f"another application uses this Redis ({ours}) for another database ({database})")
        return "; ".join(found)

    def _report(self, reason: str, working: bool) -> None:
        self.doubtful = bool(reason)
        if working and reason != self._logged:
            if reason:
                logger.warning("%s; workers look into the database themselves, later than they would be told", reason)
            else:
                logger.warning("the database and Redis belong together again")
            self._logged = reason
        if reason != self.reason:
            self.since = time.time() if reason else None
            self.reason = reason


def _live(led: Led | None) -> Led | None:
    return led if led is not None and led.seconds > 0 else None


def _place(pair: Led) -> str:
    return pair.worker.partition(" ")[2]


def _ends_soon(pair: Led | None) -> bool:
    return pair is None or pair.seconds < IN_USE_SECONDS - PAIRED_INTERVAL / 2
