"""What operators have set of signatures, the deaths and runs by release that states follow from, and saved filters."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from queue_core.model.filters.saved import SavedFilter, saved_of, saved_text
from queue_core.model.triage.signatures import (
    SignatureDeaths,
    SignatureFacts,
    StoredFacts,
    TypeRuns,
    facts_of,
    facts_text,
    newest_runs,
    resolved_of,
)
from queue_core.redis.scripts import Call
from queue_core.stores.redis.session import RedisLink, chunks, microseconds

SIGNATURES_PER_COMMAND = 200
"""Signatures of one command."""


async def read_facts(link: RedisLink, signatures: Sequence[str] | None) -> StoredFacts:
    """Return what is set of these signatures, or of all."""
    commands = link.batch()
    commands.time()
    parts = [] if signatures is None else list(chunks(signatures, SIGNATURES_PER_COMMAND))
    if signatures is None:
        commands.hgetall(link.keys.signature_states)
    for part in parts:
        commands.hmget(link.keys.signature_states, list(part))
    time, *found = await link.send(commands)
    texts = dict(found[0]) if signatures is None else {}
    for part, some in zip(parts, found if parts else (), strict=True):
        texts |= {signature: text for signature, text in zip(part, some, strict=True) if text is not None}
    facts = {signature: facts_of(text.partition(" ")[2]) for signature, text in texts.items()}
    return StoredFacts(microseconds(time) / 1e6, facts)


async def read_deaths(link: RedisLink, signatures: Sequence[str]) -> list[SignatureDeaths]:
    """Return the deaths of these signatures by release, over all queues."""
    names, _ = await link.queues_and_time()
    places = [(name, part) for name in names for part in chunks(signatures, SIGNATURES_PER_COMMAND)]
    commands = link.batch()
    for name, part in places:
        commands.hmget(link.keys.of(name, "signature_releases"), [*part, *(f"{one} resolved" for one in part)])
    sums: dict[tuple[str, int], list[int]] = {}
    backs: dict[tuple[str, int], list[int]] = {}
    for (_, part), texts in zip(places, await link.send(commands) if places else (), strict=True):
        for signature, text, kept in zip(part, texts[: len(part)], texts[len(part) :], strict=True):
            # A queue that was not there when it was resolved has no deaths from before.
            back = None if kept is None else _returns(kept)
            for release, died, first, last, started_at in _entries(text, 5):
                sum_ = sums.setdefault((signature, release), [0, first, last, started_at])
                sum_[:] = sum_[0] + died, min(sum_[1], first), max(sum_[2], last), max(sum_[3], started_at)
                found = first if back is None else back.get(release)
                backs.setdefault((signature, release), []).extend([] if found is None else [found])
    return [
        SignatureDeaths(*key, died, first / 1e6, last / 1e6, started_at / 1e6, min(backs[key], default=0) / 1e6)
        for key, (died, first, last, started_at) in sorted(sums.items())
    ]


def _returns(kept: str) -> dict[int, int]:
    """Return the first death on each release since a signature was last resolved, in microseconds."""
    at = kept.partition(":")[0]
    return {release: first for since, release, first in _entries(kept, 3) if str(since) == at}


async def read_titles(link: RedisLink, beginning: str, limit: int) -> dict[str, str]:
    """Return the titles of errors whose signatures begin so, over all queues."""
    names, _ = await link.queues_and_time()
    commands = link.batch()
    for name in names:
        commands.hgetall(link.keys.of(name, "signatures"))
    found: dict[str, str] = {}
    for of_queue in await link.send(commands) if names else ():
        found |= {one: text.partition(" ")[2] for one, text in of_queue.items() if one.startswith(beginning)}
    return dict(sorted(found.items())[:limit])


async def read_runs(link: RedisLink, types: Sequence[str], newest: int) -> list[TypeRuns]:
    """Return what became of the jobs of some types on their newest releases, over all queues."""
    names, _ = await link.queues_and_time()
    places = [(name, part) for name in names for part in chunks(types, SIGNATURES_PER_COMMAND)]
    commands = link.batch()
    for name, part in places:
        commands.hmget(link.keys.of(name, "type_releases"), list(part))
    sums: defaultdict[tuple[str, int], list[int]] = defaultdict(lambda: [0, 0, 0])
    for (_, part), texts in zip(places, await link.send(commands) if places else (), strict=True):
        for type_, text in zip(part, texts, strict=True):
            for release, completed, dead, last in _entries(text, 4):
                sum_ = sums[type_, release]
                sum_[:] = sum_[0] + completed, sum_[1] + dead, max(sum_[2], last)
    ran = (TypeRuns(*key, completed, dead, last / 1e6) for key, (completed, dead, last) in sums.items())
    return newest_runs(ran, newest)


def _entries(text: str | None, width: int) -> Iterator[list[int]]:
    for entry in (text or "").split():
        parts = entry.split(":")
        if len(parts) == width and all(part.isdecimal() for part in parts):
            yield [int(part) for part in parts]


async def set_facts(link: RedisLink, signature: str, before: SignatureFacts, after: SignatureFacts) -> bool:
    """Write what is set of a signature, if it is as `before`."""
    args = [signature, before.changed_by, f"{after.changed_by} {facts_text(after)}"]
    if not await link.run("set_facts", [link.keys.signature_states], args):
        return False
    resolved = resolved_of(after)
    if resolved is not None:
        names, _ = await link.queues_and_time()
        given = [signature, resolved.us, int(resolved.by_begin)]
        places = [link.keys.of(name, "signature_releases") for name in names]
        await link.run_many([Call("note_resolved", [place], given) for place in places])
    return True


async def read_filters(link: RedisLink) -> list[SavedFilter]:
    """Return the saved filters by name."""
    commands = link.batch()
    commands.hgetall(link.keys.saved_filters)
    (found,) = await link.send(commands)
    return [saved_of(name, text.partition(" ")[2]) for name, text in sorted(found.items())]


async def set_filter(link: RedisLink, name: str, before: int, after: SavedFilter | None) -> bool:
    """Write a saved filter, or forget it, if it is as `before`."""
    stored = "" if after is None else f"{after.changed_by} {saved_text(after)}"
    return bool(await link.run("set_filter", [link.keys.saved_filters], [name, before, stored]))
