"""Mutants of SQLite, of memory, and of what is the same on every store."""

from __future__ import annotations

from tests.mutations.mutant import STORES, Mutant, Patch


def conformance(mode: str, name: str, file: str, tests: str, *patches: Patch, block: str = "") -> Mutant:
    """Return a mutant of a store that the conformance suite has to see."""
    paths = tuple(f"conformance/test_{test}.py" for test in tests.split())
    return Mutant(f"{mode}-{name}", f"{STORES}/{mode}/{file}", patches, paths, mode, block)


def of_worker(name: str, file: str, tests: tuple[str, ...], *patches: Patch, keyword: str = "") -> Mutant:
    """Return a mutant of what is above the stores."""
    return Mutant(name, f"queue_core/{file}", patches, tests, keyword)


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
ABOVE = (
    of_worker(
        "worker-lost-settle",
        "worker/settler.py",
        ("worker/test_settler.py",),
        (
            "            self._put_back(batch)\n            await self._wait_for_store(error)",
            "            await self._wait_for_store(error)",
        ),
    ),
    of_worker(
        "worker-forgets-what-was-on-its-way-when-the-loop-ended",
        "worker/settler.py",
        ("worker/test_settler.py",),
        (
            "            self._put_back(batch)  # it may have been stored: the fence makes trying again safe\n",
            "            pass\n",
        ),
        keyword="all_tasks_are_cancelled",
    ),
    of_worker(
        "worker-lets-go-of-the-next-attempt",
        "worker/settler.py",
        ("worker/test_settler.py",),
        ("if attempt is None or attempt.claim.token != outcome.token:", "if attempt is None:"),
        keyword="earlier_attempt",
    ),
    of_worker(
        "worker-forgets-progress-of-beats-that-failed",
        "worker/heartbeat.py",
        ("worker/test_heartbeat.py",),
        ("                attempt.unreported = True\n            raise", "                pass\n            raise"),
        keyword="progress",
    ),
    of_worker(
        "worker-keeps-what-it-has-handed-back-unread",
        "worker/fetcher.py",
        ("worker/test_stall.py",),
        (
            "if not self.claims.answered(request.number) or not mine:",
            "if not (self.claims.answered(request.number) or mine):",
        ),
        keyword="unread",
    ),
    of_worker(
        "worker-forgets-cancels-of-what-waits-in-it",
        "worker/runner.py",
        ("worker/test_runner.py",),
        ("                    self._settler.put(outcomes.cancelled(attempt.claim, 0))\n", ""),
        keyword="waits_for_a_slot",
    ),
    of_worker(
        "leader-says-of-no-lost-attempt-that-it-failed",
        "worker/leader.py",
        ("worker/test_leader.py",),
        ("for event in (EventName.FAILED, name):", "for event in (name,):"),
    ),
    of_worker(
        "leader-offers-nothing-that-lost-attempts-let-through",
        "worker/leader.py",
        ("worker/test_leader.py",),
        ("ready + [unblocked for job in lost for unblocked in job.unblocked]", "ready"),
    ),
    of_worker(
        "lost-attempts-have-not-failed",
        "client/effects.py",
        ("core/test_effects.py",),
        (
            "    return [failed, Event(name, queue, job_id, type_, token, error)]",
            "    return [Event(name, queue, job_id, type_, token, error)]",
        ),
        keyword="lost",
    ),
    of_worker(
        "worker-outlives-its-lease",
        "worker/heartbeat.py",
        ("worker/test_heartbeat.py",),
        ("MARGIN = 0.2", "MARGIN = -9.0"),
    ),
    of_worker(
        "worker-keeps-strays",
        "worker/settler.py",
        ("conformance/test_jobs_lost_answers.py",),
        ("if held is None or held.claim.token != stray.token:", "if False:"),
        keyword="memory",
    ),
    of_worker(
        "worker-takes-over-while-it-is-quiet",
        "worker/fetcher.py",
        ("conformance/test_jobs_handover.py",),
        ("if not waited_for or self.quiet or self._runner.draining:", "if not waited_for:"),
        keyword="memory",
    ),
    of_worker(
        "worker-hands-on-for-ever",
        "worker/fetcher.py",
        ("conformance/test_jobs_handover.py",),
        ("now - attempt.since < HANDED_ON", "True"),
        keyword="memory",
    ),
    of_worker(
        "worker-keeps-what-it-was-given-while-it-stopped",
        "worker/fetcher.py",
        ("conformance/test_jobs_handover.py",),
        ("            self._runner.release_waiting()", "            pass"),
        keyword="memory",
    ),
    of_worker(
        "worker-repeats-a-claim-that-keeps-ends-from-being-stored",
        "worker/settler.py",
        ("conformance/test_jobs_handover.py",),
        (
            "            self._alone = True\n            self._put_back(batch)\n            await",
            "            self._put_back(batch)\n            await",
        ),
        keyword="memory",
    ),
    of_worker(
        "suspects-run-beside-others",
        "model/outcome.py",
        ("faults/test_jobs_that_kill.py",),
        ("SUSPECT_LOSSES = 2", "SUSPECT_LOSSES = 99"),
    ),
    of_worker(
        "retries-one-too-many",
        "model/outcome.py",
        ("conformance/test_jobs_retries.py",),
        ("claim.retry_count >= policy.limit(", "claim.retry_count > policy.limit("),
        keyword="memory",
    ),
    of_worker(
        "lost-jobs-live-for-ever",
        "model/outcome.py",
        ("worker/test_blame.py", "worker/test_processes.py", "worker/test_alone.py", "worker/test_recovery.py"),
        ("if claim.losses + 1 >= bound:", "if False:"),
    ),
    of_worker(
        "doubts-are-hidden-by-later-jobs",
        "redis/recent.py",
        ("redis/test_recent.py",),
        ("self._era = min(self._era, era)", "self._era = era"),
    ),
    of_worker(
        "cancelled-attempts-are-told-of-as-retried",
        "client/effects.py",
        ("core/test_effects.py",),
        ("if outcome.failure is None or answer.cancelled:", "if outcome.failure is None:"),
        keyword="somebody_asked",
    ),
    of_worker(
        "opened-jobs-are-not-ready",
        "client/effects.py",
        ("core/test_effects.py",),
        ("        ready += answer.unblocked\n", ""),
        keyword="opened",
    ),
    of_worker(
        "re-offer",
        "delivery/audit.py",
        ("redis/test_traps_audit.py",),
        ("        await self._dispatcher.offer(missing)\n        return missing", "        return missing"),
    ),
    of_worker(
        "rebuild",
        "delivery/audit.py",
        ("redis/test_traps_audit.py",),
        ("            await self._dispatcher.offer(page)\n", ""),
    ),
    of_worker(
        "worker-asks-its-queues-in-one-order",
        "worker/fetcher.py",
        ("conformance/test_jobs_running.py",),
        ("        self._queues.rotate(-1)\n", ""),
        keyword="backlog_of_another",
    ),
    of_worker(
        "worker-counts-what-waits-in-it-as-begun",
        "worker/fetcher.py",
        ("worker/test_runner.py",),
        ("start_count = max(0, self._runner.free() - self._coming)", "start_count = limit"),
        keyword="claimed_ahead",
    ),
    of_worker(
        "worker-keeps-candidates-that-may-not-start",
        "worker/fetcher.py",
        ("worker/test_fetcher.py",),
        ("        if left:\n            await self._give_back", "        if False:\n            await self._give_back"),
        keyword="may_not_start",
    ),
    of_worker(
        "worker-publishes-ends-that-were-refused",
        "worker/settler.py",
        ("worker/test_settler.py",),
        ("StaleLease(outcome.id, outcome.token))\n            return\n", "StaleLease(outcome.id, outcome.token))\n"),
        keyword="earlier_attempt",
    ),
    of_worker(
        "worker-offers-nothing-that-its-handlers-committed",
        "worker/settler.py",
        ("worker/test_fetcher.py",),
        ("                await offer(self._dispatcher, ready_of(written))", "                pass"),
        keyword="offered_when",
    ),
    of_worker(
        "worker-ends-and-keeps-what-claims-in-doubt-hold",
        "worker/heartbeat.py",
        ("worker/test_settler.py",),
        ("        if self._claims.doubts(True):", "        if False:"),
        keyword="that_is_cancelled",
    ),
)
