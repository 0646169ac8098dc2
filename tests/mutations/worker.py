"""Mutants of what is the same on every store: workers, their leader, delivery, operations."""

from __future__ import annotations

from tests.mutations.mutant import Mutant, Patch


def of_worker(name: str, file: str, tests: tuple[str, ...], *patches: Patch, keyword: str = "") -> Mutant:
    """Return a mutant of what is above the stores."""
    return Mutant(name, f"queue_core/{file}", patches, tests, keyword)


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
    of_worker(
        "worker-leaves-what-rules-hold-back-to-the-audit",
        "worker/fetcher.py",
        ("worker/test_fetcher.py",),
        ("        self._cool_down(queue, began)\n        return True", "        return False"),
        keyword="looked_at_again",
    ),
    of_worker(
        "worker-starts-jobs-of-a-rate-at-any-time",
        "worker/fetcher.py",
        ("worker/test_fetcher.py",),
        ("return sent + AHEAD_SECONDS if queue in self._rated else inf", "return inf"),
        keyword="start_soon",
    ),
    of_worker(
        "worker-counts-turns-from-each-job",
        "worker/fetcher.py",
        ("conformance/test_jobs_handover.py",),
        ("                attempt.since = since\n", "                pass\n"),
        keyword="turn_of_a_slot and memory",
    ),
    of_worker(
        "worker-counts-turns-from-the-last-of-several-ends",
        "worker/fetcher.py",
        ("conformance/test_jobs_handover.py",),
        ("(now, min(ended))", "(now, max(ended))"),
        keyword="longest_turn and memory",
    ),
    of_worker(
        "worker-stops-what-is-being-committed",
        "worker/attempt.py",
        ("postgres/transactions/test_losses.py",),
        ("if self.stop_reason is None and not self.ending:", "if self.stop_reason is None:"),
        keyword="being_committed",
    ),
    of_worker(
        "worker-blames-jobs-for-a-process-that-stood-still",
        "worker/attempt.py",
        ("worker/test_stall.py",),
        ("                self._answered += now - asked_at\n", "                pass\n"),
        keyword="stood_still",
    ),
    of_worker(
        "leader-leaves-what-is-due-to-the-audit",
        "worker/leader.py",
        ("worker/test_leader.py",),
        (
            "            total += len(ready)\n            await offer(self._dispatcher, ready)\n",
            "            total += len(ready)\n",
        ),
        keyword="offered_at_once",
    ),
    of_worker(
        "operations-blame-the-first-of-a-step-that-failed",
        "client/operating/executor.py",
        ("core/test_operations.py",),
        ("1 if single else most)", "most)"),
        keyword="only_one",
    ),
    of_worker(
        "undo-of-a-drain-takes-the-move-of-another",
        "client/operating/drain.py",
        ("core/test_operations.py",),
        ('f"{one.request.why}:".startswith(f"{why}:")', "one.request.why.startswith(why)"),
        keyword="another_drain",
    ),
    of_worker(
        "operations-stop-before-enough-is-known",
        "client/operating/verdict.py",
        ("core/test_verdict.py",),
        ("outcomes.ended < ENOUGH:", "outcomes.ended < ENOUGH - 1:"),
    ),
    of_worker(
        "canaries-may-have-one-failure-less",
        "client/operating/verdict.py",
        ("core/test_verdict.py",),
        ("        if failed > most:", "        if failed >= most:"),
    ),
    of_worker(
        "outcomes-are-final-when-the-operation-has-ended",
        "client/operating/verdict.py",
        ("conformance/test_operations_ramp.py",),
        ("final = operation.ended and (known or over > GIVEN_UP)", "final = operation.ended"),
        keyword="last_job_has_ended and memory",
    ),
)
