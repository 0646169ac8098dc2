"""Mutants of SQLite and of memory."""

from __future__ import annotations

from tests.mutations.mutant import STORES, Mutant, Patch


def conformance(mode: str, name: str, file: str, tests: str, *patches: Patch, block: str = "") -> Mutant:
    """Return a mutant of a store that the conformance suite has to see."""
    paths = tuple(f"conformance/test_{test}.py" for test in tests.split())
    return Mutant(f"{mode}-{name}", f"{STORES}/{mode}/{file}", patches, paths, mode, block)


SQLITE = (
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
        (("SET token = token_ceiling, token_ceiling", "SET token_ceiling"),),
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
        (("        if abs(jump) > TOLERANCE:\n", "        if False:\n"),),
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
)
MEMORY = (
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
)
