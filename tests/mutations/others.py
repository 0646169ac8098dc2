"""Mutants of SQLite and of memory."""

from __future__ import annotations

from tests.mutations.mutant import STORES, Mutant, Patch


def conformance(mode: str, name: str, file: str, tests: str, *patches: Patch, block: str = "") -> Mutant:
    """Return a mutant of a store that the conformance suite has to see."""
    paths = tuple(f"conformance/test_{test}.py" for test in tests.split())
    return Mutant(f"{mode}-{name}", f"{STORES}/{mode}/{file}", patches, paths, mode, block)


SQLITE = (
    Mutant(
        "sqlite-more-messages-wait-for-the-next-commit",
        f"{STORES}/sqlite/delivery.py",
        (("version if len(rows) < MESSAGES_PER_READ else (0, 0)", "version"),),
        ("sqlite/test_delivery.py",),
        "read_on_at_once",
    ),
    conformance("sqlite", "fence", "settle.py", "stale", (" or job.token != outcome.token:", ":")),
    conformance(
        "sqlite",
        "repeated-outcomes",
        "settle.py",
        "stale concurrency",
        ("        if last_outcome != outcome.kind:\n", "        if True:\n"),
    ),
    conformance(
        "sqlite",
        "cancel-request-is-forgotten",
        "settle.py",
        "cancel settle",
        ("instead = bool(job.cancel) and", "instead = False and"),
    ),
    conformance(
        "sqlite",
        "blame-before-the-start",
        "settle.py",
        "begin",
        ("self._take_back(job) if job.started else self._release_unstarted(job)", "self._take_back(job)"),
    ),
    conformance(
        "sqlite",
        "bound-of-losses",
        "settle.py",
        "reclaim",
        ("        if losses >= self._bound:", "        if losses > self._bound:"),
    ),
    conformance(
        "sqlite",
        "reclaim-of-living-leases",
        "sql/settle.sql",
        "reclaim",
        ("AND j.expires_at < ?", "AND ? > 0"),
        block="expired",
    ),
    conformance(
        "sqlite",
        "last-jobs-first",
        "sql/claim.sql",
        "claim order",
        (" ORDER BY j.rank\n", " ORDER BY j.rank DESC\n"),
        block="by_rank",
    ),
    Mutant(
        "sqlite-tokens-of-lost-claims",
        f"{STORES}/sqlite/sql/claim.sql",
        (("SET token = max(token_ceiling, :microseconds), token_ceiling", "SET token_ceiling"),),
        ("sqlite/test_tokens.py",),
        block="reserve_tokens",
    ),
    Mutant(
        "sqlite-claims-behind-ends-reserve-no-tokens",
        f"{STORES}/sqlite/settle.py",
        (("    if not reserved:\n        reserve_tokens(transaction)\n", ""),),
        ("sqlite/test_tokens.py",),
    ),
    Mutant(
        "sqlite-reservations-do-not-wait-for-the-disk",
        f"{STORES}/sqlite/store.py",
        (("self._file.write(claim.reserve_tokens)", "self._file.write_soft(claim.reserve_tokens)"),),
        ("sqlite/test_tokens.py",),
    ),
    Mutant(
        "sqlite-clock-moves-unique-keys",
        f"{STORES}/sqlite/claim.py",
        (('    "move_unique",\n', ""),),
        ("sqlite/test_clock.py",),
    ),
    Mutant(
        "sqlite-clock-moves-rates",
        f"{STORES}/sqlite/claim.py",
        (('    "move_refills",\n', ""),),
        ("sqlite/test_clock.py",),
    ),
    Mutant(
        "sqlite-clock",
        f"{STORES}/sqlite/claim.py",
        (("        if abs(jump) > CLOCK_TOLERANCE:\n", "        if False:\n"),),
        ("sqlite/test_clock.py",),
    ),
    conformance(
        "sqlite",
        "lost-attempts-ended-as-the-ones-before",
        "sql/claim.sql",
        "stale",
        ("token = ?1, last_outcome = NULL,", "token = ?1,"),
        block="start",
    ),
    conformance(
        "sqlite",
        "changes-forget-how-attempts-ended",
        "change.py",
        "stale",
        ("for job in jobs if job.last_outcome])", "for job in jobs if False])"),
    ),
    conformance(
        "sqlite",
        "deaths-in-the-trash-are-of-its-deletion",
        "dialect.py",
        "list_filters",
        ('{"died =": "trashed died ="} if where.trash else {}', "{}"),
    ),
    conformance(
        "sqlite",
        "what-had-not-begun-is-cancelled-uncounted",
        "settle.py",
        "begin",
        (
            '            self._tally_writer.note(job.queue_id, job.type, "cancelled")\n'
            "            unblocked = self._release_key(job)\n"
            '            self._transaction.run("settle/cancel", (now, None, *failure_columns(None)',
            "            unblocked = self._release_key(job)\n"
            '            self._transaction.run("settle/cancel", (now, None, *failure_columns(None)',
        ),
    ),
    conformance(
        "sqlite",
        "keys-admit-by-priority",
        "sql/ordering.sql",
        "ordering",
        (" ORDER BY seq\n", " ORDER BY priority DESC, seq\n"),
        block="next_jobs",
    ),
    conformance(
        "sqlite",
        "results-are-kept-as-long-as-their-jobs",
        "sql/settle.sql",
        "retention",
        ("CASE WHEN j.finished_at > :since THEN j.result END", "j.result"),
        block="worker_results",
    ),
    conformance(
        "sqlite",
        "operations-of-a-signature-never-end",
        "sql/operations.sql",
        "operations",
        (" AND (o.finished_at IS NULL OR NOT :unfinished)", " AND :unfinished IN (0, 1)"),
        block="by_signature",
    ),
    conformance(
        "sqlite",
        "members-of-the-last-step-are-pending",
        "sql/operations.sql",
        "operations_ramp",
        ("position > (SELECT done", "position >= (SELECT done"),
        block="pending",
    ),
    conformance(
        "sqlite",
        "losses-of-what-is-released-do-not-count",
        "settle.py",
        "settle",
        ("job.rank, job.number, _lost(failure),", "job.rank, job.number, 0,"),
    ),
    Mutant(
        "sqlite-removed-jobs-leave-their-unique-keys",
        f"{STORES}/sqlite/upkeep.py",
        (
            (
                "    forget(transaction, [(queue_id, unique_key, number) "
                "for number, queue_id, _, _, _, _, unique_key in rows])\n",
                "",
            ),
        ),
        ("sqlite/test_operations.py",),
        keyword="leave_nothing",
    ),
    conformance(
        "sqlite",
        "what-was-cancelled-since-was-cancelled-at-its-end",
        "settle.py",
        "stale",
        (" and job.worker is not None", ""),
    ),
    conformance(
        "sqlite",
        "what-ran-before-there-were-rules-does-not-count",
        "sql/capacity.sql",
        "gated",
        ("count(*) FILTER (WHERE state = 'running') AS running", "0 AS running"),
        block="begin",
    ),
    Mutant(
        "sqlite-clock-moves-rates-of-operations",
        f"{STORES}/sqlite/claim.py",
        (('    "move_operations",\n', ""),),
        ("sqlite/test_clock.py",),
        keyword="its_rate",
    ),
    conformance(
        "sqlite",
        "retries-elsewhere-keep-the-keys-that-they-held",
        "change.py",
        "operations_moving",
        ("[old for old, new in changes if old is not new])\n    return", "[])\n    return"),
    ),
    conformance(
        "sqlite",
        "retries-elsewhere-take-room-where-they-were",
        "change.py",
        "operations_moving",
        ("[new for _, new in changes], 1)", "[old for old, _ in changes], 1)"),
    ),
    conformance(
        "sqlite",
        "what-waited-before-there-were-limits-has-two-bands",
        "sql/capacity.sql",
        "limits",
        ("priority >= :normal AND priority < :high", "priority >= :normal"),
        block="begin",
    ),
    conformance(
        "sqlite",
        "deaths-take-the-last-completion-of-a-release-away",
        "sql/totals.sql",
        "signature_states",
        ("last_at = max(last_at, excluded.last_at)", "last_at = excluded.last_at"),
        block="tally_runs",
    ),
    conformance(
        "sqlite",
        "what-ends-with-its-worker-takes-room",
        "settle.py",
        "limits",
        ("running=-1, waiting=back.rank is not None)", "running=-1, waiting=True)"),
    ),
    conformance(
        "sqlite",
        "begins-that-come-with-progress-are-not-noted",
        "sql/claim.sql",
        "begin",
        ("started = max(started, ?)", "started = min(started, ?)"),
        block="worker_renew_progress",
    ),
    conformance(
        "sqlite",
        "what-had-not-begun-is-lost-when-it-is-cancelled",
        "settle.py",
        "begin",
        (
            "(now, None, *failure_columns(None), job.losses, job.number)",
            "(now, None, *failure_columns(None), job.losses + 1, job.number)",
        ),
    ),
)
MEMORY = (
    conformance(
        "memory",
        "keys-for-a-time-go-with-their-job",
        "state.py",
        "operations_moving",
        ("if self._held.get(key) == (job_id, None):", 'if self._held.get(key, ("", None))[0] == job_id:'),
    ),
    conformance(
        "memory",
        "fence",
        "settle.py",
        "stale",
        ("if row.lease is None or row.lease.token != outcome.token:", "if row.lease is None:"),
    ),
    conformance(
        "memory",
        "bound-of-losses",
        "settle.py",
        "reclaim",
        ("    if row.losses >= bound:", "    if row.losses > bound:"),
    ),
    conformance(
        "memory",
        "dead-jobs-expire-at-once",
        "upkeep.py",
        "retention",
        ("return now - row.finished_at > _or_never(keep)", "return True"),
    ),
    conformance(
        "memory",
        "losses-of-what-is-buried-do-not-count",
        "settle.py",
        "settle",
        ('        row.losses += failure.kind == "lost"\n        state.tallies.death', "        state.tallies.death"),
    ),
)
