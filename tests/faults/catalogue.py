"""The thirty faults that a queue has to withstand: the tests that show each, and the random faults that repeat it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Known:
    """A fault by its name."""

    name: str
    what: str
    passes: str
    # files below tests/, or tests of them
    tests: tuple[str, ...]
    # names of tests.faults.chaos.strikes
    strikes: tuple[str, ...] = ()


CATALOGUE = (
    Known(
        "killed-producer",
        "kill -9 of a producer before its commit, between commit and offer, after the offer",
        "no row; the job runs; the job runs; the same key again gives one row",
        (
            "faults/test_killed_producers.py",
            "conformance/test_unique.py::test_producers_at_once_write_one_job",
        ),
        ("kill producer",),
    ),
    Known(
        "killed-worker",
        "kill -9 of a worker after the pop, the claim, in and after the handler, after settle, before the event",
        "nothing is lost, and runs again only where settle had not committed",
        ("faults/test_killed_workers.py", "faults/test_joint_commits.py", "worker/test_gone.py"),
        ("kill worker", "kill service", "kill worker of a service"),
    ),
    Known(
        "zombie",
        "a worker frozen beyond its lease, another one finishes its job",
        "every write of the zombie is refused, the row is the same to the byte",
        ("faults/test_zombies.py",),
        ("freeze worker",),
    ),
    Known(
        "zombie-beside-a-second-attempt",
        "the same while the second attempt is running",
        "the second attempt alone is recorded",
        (
            "faults/test_zombies.py::test_a_settle_after_the_lease_is_refused",
            "faults/test_zombies.py::test_alone_and_asleep",
        ),
        ("freeze worker",),
    ),
    Known(
        "redis-restart-with-its-file",
        "Redis restarts with its append-only file",
        "nothing is lost, and the rate is back within seconds",
        (
            "redis/store/test_servers.py::test_a_restart_with_the_append_only_file_loses_nothing",
            "faults/test_away.py",
        ),
        ("kill Redis", "stop Redis"),
    ),
    Known(
        "redis-restart-without-its-data",
        "Redis restarts empty",
        "it is filled again; nothing is lost or early",
        ("faults/test_redis.py::test_killed_and_started_without_its_data",),
        ("kill Redis", "stop Redis"),
    ),
    Known(
        "redis-emptied",
        "FLUSHALL under load; one ready set deleted",
        "it is filled again; nothing is lost or early",
        (
            "faults/test_redis.py::test_emptied_under_load",
            "faults/test_redis.py::test_flushall_with_a_backlog_behind_it",
            "faults/test_redis.py::test_one_ready_set_deleted",
        ),
        ("flush Redis", "delete a ready set"),
    ),
    Known(
        "redis-away",
        "Redis refuses, or answers nothing, for minutes",
        "enqueueing is bounded, work goes on by polling, one log line a switch",
        (
            "faults/test_redis.py::test_frozen_for_longer_than_any_time_limit",
            "faults/test_redis.py::test_away_when_the_workers_start",
            "redis/test_fallback.py",
        ),
        ("freeze Redis", "stop Redis", "refuse", "partition"),
    ),
    Known(
        "redis-flapping",
        "Redis is up and down in turn",
        "nothing is lost, and switches are damped",
        ("faults/test_redis.py::test_flapping",),
        ("flap",),
    ),
    Known(
        "sentinel-failover",
        "a failover that loses writes",
        "nothing is lost",
        ("redis_topology/test_sentinel.py",),
        ("Sentinel failover", "kill primary", "freeze primary"),
    ),
    Known(
        "cluster-moves",
        "slots that move, nodes that are killed",
        "MOVED and ASK are followed, no key crosses slots, nothing is lost",
        ("redis_topology/test_cluster.py", "redis_topology/test_slots.py"),
        ("move slot", "kill master", "freeze master", "cluster demotes a master"),
    ),
    Known(
        "redis-out-of-memory",
        "Redis at its maxmemory; a policy that evicts",
        "enqueue succeeds where PostgreSQL is the store, and the policy is flagged",
        (
            "faults/test_redis.py::test_out_of_memory",
            "redis/store/test_servers.py::test_a_full_server_takes_nothing_half",
            "cli/test_doctor.py",
        ),
        ("Redis out of memory",),
    ),
    Known(
        "redis-busy",
        "Redis is busy in a script for seconds",
        "workers fall back, and no lease is lost",
        ("faults/test_redis.py::test_busy_in_a_script",),
        ("Redis busy in a script",),
    ),
    Known(
        "postgres-restart",
        "PostgreSQL restarts, fast and at once, again and again",
        "the rate is back, nothing is lost, no process ends",
        ("faults/test_postgres.py",),
        ("kill PostgreSQL", "stop PostgreSQL", "stop PostgreSQL at once", "freeze PostgreSQL"),
    ),
    Known(
        "read-only-primary",
        "the primary becomes read-only",
        "connections are dropped, and writes go on later",
        ("postgres/operations/test_losing.py::test_a_server_that_turns_read_only_is_left_for_the_new_primary",),
        ("read-only PostgreSQL",),
    ),
    Known(
        "statements-fail",
        "full disks, serialization failures, deadlocks and time limits in claim, settle and enqueue",
        "an error of the tree, and nothing offered; settle tries again with its token; no false success",
        ("postgres/test_settle_errors.py", "sqlite/test_places.py::test_a_full_disk"),
        ("statements fail", "full disk", "locked file"),
    ),
    Known(
        "lost-commit-reply",
        "a connection that is cut between a commit and its reply",
        "read back; one outcome, no duplicate",
        (
            "conformance/test_jobs_lost_answers.py",
            "postgres/transactions/test_losses.py::test_an_answer_to_a_commit_that_got_lost",
            "worker/test_settler.py::test_a_lost_answer_is_not_a_refusal",
        ),
        ("swallow replies", "cut", "cut all sessions"),
    ),
    Known(
        "partition",
        "worker without PostgreSQL, without Redis, without both; half-open connections",
        "a worker stops its jobs before their leases end, and nothing stale is written later",
        (
            "worker/test_heartbeat.py::test_jobs_are_stopped_before_their_lease_ends",
            "faults/test_frozen_processes.py",
        ),
        ("partition", "refuse", "delay"),
    ),
    Known(
        "clocks",
        "clocks ten minutes off, and set back",
        "nothing is early, and no lease ends too soon",
        ("sqlite/test_clock.py", "core/test_clock.py"),
        ("set clock",),
    ),
    Known(
        "held-transaction",
        "a transaction that is held open under a steady load",
        "the rate falls by a fifth at most, and is back afterwards",
        (
            "postgres/traps/test_traps_snapshot.py",
            "faults/test_postgres.py::test_a_transaction_that_holds_everything_up",
        ),
        ("held transaction",),
    ),
    Known(
        "large-history",
        "a million jobs wait, and millions have ended",
        "claims read the partial index, in bounded time",
        ("redis/store/test_scale.py", "postgres/traps/test_traps_plans.py", "postgres/test_history.py"),
    ),
    Known(
        "large-texts",
        "payloads, results and exceptions of megabytes; deep nesting",
        "refused or cut, with their sizes",
        (
            "conformance/test_jobs_enqueue.py::test_a_payload_over_its_limit",
            "conformance/test_jobs_results.py::test_a_result_over_its_limit_is_cut",
            "conformance/test_jobs_large.py",
        ),
    ),
    Known(
        "hostile-values",
        "NaN, NUL, lone surrogates, bytes, naive datetimes, spoiled rows, rubbish in Redis",
        "refused, or buried with a reason, and the next job runs",
        (
            "conformance/test_jobs_enqueue.py::test_payloads_that_are_refused",
            "conformance/test_jobs_retries.py::test_a_stored_payload_that_is_none",
            "faults/test_redis.py::test_rubbish_and_repetition_in_the_ready_set",
            "faults/test_redis.py::test_a_key_of_a_wrong_type",
        ),
    ),
    Known(
        "unknown-type",
        "a type that no worker has, or that a deploy has renamed",
        "not taken, not used up; it runs once a worker has it",
        (
            "conformance/test_jobs_running.py::test_types_it_does_not_know_stay_and_hold_nobody_up",
            "conformance/test_jobs_versions.py",
        ),
    ),
    Known(
        "blocked-loop",
        "a handler that holds up the event loop, or the interpreter, for leases",
        "its lease is kept or fenced, a warning names the job, and there is one success",
        ("worker/test_stall.py",),
        ("freeze worker",),
    ),
    Known(
        "dying-handler",
        "a handler that ends its process: signals, exits, memory",
        "that job alone is affected; the first death alone in a child buries it",
        ("faults/test_jobs_that_kill.py", "worker/test_blame.py", "worker/test_processes.py"),
    ),
    Known(
        "pool-and-pooler",
        "no connection is left; PgBouncer in transaction mode",
        "heartbeats and settles pass, and polling is stated",
        ("postgres/poolers/test_listening.py", "postgres/test_session.py"),
        ("kill pooler", "freeze pooler"),
    ),
    Known(
        "slow-subscriber",
        "a subscriber that is slow or hangs, a flood of events, a reconnect",
        "jobs flow, and the console reads back what it missed",
        ("core/test_local_delivery.py", "redis/test_traps_events.py", "console/test_storm.py"),
    ),
    Known(
        "deploy",
        "SIGTERM under load, then the end of the grace period; two leaders",
        "no claim after it, what is unfinished is released without using an attempt up; one row a tick",
        (
            "faults/test_stops.py",
            "conformance/test_leadership.py",
            "conformance/test_jobs_cron.py::test_one_job_a_tick_whatever_the_number_of_processes",
        ),
        ("drain worker",),
    ),
    Known(
        "rules-under-faults",
        "ordering keys, concurrency, unique keys and limits under all of this",
        "no inversion within a key, no limit exceeded, producers hear of full queues",
        ("faults/test_frozen_processes.py", "sqlite/test_rules_processes.py", "redis/store/test_rules_at_once.py"),
        (
            "kill worker",
            "freeze worker",
            "partition",
            "swallow replies",
            "kill PostgreSQL",
            "kill Redis",
            "locked file",
        ),
    ),
)
"""In the order in which they are listed; each has a number, too, from 1."""


def find(name: str) -> Known:
    """Return a fault by its name or its number.

    Raises:
        KeyError: there is none.
    """
    for number, known in enumerate(CATALOGUE, 1):
        if name in {known.name, str(number)}:
            return known
    raise KeyError(name)
