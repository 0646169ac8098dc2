"""How workers get jobs: ready ones by rank, each under a token that no job ever had."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from queue_core.announced import Announced
from queue_core.batching import until_full
from queue_core.job import Claim
from queue_core.rules import Rules, rules_of
from queue_core.store import ClaimRequest
from queue_core.stores.sqlite.counting import Counts
from queue_core.stores.sqlite.limiting import OpenQueue, admit, spend
from queue_core.stores.sqlite.link import Row, Transaction
from queue_core.stores.sqlite.sql import texts
from queue_core.stores.sqlite.timekeeping import keep_time

TOKENS = 1_000_000
"""Tokens that one commit on the disk allows to be given out by softer ones."""


class TokensUsedUp(Exception):
    """The claims since the last reservation have used its tokens."""


def reserve_tokens(transaction: Transaction) -> None:
    """Go on behind every token that may have been given out, and note on the disk how far one may go from there."""
    transaction.run("claim/reserve_tokens", (TOKENS,))


def take_tokens(transaction: Transaction, count: int) -> int:
    """Return the token behind which these are given out; the commit is on the disk, so it may reserve more."""
    ((token, ceiling),) = transaction.rows("claim/tokens")
    while token + count > ceiling:
        reserve_tokens(transaction)
        ((token, ceiling),) = transaction.rows("claim/tokens")
    transaction.run("claim/use_tokens", (count,))
    return int(token)


def claim(transaction: Transaction, request: ClaimRequest, rules: Rules) -> list[Claim]:
    """Move ready jobs of a queue that is not paused to running, best rank first, as many as its rules let start.

    Raises:
        TokensUsedUp: nothing was claimed; reserve tokens and ask again.
    """
    keep_time(transaction)
    found = transaction.rows("claim/open_queue", (request.queue,))
    if not found:
        return []
    queue, ruled = OpenQueue._make(found[0]), rules_of(rules, request.queue)
    if ruled.gated:
        request, queue = admit(transaction, queue, ruled, request)
    rows = _candidates(transaction, request, queue.number)
    if not rows:
        return []
    ((token, ceiling),) = transaction.rows("claim/tokens")
    if token + len(rows) > ceiling:
        raise TokensUsedUp
    transaction.run("claim/use_tokens", (len(rows),))
    # An attempt that ended before this one: its outcome may yet be handed in again.
    transaction.run_many("claim/keep_ending", [(row[0], row[11], row[12]) for row in rows if row[12] is not None])
    now, until = transaction.now, transaction.now + request.lease
    begin = len(rows) if request.begin is None else request.begin
    transaction.run_many(
        "claim/start",
        [
            (token + turn, request.worker, now, until, turn <= begin, request.number, row[0])
            for turn, row in enumerate(rows, 1)
        ],
    )
    if queue.counted:
        _count(transaction, queue.number, rows)
    if ruled.rate is not None:
        spend(transaction, queue, len(rows))
    return [_claim(row, token + turn, request.queue) for turn, row in enumerate(rows, 1)]


def _count(transaction: Transaction, queue_id: int, rows: list[Row]) -> None:
    counts = Counts()
    for row in rows:
        counts.move(queue_id, row[4], running=1, waiting=-1)
    counts.write(transaction)


def _candidates(transaction: Transaction, request: ClaimRequest, queue_id: int) -> list[Row]:
    if request.limit <= 0:
        return []
    limit = min(request.limit, TOKENS)
    params: dict[str, Any] = {"queue_id": queue_id, "limit": limit}
    if request.ids is not None:
        ids = texts(dict.fromkeys(request.ids))
        types = None if request.types is None else texts(request.types)
        return _until_full(transaction.each("claim/by_ids", params | {"ids": ids, "types": types}))
    if request.types is not None and len(request.types) == 1:
        return _until_full(transaction.each("claim/by_rank", params | {"type": request.types[0]}))
    best = best_ranks(transaction, queue_id, request.types, limit)
    return _until_full(transaction.each("claim/by_numbers", (texts(number for _, number in best),))) if best else []


def _until_full(rows: Iterator[Row]) -> list[Row]:
    return list(until_full(rows, lambda row: len(row[3])))


def best_ranks(
    transaction: Transaction, queue_id: int, types: Iterable[str] | None, limit: int
) -> list[tuple[int, int]]:
    """Return rank and number of the first ready jobs of a queue that have one of these types; None: whatever type."""
    if types is None:
        types = [type_ for (type_,) in transaction.rows("claim/ready_types", {"queue_id": queue_id})]
    found: list[tuple[int, int]] = []
    for type_ in types:
        found += transaction.rows("claim/ranks", (queue_id, type_, limit))
    found.sort()
    return found[:limit]


def _claim(row: Row, token: int, queue: str) -> Claim:
    _, job_id, type_, payload, priority, rank, retries, most, crashes, created_at, tags, _, _, key, losses = row
    return Claim(
        job_id,
        token,
        queue,
        type_,
        payload,
        priority,
        rank,
        retries,
        most,
        crashes,
        created_at,
        tags_of(tags),
        key,
        losses,
    )


def tags_of(text: str | None) -> tuple[str, ...]:
    """Return the tags in a row."""
    return () if text is None else tuple(json.loads(text))


def announced(transaction: Transaction) -> Announced:
    """Return the types that live workers have handlers for."""
    rows = transaction.rows("claim/live_types", (transaction.now,))
    return Announced((json.loads(queues), json.loads(types)) for queues, types in rows)
