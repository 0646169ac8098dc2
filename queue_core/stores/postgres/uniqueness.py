"""Unique keys: who holds one is written in a row that is locked, so that of several inserts one wins."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from queue_core.batching import parts_of
from queue_core.stores.postgres.lane import Lane
from queue_core.stores.postgres.plan import ANSWER, ROW, Plan
from queue_core.stores.postgres.sql import plain_array, text_array

LIMIT = 500
"""Keys looked at, and locked, in a statement."""
STEPS = 200
"""Statements in one go, so that the leader's other duties do not wait."""
START = (-1, "")


class Wanted(NamedTuple):
    """A unique key that a job is to have."""

    # the number of its queue
    queue: int
    key: str
    job_id: str
    # None: while the job is unfinished
    seconds: float | None = None


def take_keys(wanted: Sequence[Wanted]) -> Plan[dict[tuple[int, str], str]]:
    """Take unique keys that nobody holds; return the holder of each. Of several that want one, the first gets it."""
    first: dict[tuple[int, str], Wanted] = {}
    for one in wanted:
        first.setdefault((one.queue, one.key), one)
    # In the order in which each statement locks, too, so that several are as one.
    ordered = sorted(first.values(), key=lambda one: (one.queue, one.key.encode()))
    holders: dict[tuple[int, str], str] = {}
    for part in _parts(ordered):
        holders |= {(queue, key): job_id for queue, key, job_id in (yield "unique/lock", _arrays(part))}
    for part in _parts([one for one in ordered if (one.queue, one.key) not in holders]):
        holders |= {(queue, key): job_id for queue, key, job_id in (yield "unique/take", _arrays(part))}
    return holders


def _parts(wanted: Sequence[Wanted]) -> Iterator[list[Wanted]]:
    return parts_of(wanted, lambda one: ROW + len(one.key), ANSWER)


def _arrays(wanted: Sequence[Wanted]) -> dict[str, str]:
    return {
        "queue_id": plain_array([one.queue for one in wanted]),
        "key": text_array([one.key for one in wanted]),
        "job_id": plain_array([one.job_id for one in wanted]),
        "seconds": plain_array([one.seconds for one in wanted]),
    }


class KeyKeeper:
    """Forgets the keys that nobody holds any more: no end of a job waits for somebody who has its key locked."""

    def __init__(self, lane: Lane) -> None:
        self._lane = lane
        self._place = START

    async def run(self) -> None:
        """Forget what expired, and walk on over the keys of unfinished jobs."""
        while (await self._lane.run("unique/expire", {"limit": LIMIT}))[0][0] == LIMIT:
            pass
        for _ in range(STEPS):
            if await self._lane.carry_out(self._step):
                break

    def _step(self) -> Plan[bool]:
        """Look at the next keys; return whether they were the last."""
        queue, key = self._place
        rows = yield "unique/look", {"queue_id": queue, "key": key, "limit": LIMIT}
        if rows:
            yield (
                "unique/forget",
                {"queue_id": plain_array([row[0] for row in rows]), "key": text_array([row[1] for row in rows])},
            )
        over = len(rows) < LIMIT
        self._place = START if over else (rows[-1][0], rows[-1][1])
        return over
