"""Error signatures, their titles, and totals."""

from __future__ import annotations

import time
from collections.abc import Sequence

from queue_core.model.filters import Filter, Term
from queue_core.model.report import Conservation, SeriesPoint, SignatureInfo, Tally, counts_by_minute
from queue_core.model.states import Status
from queue_core.stores.postgres.dialect import Rows, conditions, filled, load, moment, text_array
from queue_core.stores.postgres.session.pool import ConnectionPool, Row
from queue_core.stores.postgres.session.runner import SerialRunner
from queue_core.stores.sql.records import tallies_of

_DEAD = Term("status", "=", Status.DEAD.value)


async def signatures(
    pool: ConnectionPool, where: Filter, window: float, slices: int, limit: int
) -> list[SignatureInfo]:
    """Return groups of dead jobs by error.

    A minute is the smallest time that growth is known for: it counts with the slice that it begins in.
    """
    wanted = conditions(where.having(_DEAD), pool.settings.schema)
    if wanted is None or limit <= 0:
        return []
    (view,) = wanted.places
    known = counts_by_minute(where)
    query = filled(
        "totals/signatures",
        wanted.schema,
        view=wanted.view(view),
        conditions=wanted.text(),
        deaths=load("totals/deaths" if known else "totals/deaths_of", wanted.schema).decode(),
        # One read of the jobs gives both their number and when they died: a second one took as long again.
        slice=wanted.pieces.fragments["no slice" if known else "slice"],
        order=wanted.pieces.fragments["newest"],
    )
    given = {"window": max(window, 1.0), "slices": max(slices, 1), "limit": limit}
    rows = await pool.rows(query, wanted.params | given)
    return [_info(row, max(slices, 1)) for row in rows]


def _info(row: Row, slices: int) -> SignatureInfo:
    signature, title, count, grown, places, deaths, first_seen, last, types, counts, queues, sample = row
    return SignatureInfo(
        signature=signature,
        title=title,
        count=count,
        grown=grown,
        trend=_trend(places or (), deaths or (), slices),
        first_seen=moment(first_seen),
        last_seen=moment(last),
        types=tuple(zip(types, counts, strict=True)),
        queues=tuple(sorted(queues)),
        sample_id=sample,
    )


def _trend(places: Sequence[int], deaths: Sequence[int], slices: int) -> tuple[int, ...]:
    trend = [0] * slices
    for place, number in zip(places, deaths, strict=True):
        trend[place] += number
    return tuple(trend)


async def tallies(pool: ConnectionPool) -> list[Tally]:
    """Return the exact totals of every queue and type."""
    return tallies_of(await pool.rows("totals/tallies"))


async def series(pool: ConnectionPool, minutes: int, queue: str | None = None) -> list[SeriesPoint]:
    """Return the last minutes, oldest first, empty ones included."""
    rows = await pool.rows("totals/series", {"minutes": minutes, "queue": queue})
    return [SeriesPoint(moment(minute), *counts) for minute, *counts in rows]


async def conservation(pool: ConnectionPool) -> Conservation:
    """Return where all jobs are, from one statement and so from one moment."""
    (row,) = await pool.rows("totals/conservation")
    return Conservation(*row)


# Forgets the titles of error signatures that no dead job has any more: a walk, a bounded step at a time.
#
# Those of jobs in the trash are found by a walk over the trash, which has no index by signature: it is rare enough, and
# every delete would write to an index. A title that is forgotten by mistake, since a job was dying just then, comes
# back with the next round.

KEPT_SECONDS = 2 * 86400.0
"""Seconds after its first sight in which a signature is kept whatever becomes of its jobs."""
WALK_INTERVAL = 3600.0
"""Seconds between two walks."""
FIRST_WALK_AFTER = 300.0
"""Seconds from the start to the first walk."""
SIGNATURES_PER_STATEMENT = 1_000
"""Signatures looked at in a statement, and forgotten after a walk over the trash."""
TRASH_PER_STATEMENT = 5_000
"""Jobs of the trash looked at in a statement."""
STATEMENTS_PER_ROUND = 20
"""Statements in one go, so that the leader's other duties do not wait."""
FIRST_PLACE = ("-infinity", "00000000-0000-0000-0000-000000000000")


class Titles:
    """One walk at a time; the first begins a while after the start."""

    def __init__(self, runner: SerialRunner) -> None:
        self._runner = runner
        # seconds of time.monotonic
        self._begin_at = time.monotonic() + FIRST_WALK_AFTER
        # the last signature looked at
        self._after = ""
        # what is to be forgotten unless a job of the trash has it, and how far the walk over the trash is
        self._unused: set[str] = set()
        self._place = FIRST_PLACE
        # what was forgotten in the round before
        self._forgotten: Rows = []

    async def run(self) -> None:
        """Go on with the walk, or begin one when it is time."""
        await self._restore()
        if time.monotonic() < self._begin_at:
            return
        for _ in range(STATEMENTS_PER_ROUND):
            if self._unused:
                await self._read_trash()
            elif not await self._choose():
                self._after, self._begin_at = "", time.monotonic() + WALK_INTERVAL
                return

    async def _choose(self) -> bool:
        """Look at the next signatures; False when there were no more of them."""
        wanted = {"after": self._after, "seconds": KEPT_SECONDS, "limit": SIGNATURES_PER_STATEMENT}
        rows = await self._runner.run("totals/titles", wanted)
        if rows:
            self._after, self._place = rows[-1][0], FIRST_PLACE
            self._unused = {signature for signature, unused, old in rows if unused and old}
        return bool(rows)

    async def _read_trash(self) -> None:
        at, job_id = self._place
        rows = await self._runner.run("totals/titles_in_trash", {"at": at, "id": job_id, "limit": TRASH_PER_STATEMENT})
        self._unused.difference_update(row[2] for row in rows)
        if len(rows) == TRASH_PER_STATEMENT:
            self._place = rows[-1][:2]
        elif self._unused:
            signatures = {"signatures": text_array(sorted(self._unused))}
            self._unused = set()
            self._forgotten += await self._runner.run("totals/forget_titles", signatures)

    async def _restore(self) -> None:
        if not self._forgotten:
            return
        columns = [text_array(column) for column in zip(*self._forgotten, strict=True)]
        names = ("signatures", "titles", "exceptions", "first_seen")
        await self._runner.run("totals/restore_titles", dict(zip(names, columns, strict=True)))
        self._forgotten = []
