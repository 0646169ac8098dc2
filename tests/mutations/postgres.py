"""Mutants of the store on PostgreSQL."""

from __future__ import annotations

from tests.mutations.mutant import STORES, Mutant, Patch, on

SQL = f"{STORES}/postgres/sql"


def pg(name: str, module: str, block: str, tests: str, *patches: Patch) -> Mutant:
    """Return a mutant that the conformance suite has to see."""
    paths = tuple(f"conformance/test_{test}.py" for test in tests.split())
    return Mutant(f"postgres-{name}", f"{SQL}/{module}.sql", patches, paths, on("postgres"), block)


FENCE: tuple[Patch, ...] = (
    (" AND l.token = i.token", ""),
    (" AND j.last_token < i.token", ""),
)
POSTGRES = (
    pg("fence-of-finish", "settle", "finish", "stale", *FENCE),
    pg("fence-of-requeue", "settle", "requeue", "stale", *FENCE),
    pg("fence-of-bury", "settle", "bury", "stale", *FENCE),
    pg(
        "fence-of-heartbeats",
        "heartbeat",
        "beat",
        "stale extend",
        ("WHERE id = i.id AND token = i.token FOR", "WHERE id = i.id FOR"),
    ),
    pg("cancel-request-is-forgotten", "settle", "requeue", "cancel settle", (" AND NOT l.cancel", "")),
    pg(
        "reclaim-of-living-leases",
        "settle",
        "reclaim",
        "reclaim",
        ("WHERE expires_at < now() AND ctid", "WHERE ctid"),
        ("WHERE expires_at < now() AND id = ANY", "WHERE id = ANY"),
        (" AND expires_at < now() RETURNING id", " RETURNING id"),
    ),
    pg(
        "blame-before-the-start",
        "settle",
        "reclaim",
        "begin",
        ("losses + started::int AS losses", "losses + 1 AS losses"),
    ),
    pg("no-blame", "settle", "reclaim", "reclaim begin", ("losses + started::int AS losses", "losses")),
    pg("bound-of-losses", "settle", "reclaim", "reclaim", ("j.losses + 1 >= %(bound)s", "j.losses >= %(bound)s")),
    pg(
        "what-had-not-begun-is-buried",
        "settle",
        "reclaim",
        "begin",
        ("WHEN e.started AND j.losses + 1 >=", "WHEN j.losses + 1 >="),
    ),
    pg(
        "cancel-of-a-later-attempt",
        "change",
        "cancel",
        "operations_overtaken",
        ("(i.token IS NULL OR l.token = i.token) AND NOT l.cancel", "NOT l.cancel"),
    ),
    pg(
        "retry-of-a-later-end",
        "change",
        "retry",
        "operations_overtaken",
        (" AND h.status = 'completed' AND (i.token IS NULL OR h.last_token = i.token)", " AND h.status = 'completed'"),
    ),
    pg(
        "ends-of-other-attempts-count-as-repeated",
        "settle",
        "settled_already",
        "stale",
        ("h.id = i.id AND h.last_token = i.token AND h.status::text", "h.id = i.id AND h.status::text"),
    ),
    Mutant(
        "postgres-promoted-before-it-is-due",
        f"{SQL}/ordering.sql",
        ((" AND j.run_at <= now()", ""),),
        ("postgres/rules/test_ordering_races.py",),
        keyword="put_off",
        block="promote_keyed",
    ),
    Mutant(
        "postgres-retries-let-others-pass",
        f"{SQL}/ordering.sql",
        (("(true, 'retrying'), ", ""),),
        ("postgres/rules/test_passed_keys.py",),
        block="raise_watermark",
    ),
    pg(
        "cancel-of-what-had-not-begun-is-its-worker-s",
        "settle",
        "reclaim",
        "stale",
        ("CASE WHEN started THEN worker END, created_at", "worker, created_at"),
    ),
    pg("reclaim-ignores-cancels", "settle", "reclaim", "reclaim cancel", (" WHEN e.cancel THEN 'cancelled'", "")),
    pg(
        "all-deaths-are-poison",
        "settle",
        "bury",
        "settle write_off stale",
        ("crashes + (kind = 'poison')::int", "crashes + 1"),
    ),
    pg(
        "retries-are-not-counted",
        "settle",
        "requeue",
        "settle",
        ("retry_count + retry::int AS retry_count", "retry_count"),
    ),
    pg(
        "retry-without-its-delay",
        "settle",
        "requeue",
        "settle promote",
        ("now() + make_interval(secs => delay)\n                WHEN", "now()\n                WHEN"),
    ),
    pg(
        "released-jobs-lose-their-place",
        "settle",
        "requeue",
        "settle order",
        ("coalesce(new_seq, seq) AS seq,", "nextval('{schema}.job_seq') AS seq,"),
        (
            "(127 - priority)::bigint << 45 | coalesce(new_seq, seq)",
            "(127 - priority)::bigint << 45 | nextval('{schema}.job_seq')",
        ),
    ),
    pg(
        "last-jobs-first",
        "claim",
        "by_rank",
        "claim order",
        ("ORDER BY j.rank\n            LIMIT", "ORDER BY j.rank DESC\n            LIMIT"),
    ),
    pg("paused-queues-give", "claim", "by_rank", "pause claim", (" AND q.paused_at IS NULL", "")),
    pg("nominated-of-paused-queues", "claim", "by_ids", "pause claim", (" AND q.paused_at IS NULL", "")),
    pg(
        "gate-of-ordering-keys",
        "claim",
        "by_ids",
        "ordering",
        ("       AND (j.ordering_key IS NULL OR j.admitted)\n", ""),
    ),
    pg(
        "types-of-others",
        "claim",
        "by_ids",
        "claim",
        ("       AND (%(types)s::text[] IS NULL OR j.type = ANY (%(types)s::text[]))\n", ""),
    ),
    pg(
        "heads-of-types-of-none",
        "claim",
        "heads",
        "head",
        ("          AND (j.type = ANY (k.types) OR '' = ANY (k.types))\n", ""),
    ),
    pg(
        "strays-of-other-claims",
        "heartbeat",
        "strays",
        "write_off",
        (" AND l.claim = ANY (%(claims)s::int[])", " AND %(claims)s::int[] IS NOT NULL"),
    ),
    pg("ranks-without-priority", "insert", "jobs", "insert order", ("(127 - priority)::bigint << 45 | seq", "seq")),
    pg(
        "delayed-jobs-are-ready",
        "insert",
        "jobs",
        "insert promote",
        (
            "CASE WHEN due <= now() THEN (127 - priority)::bigint << 45 | seq END",
            "(127 - priority)::bigint << 45 | seq",
        ),
    ),
    pg(
        "closed-queues-take",
        "insert",
        "jobs",
        "closed",
        (" AND q.closed_at IS NOT NULL", " AND false"),
        (" AND q.closed_at IS NULL", ""),
    ),
    pg("queues-have-no-limit", "capacity", "count", "limits", ("waiting + n <= capacity", "true")),
    pg(
        "lost-jobs-take-no-room",
        "settle",
        "reclaim",
        "limits",
        ("SELECT r.queue_id, b.band, count(*)", "SELECT r.queue_id, b.band, 0"),
    ),
    pg("spent-capacity-is-free", "capacity", "spend", "limits", ("free >= n FROM available", "true FROM available")),
    pg(
        "keys-let-all-through",
        "ordering",
        "unblock_next",
        "ordering",
        ("LIMIT greatest(0, g.free)", "LIMIT 1000 + g.free"),
    ),
    pg(
        "keys-turn-round",
        "ordering",
        "unblock_next",
        "ordering",
        (
            "ORDER BY j.seq\n                          LIMIT greatest",
            "ORDER BY j.seq DESC\n                          LIMIT greatest",
        ),
    ),
    pg(
        "dead-jobs-expire-at-once",
        "upkeep",
        "expire_dead",
        "retention",
        ("died_at < now() - make_interval(secs => %(seconds)s)", "%(seconds)s IS NOT NULL"),
    ),
    pg(
        "expired-jobs-are-not-counted",
        "upkeep",
        "empty_trash",
        "conservation retention tallies",
        ("count(*) FROM removed GROUP BY 1, 2", "0 FROM removed GROUP BY 1, 2"),
    ),
    pg(
        "leases-end-at-once",
        "heartbeat",
        "beat",
        "extend",
        ("now() + make_interval(secs => %(lease)s)", "now() + make_interval(secs => 0 * %(lease)s)"),
    ),
    pg(
        "lone-rank-without-priority",
        "insert",
        "job",
        "insert order",
        ("(127 - priority)::bigint << 45 | seq END", "seq END"),
    ),
    pg(
        "lone-delayed-job-is-ready",
        "insert",
        "job",
        "insert promote",
        (
            "CASE WHEN due <= now() THEN (127 - priority)::bigint << 45 | seq END",
            "(127 - priority)::bigint << 45 | seq",
        ),
    ),
    pg("closed-queues-take-one", "insert", "job", "closed", (" AND q.closed_at IS NULL", "")),
    Mutant(
        "postgres-epoch",
        f"{SQL}/claim.sql",
        (("(SELECT epoch FROM {schema}.lease_epoch_live)::bigint << 40 | nextval", "1::bigint << 40 | nextval"),),
        ("postgres/traps/test_traps_tokens.py",),
        block="by_rank",
    ),
    Mutant(
        "postgres-ends-that-hand-over-do-not-wait-for-the-disk",
        f"{STORES}/postgres/claim.py",
        (('"synchronous": None', '"synchronous": "off"'),),
        ("postgres/traps/test_traps_commits.py",),
    ),
    Mutant(
        "postgres-ends-that-are-undone-do-not-count",
        f"{STORES}/postgres/claim.py",
        (("running = copy(self.running)", "running = self.running"),),
        ("postgres/rules/test_starts.py",),
    ),
)
