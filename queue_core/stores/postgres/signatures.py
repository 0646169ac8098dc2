"""Dead jobs in groups of the same error."""

from __future__ import annotations

from collections.abc import Sequence

from psycopg import sql

from queue_core.filters import Filter, Term
from queue_core.inspection import SignatureInfo, minutes_tell
from queue_core.states import Status
from queue_core.stores.postgres.conditions import conditions, fragments, template
from queue_core.stores.postgres.pool import Pool, Row
from queue_core.stores.postgres.records import utc

_DEAD = Term("status", "=", Status.DEAD.value)


class Signatures:
    """See queue_core.inspection.Inspector for what the method does."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def signatures(self, where: Filter, window: float, slices: int, limit: int) -> list[SignatureInfo]:
        """Return groups of dead jobs by error.

        A minute is the smallest time that growth is known for: it counts with the slice that it begins in.
        """
        wanted = conditions(where.having(_DEAD))
        if wanted is None or limit <= 0:
            return []
        (place,) = wanted.places
        pieces = {"place": sql.Identifier(place), "conditions": wanted.condition}
        known = minutes_tell(where)
        pieces["deaths"] = template("inspect/deaths" if known else "inspect/deaths_of")
        # One look at the jobs tells both how many there are and when they died: a second one took as long again.
        pieces["slice"] = fragments()["no slice" if known else "slice"]
        query = template("inspect/signatures").format(**pieces, order=fragments()["newest"])
        given = {"window": max(window, 1.0), "slices": max(slices, 1), "limit": limit}
        rows = await self._pool.rows(query, wanted.params | given)
        return [_info(row, max(slices, 1)) for row in rows]


def _info(row: Row, slices: int) -> SignatureInfo:
    signature, title, count, grown, places, deaths, first_seen, last, types, counts, queues, sample = row
    return SignatureInfo(
        signature=signature,
        title=title,
        count=count,
        grown=grown,
        trend=_trend(places or (), deaths or (), slices),
        first_seen=utc(first_seen),
        last_seen=utc(last),
        types=tuple(zip(types, counts, strict=True)),
        queues=tuple(sorted(queues)),
        sample_id=sample,
    )


def _trend(places: Sequence[int], deaths: Sequence[int], slices: int) -> tuple[int, ...]:
    trend = [0] * slices
    for place, number in zip(places, deaths, strict=True):
        trend[place] += number
    return tuple(trend)
