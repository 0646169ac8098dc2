"""The facts of a job, group, operation, schedule, queue and worker, for screens and for the command line.

A screen lays facts out with `present.layout.fact_lines`, the command line prints them one a line, or as the cells of a
table under the titles that are their labels.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from jobconsole.core.rows import attempts_of, bands
from jobconsole.format.humanize import age, duration, exact, moment_of, plural, seconds_between
from jobconsole.format.words import outcome_phrase, outcome_words, written_phrase
from queue_core.model.text import safe

if TYPE_CHECKING:
    from queue_core.client.health import Health, Stats
    from queue_core.model.job import Job
    from queue_core.model.operation import ChangeOptions, Operation, Outcomes, Rollout
    from queue_core.model.report import QueueInfo, SignatureInfo, WorkerInfo
    from queue_core.model.schedule import Planned

LONGEST_VALUE = 600
"""Characters of a value that are shown."""

Value = str | int | datetime | None


class Fact(NamedTuple):
    """One fact: its label and its value."""

    label: str
    # as it was stored, a text of a job unchanged: `text` makes it harmless; None or "": there is nothing to show
    value: Value
    # one of the tones of `format.spans`
    tone: str = "text"

    @property
    def known(self) -> bool:
        """Whether there is something to show."""
        return self.value is not None and self.value != ""

    def text(self, now: datetime | None = None) -> str:
        """Return the value, harmless; a moment of the same day as `now` as its time alone."""
        if isinstance(self.value, datetime):
            return moment(self.value) if now is None else moment_of(self.value, now)
        return "" if self.value is None else safe(str(self.value), LONGEST_VALUE)


Facts = tuple[Fact, ...]


def moment(when: datetime | None) -> str:
    """Return 2026-01-30 03:07:41Z."""
    return "" if when is None else when.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def but(facts: Iterable[Fact], *labels: str) -> list[Fact]:
    """Return the facts that are known without those of some labels."""
    return [fact for fact in facts if fact.known and fact.label not in labels]


def only(facts: Collection[Fact], *labels: str) -> list[Fact]:
    """Return the facts of some labels that are known, in the order of the labels."""
    return [fact for label in labels for fact in facts if fact.label == label and fact.known]


def cells(facts: Iterable[Fact], titles: Sequence[str]) -> tuple[str, ...]:
    """Return the texts under some titles of a table, which are labels in capital letters."""
    texts = {fact.label.upper(): fact.text() for fact in facts}
    return tuple(texts[title] for title in titles)


def attempts(job: Job) -> str:
    """Return how many attempts of a job have started, of how many: 3 of 3."""
    return "{} of {}".format(*attempts_of(job))


def of_job(job: Job) -> Facts:
    """Return everything that is known of a job but its payload, result, traceback and log."""
    progress = f"{job.progress}% {job.progress_message}".strip() if job.progress or job.progress_message else None
    return (
        Fact("id", job.id),
        Fact("type", job.type),
        Fact("queue", job.queue),
        Fact("status", f"{job.status.value}{', in the trash' if job.trashed_at else ''}"),
        Fact("priority", job.priority),
        Fact("tags", ", ".join(job.tags)),
        Fact("ordering key", job.ordering_key),
        Fact("unique key", job.unique_key),
        Fact("headers", "  ".join(f"{name}={value}" for name, value in job.headers.items()), "muted"),
        Fact("attempts", attempts(job)),
        Fact("losses", job.losses or None, "warn"),
        Fact("crashes", job.crashes or None, "warn"),
        Fact("progress", progress, "accent"),
        Fact("created", job.created_at),
        Fact("due", job.run_at),
        Fact("started", job.started_at),
        Fact("ended", job.completed_at),
        Fact("worker", job.worker),
        Fact("release", job.release),
        Fact("lease until", job.lease_expires_at),
        Fact("cancel", "requested" if job.cancel_requested else None, "warn"),
        Fact("signature", job.signature, "muted"),
        Fact("error", job.error, "bad"),
    )


def of_group(info: SignatureInfo, window: str = "") -> Facts:
    """Return what a group of dead jobs has in common; `window`: over which time its growth was counted, as in 15m."""
    several = len(info.types) > 1
    return (
        Fact("signature", info.signature, "muted"),
        Fact("count", exact(info.count), "strong"),
        Fact("grown", exact(info.grown) + (f" in {window}" if window else ""), "warn" if info.grown else "faint"),
        Fact("first", info.first_seen),
        Fact("last", info.last_seen),
        Fact("types", ", ".join(f"{name} {exact(number)}" if several else name for name, number in info.types)),
        Fact("queues", ", ".join(info.queues)),
        Fact("error", info.title, "bad"),
    )


def of_queue(info: QueueInfo, now: datetime) -> Facts:
    """Return the state of a queue with its depth by band; `now`: by the store's clock."""
    return (
        Fact("queue", info.name, "strong"),
        Fact("state", info.state, "text" if info.state == "open" else "warn"),
        *(Fact(name, exact(number)) for name, number in bands(info).items()),
        Fact("scheduled", exact(info.scheduled)),
        Fact("retrying", exact(info.retrying)),
        Fact("running", exact(info.started)),
        Fact("dead", exact(info.dead)),
        Fact("oldest", age(seconds_between(info.oldest, now))),
    )


def of_stats(stats: Stats) -> Facts:
    """Return how many jobs there are in all queues together."""
    bands = f"high {exact(stats.pending_high)}, normal {exact(stats.pending_normal)}, low {exact(stats.pending_low)}"
    return (
        Fact("pending", f"{exact(stats.total_pending)}  ({bands})", "strong"),
        Fact("running", exact(stats.processing), "accent"),
        Fact("claimed ahead", exact(stats.claimed_ahead) if stats.claimed_ahead else None, "muted"),
        Fact("dead", exact(stats.dlq), "bad" if stats.dlq else "text"),
        Fact("completed", f"{exact(stats.completed_24h)} in 24 hours", "good" if stats.completed_24h else "text"),
    )


def of_health(health: Health) -> Facts:
    """Return whether jobs can be enqueued and run, with the counts where the store answered."""
    counts = (("pending", health.pending), ("running", health.running), ("workers", health.workers))
    return (
        Fact("healthy", "yes" if health.healthy else "no", "good" if health.healthy else "bad"),
        Fact("mode", health.mode),
        *(Fact(label, None if count is None else exact(count)) for label, count in counts),
        Fact("degraded", health.degraded_since, "warn"),
        Fact("reason", health.reason, "warn" if health.healthy else "bad"),
    )


def of_worker(info: WorkerInfo) -> Facts:
    """Return who a worker is, what it does and how long ago its last heartbeat was."""
    return (
        Fact("id", info.id),
        Fact("host", info.host, "strong"),
        Fact("pid", info.pid),
        Fact("state", info.state),
        Fact("busy", f"{info.busy}/{info.concurrency}" + (f" + {info.stuck} stuck" if info.stuck else "")),
        Fact("beat", age(info.heartbeat_age)),
        Fact("version", info.version),
        Fact("release", info.release),
        Fact("queues", ", ".join(info.queues)),
        Fact("types", "every type" if info.types is None else ", ".join(info.types)),
    )


def of_schedule(planned: Planned, now: float) -> Facts:
    """Return when a schedule ticks and which job it brings, without the payload.

    `now`: seconds since the epoch by the store's clock.
    """
    # Its filters are of no use to what shows no schedules.
    from jobconsole.core.schedules import moment_at, state_of

    one, brought = planned.schedule, planned.last_job
    missed = "none: its queue was full, or a hook refused it"
    last_job = "it has not ticked yet" if planned.last_at is None else brought or missed
    return (
        Fact("name", one.name, "strong"),
        Fact("cron", one.cron, "accent"),
        Fact("zone", one.tz),
        Fact("state", state_of(planned, now)),
        Fact("next", None if planned.paused else moment_at(planned.next_at)),
        Fact("last", moment_at(planned.last_at)),
        Fact("last job", last_job, "warn" if last_job is missed else "muted"),
        Fact("type", one.type),
        Fact("queue", one.queue),
        Fact("priority", one.priority),
        Fact("retries", one.max_retries),
        Fact("ordering key", one.ordering_key),
    )


def of_operation(
    operation: Operation, outcomes: Outcomes | None, canary: Outcomes | None = None, related: Facts = ()
) -> Facts:
    """Return everything that is known of an operation: author, target, options, reason and results.

    `outcomes`: of the jobs that it has retried; `canary`: of its canary, while that is waited for; `related`: which
    operations it undoes, or was undone by.
    """
    request, members = operation.request, operation.total or None
    return (
        Fact("operation", f"#{operation.number}", "strong"),
        Fact("verb", request.verb, "strong"),
        Fact("what", request.label),
        Fact("state", operation.state),
        Fact("who", "@".join(request.author)),
        Fact("why", request.why, "accent"),
        *related,
        Fact("how", ", ".join(in_words(request.options, request.rollout))),
        Fact("signatures", ", ".join(request.signatures), "muted"),
        Fact("created", operation.created_at),
        Fact("started", operation.started_at),
        Fact("last step", operation.updated_at),
        Fact("ended", operation.finished_at),
        Fact("jobs", members and (written_phrase(operation) if operation.state == "preparing" else exact(members))),
        Fact("done", members and exact(operation.done)),
        Fact("changed", members and exact(operation.processed)),
        Fact("skipped", exact(operation.skipped) if operation.skipped else None, "warn"),
        Fact("errored", exact(operation.errored) if operation.errored else None, "bad"),
        Fact("waits for", operation.waits_for and f"release {operation.waits_for}", "warn"),
        Fact("begins", operation.request.rollout.begin_at if not operation.done else None, "warn"),
        Fact("canary", _canary(operation, canary), "warn" if operation.in_canary else "good"),
        Fact("outcomes", _outcomes(operation, outcomes), "bad" if outcomes and outcomes.dead else "text"),
        Fact("note", operation.note, "warn"),
    )


def _canary(operation: Operation, canary: Outcomes | None) -> str:
    rollout, stage = operation.request.rollout, operation.stage
    if not rollout.first_steps or operation.state == "preparing" or operation.waits_for:
        return ""
    if not operation.in_canary:
        return "over"
    words = "waiting for its outcome"
    if not operation.awaiting_canary:
        # One that has ended goes no further; that it was stopped before is no longer known, so both read the same.
        over = "stopped" if operation.state == "stopped" or operation.ended else "not over"
        words = f"of {plural(stage.size, 'job')}, {over}"
    if rollout.ramp:
        words = f"ramp {stage.number} of {stage.of}, {words}"
    came = f": {outcome_words(canary)}" if canary is not None and canary.looked else ""
    passed = f"{exact(stage.behind)} passed; " if stage.behind else ""
    return f"{passed}{words}{came}; then {exact(operation.total - operation.barrier)}"


def _outcomes(operation: Operation, outcomes: Outcomes | None) -> str:
    if operation.outcomes is not None and (outcomes is None or operation.outcomes.looked >= outcomes.looked):
        return outcome_phrase(operation)
    return f"of the last {exact(outcomes.looked)}: {outcome_words(outcomes)}" if outcomes else ""


def in_words(options: ChangeOptions, rollout: Rollout) -> list[str]:
    """Return the options of an operation as sentences; none for those that have their defaults."""
    return [*_rollout_in_words(rollout), *_options_in_words(options)]


def _rollout_in_words(rollout: Rollout) -> Iterator[str]:
    if rollout.when_release:
        yield f"begins when release {safe(rollout.when_release, 120)} is live"
    if rollout.begin_at is not None:
        yield f"begins at {moment(rollout.begin_at)}"
    if rollout.canary:
        yield f"a canary of {plural(rollout.canary, 'job')} first"
    if rollout.ramp:
        steps = ", ".join(exact(step) for step in rollout.ramp)
        yield f"a ramp of {steps} {'job' if rollout.ramp == (1,) else 'jobs'}, then the rest"
    if rollout.first_failure:
        yield "first failures count"
    if rollout.rate is not None:
        yield _rate_in_words(rollout.rate)
    if rollout.stop_percent is not None:
        yield f"stopped when more than {rollout.stop_percent:g}% die again"


def _rate_in_words(rate: float) -> str:
    """Return a rate, given by the second, by the shortest time in which it is 1 or more; of slower ones, by the day."""
    periods = (("second", 1), ("minute", 60), ("hour", 3600), ("day", 86400))
    name, seconds = next((one for one in periods if rate * one[1] >= 0.9995), periods[-1])
    return f"{rate * seconds:.4g} {'an' if name == 'hour' else 'a'} {name}"


def _options_in_words(options: ChangeOptions) -> Iterator[str]:
    if options.queue is not None:
        yield f"into queue {safe(options.queue, 120)}"
    if options.priority is not None:
        yield f"with priority {options.priority}"
    if options.delay:
        yield f"due after {duration(options.delay)}"
    if options.spread:
        yield f"spread over {duration(options.spread)}"
