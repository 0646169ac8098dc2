"""Dead jobs in groups of the same error."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import floor
from typing import Any

from queue_core.filters import Filter, Term
from queue_core.inspection import SignatureInfo, minutes_tell
from queue_core.states import Status
from queue_core.stores.sqlite.conditions import Conditions, conditions
from queue_core.stores.sqlite.file import SqliteFile
from queue_core.stores.sqlite.link import Transaction
from queue_core.stores.sqlite.records import moment

_DEAD = Term("status", "=", Status.DEAD.value)


@dataclass(slots=True)
class _Group:
    """The jobs of one signature that the filter chose."""

    signature: str
    trend: list[int]
    count: int = 0
    last: float = 0.0
    types: Counter[str] = field(default_factory=Counter)
    queues: set[str] = field(default_factory=set)
    queue_ids: set[int] = field(default_factory=set)


class Signatures:
    """See queue_core.inspection.Inspector for what the method does."""

    _file: SqliteFile

    async def signatures(self, where: Filter, window: float, slices: int, limit: int) -> list[SignatureInfo]:
        """Return groups of dead jobs by error.

        A minute is the smallest time that growth is known for: it counts with the slice that it begins in.
        """
        seconds, slices = max(window, 1.0), max(slices, 1)

        def read(transaction: Transaction) -> list[SignatureInfo]:
            wanted = conditions(where.having(_DEAD), transaction.now)
            groups = _groups(transaction, wanted, slices)
            _grow(transaction, None if minutes_tell(where) else wanted, groups, seconds, slices)
            ordered = sorted(groups.values(), key=lambda group: (-sum(group.trend), -group.count, group.signature))
            return [_info(transaction, wanted, group) for group in ordered[: max(limit, 0)]]

        return await self._file.look(read)


def _groups(transaction: Transaction, wanted: Conditions, slices: int) -> dict[str, _Group]:
    groups: dict[str, _Group] = {}
    for place in wanted.places:
        params = wanted.params | {"place": place}
        for signature, queue_id, queue, type_, n, last in transaction.records(wanted.query("inspect/groups"), params):
            group = groups.setdefault(signature, _Group(signature, [0] * slices))
            group.count += n
            group.last = max(group.last, last)
            group.types[type_] += n
            group.queues.add(queue)
            group.queue_ids.add(queue_id)
    return groups


def _grow(
    transaction: Transaction, wanted: Conditions | None, groups: dict[str, _Group], seconds: float, slices: int
) -> None:
    """Add the deaths of each minute; `wanted`: only of jobs that match."""
    since = transaction.now - seconds
    first = floor(since / 60)
    rows: Iterable[Sequence[Any]]
    if wanted is None:
        rows = transaction.rows("inspect/deaths", (first,))
    else:
        params = wanted.params | {"place": wanted.places[0], "since": first * 60.0} if wanted.places else None
        rows = [] if params is None else map(tuple, transaction.records(wanted.query("inspect/deaths_of"), params))
    deaths: dict[str, list[tuple[int, int, int]]] = defaultdict(list)
    for minute, signature, queue_id, n in rows:
        if minute * 60 + 60 > since:
            deaths[signature].append((minute, queue_id, n))
    for group in groups.values():
        for minute, queue_id, n in deaths[group.signature]:
            if queue_id in group.queue_ids:
                place = int((minute * 60 - since) * slices / seconds)
                group.trend[min(max(place, 0), slices - 1)] += n


def _info(transaction: Transaction, wanted: Conditions, group: _Group) -> SignatureInfo:
    params: dict[str, Any] = wanted.params | {"place": wanted.places[0], "signature": group.signature}
    named = transaction.rows("inspect/signature", (group.signature,))
    title, first_seen = named[0] if named else ("", group.last)
    return SignatureInfo(
        signature=group.signature,
        title=title,
        count=group.count,
        grown=sum(group.trend),
        trend=tuple(group.trend),
        first_seen=moment(first_seen),
        last_seen=moment(group.last),
        types=tuple(sorted(group.types.items(), key=lambda pair: (-pair[1], pair[0]))),
        queues=tuple(sorted(group.queues)),
        sample_id=transaction.records(wanted.query("inspect/sample"), params)[0]["id"],
    )
