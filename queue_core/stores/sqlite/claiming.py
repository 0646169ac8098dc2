"""How workers get jobs: ready ones by rank, each under a token that no job ever had."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from queue_core.job import Claim
from queue_core.store import ClaimRequest
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


def claim(transaction: Transaction, request: ClaimRequest) -> list[Claim]:
    """Move ready jobs of a queue that is not paused to running, best rank first.

    Raises:
        TokensUsedUp: nothing was claimed; reserve tokens and ask again.
    """
    keep_time(transaction)
    rows = _candidates(transaction, request)
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
        [(token + turn, request.worker, now, until, turn <= begin, row[0]) for turn, row in enumerate(rows, 1)],
    )
    return [_claim(row, token + turn, request.queue) for turn, row in enumerate(rows, 1)]


def _candidates(transaction: Transaction, request: ClaimRequest) -> list[Row]:
    found = transaction.rows("claim/open_queue", (request.queue,))
    if not found or request.limit <= 0:
        return []
    limit = min(request.limit, TOKENS)
    params: dict[str, Any] = {"queue_id": found[0][0], "limit": limit}
    if request.ids is not None:
        ids = texts(dict.fromkeys(request.ids))
        return transaction.rows("claim/by_ids", params | {"ids": ids, "types": texts(request.types)})
    if len(request.types) == 1:
        return transaction.rows("claim/by_rank", params | {"type": request.types[0]})
    best = best_ranks(transaction, found[0][0], request.types, limit)
    return transaction.rows("claim/by_numbers", (texts(number for _, number in best),)) if best else []


def best_ranks(transaction: Transaction, queue_id: int, types: Sequence[str], limit: int) -> list[tuple[int, int]]:
    """Return rank and number of the first ready jobs of a queue that have one of these types."""
    found: list[tuple[int, int]] = []
    for type_ in types:
        found += transaction.rows("claim/ranks", (queue_id, type_, limit))
    found.sort()
    return found[:limit]


def _claim(row: Row, token: int, queue: str) -> Claim:
    _, job_id, type_, payload, priority, rank, retries, most, crashes, created_at, tags, _, _ = row
    return Claim(
        job_id, token, queue, type_, payload, priority, rank, retries, most, crashes, created_at, tags_of(tags)
    )


def tags_of(text: str | None) -> tuple[str, ...]:
    """Return the tags in a row."""
    return () if text is None else tuple(json.loads(text))


def announced_types(transaction: Transaction) -> list[str]:
    """Return the types that live workers have handlers for."""
    rows: Sequence[Row] = transaction.rows("claim/live_types", (transaction.now,))
    return sorted({type_ for (types,) in rows for type_ in json.loads(types)})
