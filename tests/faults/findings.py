"""The checks of every fault test: the ledger against what the store and Redis hold once nothing moves any more."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import psycopg
import redis

from tests.faults.ledger import Ledger

EVERYTHING = """
select id::text, 'unfinished', last_token, tags, null::text from jobs
union all select id::text, 'dead', last_token, tags, null from jobs_dead
union all select id::text, status::text, last_token, tags, result from job_history
"""
TOTALS = """
select outcome, sum(n)::int from (select outcome, n from tallies union all select outcome, n from tally_deltas) t
 group by 1
"""
KEYS = {"pending": "zset", "scheduled": "zset", "generation": "string", "event_seq": "string", "waiters": "zset"}
"""Every key of a queue; there is none for each job."""


@dataclass
class Findings:
    """What was found; `problems` has to be empty."""

    jobs: int = 0
    unfinished: int = 0
    # ids that enqueue has returned and the store does not know
    lost: set[str] = field(default_factory=set)
    # starts of handlers beyond one for each job
    extra_runs: int = 0
    # jobs whose end was not written by their last attempt
    stale_writes: set[str] = field(default_factory=set)
    stale_refused: int = 0
    problems: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"{self.jobs} jobs, {len(self.lost)} lost, {self.extra_runs} extra runs, "
            f"{len(self.stale_writes)} stale writes, {self.stale_refused} refused"
        )


@dataclass(frozen=True)
class Row:
    """One job in one of the store's tables."""

    id: str
    place: str
    token: int
    tags: list[str] | None
    result: str | None


def examine(ledger: Ledger, postgres_url: str, crashes_of_the_store: int = 0) -> Findings:
    """Compare the ledger with the store.

    `crashes_of_the_store`: how often the server itself was killed, and with it the last claims, which it had not
    written down: their jobs run again under a token of a higher epoch.
    """
    with psycopg.connect(postgres_url, options="-c timezone=UTC") as connection:
        rows = [Row(*row) for row in connection.execute(EVERYTHING)]
        totals: dict[str, int] = dict(connection.execute(TOTALS).fetchall())
        leases = connection.execute("select count(*) from leases").fetchone()
    found = Findings(jobs=len(rows), stale_refused=len(ledger.refused))
    _conserved(found, ledger, rows, totals)
    _final_by_the_last(found, ledger, rows)
    _explained(found, ledger, crashes_of_the_store)
    found.unfinished = sum(row.place == "unfinished" for row in rows)
    if leases not in {(found.unfinished,), (0,)}:
        found.problems.append(f"{leases} leases for {found.unfinished} unfinished jobs")
    return found


def _conserved(found: Findings, ledger: Ledger, rows: list[Row], totals: dict[str, int]) -> None:
    """Every enqueued job is in one place, nothing else is anywhere, and the totals say so."""
    places = Counter(row.id for row in rows)
    twice = [job_id for job_id, count in places.items() if count > 1]
    if twice:
        found.problems.append(f"in more than one place: {twice}")
    found.lost = ledger.ids - places.keys()
    if found.lost:
        found.problems.append(f"lost: {sorted(found.lost)}")
    tags = Counter(tag for row in rows for tag in row.tags or ())
    for tag, count in ledger.open_batches.items():
        if tags[tag] not in {0, count}:
            found.problems.append(f"{tags[tag]} of a batch of {count} were written")
    known = ledger.ids | {row.id for row in rows if set(row.tags or ()) & ledger.open_batches.keys()}
    if strangers := places.keys() - known:
        found.problems.append(f"enqueued by nobody: {sorted(strangers)}")
    for outcome in ("completed", "cancelled", "dead"):
        count = sum(row.place == outcome for row in rows)
        if totals.get(outcome, 0) != count:
            found.problems.append(f"{count} {outcome} jobs, but a total of {totals.get(outcome, 0)}")
    if totals.get("enqueued", 0) != len(places):
        found.problems.append(f"{len(places)} jobs, but {totals.get('enqueued', 0)} counted as enqueued")


def _final_by_the_last(found: Findings, ledger: Ledger, rows: list[Row]) -> None:
    """One token of each job is final, and it is the highest that was given out; the result is that attempt's."""
    tokens = ledger.tokens()
    ends = {(run.id, run.token) for run in ledger.ends}
    for row in rows:
        if row.place not in {"completed", "dead"}:
            continue
        result: Any = json.loads(row.result or "null")
        late = row.token < max(tokens.get(row.id, [0]))
        foreign = row.place == "completed" and (result != {"token": row.token} or (row.id, row.token) not in ends)
        if late or foreign:
            found.stale_writes.add(row.id)
            found.problems.append(
                f"{row.id} is {row.place} by {row.token}, started with {tokens.get(row.id)}: {result}"
            )
        if (row.id, row.token) in ledger.refused or (row.id, row.token) in ledger.back:
            found.problems.append(f"{row.id} is {row.place} by {row.token}, which was refused or given back")


def _explained(found: Findings, ledger: Ledger, crashes_of_the_store: int) -> None:
    """No attempt was started twice, and after each but the last the store gave the job back."""
    starts = Counter((run.id, run.token) for run in ledger.starts)
    if again := [key for key, count in starts.items() if count > 1]:
        found.problems.append(f"started twice under one token: {again}")
    for job_id, tokens in ledger.tokens().items():
        found.extra_runs += len(tokens) - 1
        for token, following in pairwise(tokens):
            lost_with_the_store = crashes_of_the_store > 0 and token >> 40 < following >> 40
            if (job_id, token) not in ledger.back and not lost_with_the_store:
                found.problems.append(f"{job_id} ran again although attempt {token} had not been given back")


def strange_keys(redis_url: str, prefix: str, queue: str = "default") -> list[str]:
    """Return the keys that are none of those that a queue has, or hold something else."""
    with redis.Redis.from_url(redis_url, decode_responses=True) as client:
        found = {key: client.type(key) for key in client.scan_iter(f"{prefix}*", count=1000)}
    allowed = {f"{prefix}{{{queue}}}:{name}": type_ for name, type_ in KEYS.items()}
    allowed[f"{prefix}{{}}:event_seq"] = "string"  # of events that belong to no queue
    pair = ("identity", "identity:confirmed", "identity:other_database", "identity:checked")
    allowed |= {f"{prefix}{name}": "string" for name in ("generation", *pair)}
    return [f"{key} ({type_})" for key, type_ in found.items() if allowed.get(key) != type_]


def candidates(redis_url: str, prefix: str, queue: str = "default") -> int:
    """Return how many candidates Redis holds."""
    with redis.Redis.from_url(redis_url) as client:
        return int(client.zcard(f"{prefix}{{{queue}}}:pending"))
