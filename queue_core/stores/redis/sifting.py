"""Which of many entries match a filter: by what their sets tell, else by the few fields that it asks for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from queue_core.filters import Filter, Term
from queue_core.matching import holds, matches
from queue_core.states import Status
from queue_core.stores.redis.link import Link, chunks
from queue_core.stores.redis.records import job_of, moment
from queue_core.stores.redis.walking import Entry

WHOLE = 20
"""Jobs whose whole payloads are read at a time; each may have a mebibyte."""
CUT = 4_000
"""Bytes of a payload's beginning from which on there may be more of it."""
VERDICTS = 10_000
"""Verdicts remembered; jobs are of few kinds as far as most filters go."""

_BY_ENTRY = frozenset({"age", "id"})
_FIELDS = {
    "status": "status",
    "type": "type",
    "error": "error",
    "signature": "signature",
    "tag": "tags",
    "priority": "priority",
    "retries": "retry_count",
    "worker": "worker",
}
_SEARCHED = ("type", "error", "tags", "<payload")


class Sieve:
    """One filter at one moment."""

    def __init__(self, link: Link, where: Filter, now: int) -> None:
        self._link = link
        self._where = where
        self._now = moment(now)
        self._by_entry = [term for term in where.terms if term.field in _BY_ENTRY]
        light = [term for term in where.terms if term.field in _FIELDS]
        self._light = Filter(tuple(light), where.trash)
        self._heavy = any(_of_payload(term.field) for term in where.terms)
        fields = ["status", "trashed_at", *(_FIELDS[term.field] for term in light), *(_SEARCHED if self._heavy else ())]
        self._names = list(dict.fromkeys(fields))
        self._verdicts: dict[tuple[Any, ...], bool] = {}

    def possible(self, entries: Sequence[Entry]) -> Sequence[Entry]:
        """Leave out what cannot match by its time or its id."""
        if not self._by_entry:
            return entries
        return [entry for entry in entries if all(_holds(entry, term, self._now) for term in self._by_entry)]

    async def sift(self, entries: Sequence[Entry]) -> Sequence[Entry]:
        """Return those that match."""
        entries = self.possible(entries)
        if not entries or self._decided(entries):
            return entries
        kept: list[Entry] = []
        for some in chunks(entries):
            kept += await self._sift(some)
        return kept

    def _decided(self, entries: Sequence[Entry]) -> bool:
        """Tell whether the sets that the entries come from say all there is to know."""
        if self._heavy or any(term.field != "status" for term in self._light.terms):
            return False
        return not self._light.terms or all(entry.status is not None for entry in entries)

    async def _sift(self, entries: Sequence[Entry]) -> list[Entry]:
        rows = await self._link.read(homes(entries), self._names)
        kept = [one for one in entries if (row := rows.get((one.queue, one.id))) and self._verdict(one.queue, row)]
        if not self._heavy:
            return kept
        payloads = await self._long_payloads(kept, rows)
        return [one for one in kept if self._search(one, rows[one.queue, one.id], payloads.get((one.queue, one.id)))]

    def _verdict(self, queue: str, row: Sequence[Any]) -> bool:
        key = (queue, *(value for name, value in zip(self._names, row, strict=True) if name != "<payload"))
        if key not in self._verdicts:
            if len(self._verdicts) >= VERDICTS:
                self._verdicts.clear()
            self._verdicts[key] = matches(job_of(queue, "", self._found(row)), self._light, self._now)
        return self._verdicts[key]

    def _found(self, row: Sequence[Any]) -> dict[str, Any]:
        return {"type": None} | {name.lstrip("<"): value for name, value in zip(self._names, row, strict=True)}

    async def _long_payloads(
        self, entries: Sequence[Entry], rows: Mapping[tuple[str, str], Sequence[Any]]
    ) -> dict[tuple[str, str], str]:
        """Return the whole payloads of those of which only the beginning was read."""
        place = self._names.index("<payload")
        long = [one for one in entries if len((rows[one.queue, one.id][place] or "").encode()) >= CUT]
        found: dict[tuple[str, str], str] = {}
        for some in chunks(long, WHOLE):
            read = await self._link.read(homes(some), ["status", "payload"])
            found.update({key: payload or "" for key, (_, payload) in read.items()})
        return found

    def _search(self, entry: Entry, row: Sequence[Any], payload: str | None) -> bool:
        found = self._found(row)
        if payload is not None:
            found["payload"] = payload
        job = job_of(entry.queue, entry.id, found)
        return all(holds(job, term, self._now) for term in self._where.terms if _of_payload(term.field))


def homes(entries: Iterable[Entry]) -> dict[str, list[str]]:
    """Return the ids of entries by their queues."""
    found: dict[str, list[str]] = {}
    for entry in entries:
        found.setdefault(entry.queue, []).append(entry.id)
    return found


def _of_payload(field: str) -> bool:
    return field == "text" or field.startswith("payload")


def _holds(entry: Entry, term: Term, now: Any) -> bool:
    known = {"status": Status.QUEUED, "type": "", "updated_at": str(entry.at)}
    return holds(job_of(entry.queue, entry.id, known), term, now)
