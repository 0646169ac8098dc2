"""Changes by operators: the script of each verb, and its answers."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

from queue_core.errors import QueueNotFound
from queue_core.model.job import Ready
from queue_core.model.operation import UNCHANGED, VERBS, Changed, ChangeOptions, MemberVerb, WorkerOrder
from queue_core.model.rules import Rules, key_in, rules_of
from queue_core.redis.scripts import Call
from queue_core.stores.redis.capacity import ORDERING_KEYS, answer_of
from queue_core.stores.redis.delivery import ORDER
from queue_core.stores.redis.hints import DueHints
from queue_core.stores.redis.operations.transit import (
    Transit,
    departure_keys,
    make_transit,
    records_of,
    run_batch,
    transfer_keys,
    unlimited,
)
from queue_core.stores.redis.session import RedisLink, chunks

T = TypeVar("T")


STATE_FIELDS = ("status", "token", "type", "ordering_key", "unique_key")
"""The fields that a `JobState` is made of."""

_RETRY = (
    "pending", "scheduled", "unfinished", "completed", "dlq", "trash", "errors", "seq", "types", "tallies", "minutes",
    "depths", *ORDERING_KEYS, "unique", "unique_expires", "arrival",
)  # fmt: skip
_SETS: Mapping[str, tuple[str, ...]] = {
    "cancel": (
        "pending", "offered", "scheduled", "retrying", "unfinished", "cancelled", "cancelling", "types", "tallies",
        "minutes", "depths", *ORDERING_KEYS,
    ),
    "delete": ("dlq", "trash", *ORDERING_KEYS, "pending"),
    "restore": ("dlq", "trash"),
}  # fmt: skip
"""The keys of the verbs that take no options, whose scripts have their names."""
_REMOVE = ("errors", "tallies", "minutes", *ORDERING_KEYS, "pending", "unique", "unique_expires")


class JobState(NamedTuple):
    """A job as it was just seen, and its place among the members of an operation."""

    id: str
    queue: str
    status: str
    token: str
    type: str
    key: str | None
    unique_key: str | None
    place: int = 0


def state_of(job_id: str, queue: str, row: Sequence[str | None], place: int = 0) -> JobState:
    """Return a job whose `STATE_FIELDS` were read."""
    status, token, type_, key, unique_key = row
    return JobState(job_id, queue, status or "", token or "0", type_ or "", key, unique_key, place)


class StepKey(NamedTuple):
    """The step of an operation that changes jobs."""

    number: int
    # members done, as seen
    done: int
    # hexadecimal
    name: str


def step_names(step: StepKey) -> tuple[str, str]:
    """Return the names of what is kept beside a queue of a cluster of an operation: its step, its changed members."""
    return f"operation:{step.number}", f"operation:{step.number}:changed"


class QueueBatch(NamedTuple):
    """A script that changes some jobs of one queue."""

    call: Call
    ids: Sequence[str]
    # where they are, and so are those that they let through
    queue: str
    # where they go to
    target: str
    # False: it only prepares what the next part changes
    changes: bool = True
    # where they go to a queue of another slot
    transit: Transit | None = None


class ChangeOutcome:
    """The collected answers of parts, in the order of their arrival."""

    def __init__(self) -> None:
        self._changed: dict[str, None] = {}
        self._ready: dict[str, Ready] = {}
        # queues with jobs that may wait for their time
        self.targets: set[str] = set()

    def take(self, part: QueueBatch, answers: Iterable[Any]) -> None:
        """Read the answers of a part."""
        self.targets.add(part.target)
        for job_id, answer in zip(part.ids, answers, strict=True):
            own, unblocked = answer_of(part.queue, answer)
            if own and part.changes:
                self._changed[job_id] = None
            if own:
                # One before it may have let it through.
                self._ready.pop(job_id, None)
            if own and part.changes and str(own).startswith("r"):
                self._ready[job_id] = Ready(job_id, part.target, int(own[1:]))
            self._ready |= {one.id: one for one in unblocked}

    def result(self, ids: Sequence[str] = ()) -> Changed:
        """Return what was changed, and which jobs are ready now; those with these ids in their order, before others."""
        return Changed(tuple(_first(ids, self._changed)), tuple(_first(ids, self._ready).values()))


class VerbScripts:
    """Knows the keys and the arguments of each verb's script."""

    def __init__(self, link: RedisLink, rules: Rules) -> None:
        self._link = link
        self._rules = rules

    def parts(
        self,
        verb: MemberVerb,
        jobs: Sequence[JobState],
        options: ChangeOptions = UNCHANGED,
        step: StepKey | None = None,
    ) -> Iterator[QueueBatch]:
        """Yield the scripts that change these jobs, each a bounded number; those of a step check and mark them."""
        groups: dict[str, list[JobState]] = {}
        for job in jobs:
            groups.setdefault(job.queue, []).append(job)
        for queue, group in groups.items():
            for some in chunks(group):
                if verb == "retry":
                    yield from self._retry(queue, some, options, step)
                elif verb == "move":
                    yield self._transfer("move", queue, some, options, step)
                elif verb == "purge":
                    yield self.remove(queue, "trash", some, ("purged", None), step)
                else:
                    yield self._change(verb, queue, some, step)

    def _change(self, verb: MemberVerb, queue: str, jobs: Sequence[JobState], step: StepKey | None) -> QueueBatch:
        names = _SETS[verb]
        ids = [job.id for job in jobs]
        # A script that may release ordering keys has to know how many jobs of one they admit.
        first = [rules_of(self._rules, queue).open_keys] if set(ORDERING_KEYS) <= set(names) else []
        keys = [*self._link.of(queue, names), *self._link.keys.jobs(queue, ids)]
        return self._part(verb, keys, [*first, *ids], (queue, queue), jobs, step)

    def _retry(
        self, queue: str, jobs: Sequence[JobState], options: ChangeOptions, step: StepKey | None
    ) -> Iterator[QueueBatch]:
        target = options.queue or queue
        if target != queue or options.priority is not None:
            jobs = [job for job in jobs if job.status in VERBS["retry"].states]
            yield self._transfer("retry", queue, jobs, options, step)
        ids = [job.id for job in jobs]
        keys = dict(zip(_RETRY, self._link.of(target, _RETRY), strict=True))
        # It counts where it has died, unless that is in another slot.
        home = target if self._link.apart else queue
        keys |= zip(("tallies", "minutes"), self._link.of(home, ("tallies", "minutes")), strict=True)
        rules = rules_of(self._rules, target)
        args = [rules.aging_us, rules.open_keys, *(one for job_id in ids for one in (job_id, _delay(options)))]
        keys_all = [*keys.values(), *self._link.keys.jobs(target, ids)]
        yield self._part("retry", keys_all, args, (target, target), jobs, step)

    def _transfer(
        self, verb: str, queue: str, jobs: Sequence[JobState], options: ChangeOptions, step: StepKey | None
    ) -> QueueBatch:
        target = options.queue or queue
        rules = rules_of(self._rules, target)
        priority = "" if options.priority is None else options.priority
        args = [verb, rules_of(self._rules, queue).open_keys, rules.open_keys, rules.aging_us, priority, target]
        args += [one for job in jobs for one in (job.id, key_in(self._rules, target, queue, job.key) or "")]
        own = [(job.id, job.type) for job in jobs]
        if target != queue and self._link.apart:
            transit = make_transit(queue, target, own, args)
            keys, args = departure_keys(self._link, transit), unlimited(args, 2, own)
            part = self._part("transfer", keys, args, (queue, target), jobs, step)
            return part._replace(changes=verb == "move", transit=transit)
        here, there = (partial(self._link.of, one) for one in (queue, target))
        # The names of all queues are in another slot of a cluster, and not needed in the queue itself.
        names = there(["capacity_answer"])[0] if self._link.apart else self._link.keys.queues
        keys = transfer_keys(here, there, names, own)
        part = self._part("transfer", keys, args, (queue, target), jobs, step)
        return part._replace(changes=verb == "move")

    def remove(
        self,
        queue: str,
        place: str,
        jobs: Sequence[JobState],
        kept: tuple[str, int | None],
        step: StepKey | None = None,
    ) -> QueueBatch:
        """Return the script that removes jobs of a queue, at most a script's, which are in this set.

        `kept` is what they count as afterwards, and for how long (us) they must have been there.
        """
        keys = self._link.of(queue, (place, *_REMOVE))
        for job in jobs:
            keys += self._link.of(queue, records_of(job.id, job.type))
        outcome, us = kept
        args = [outcome, "" if us is None else us, rules_of(self._rules, queue).open_keys]
        args += [one for job in jobs for one in (job.id, job.type, job.key or "", job.unique_key or "")]
        return self._part("remove", keys, args, (queue, queue), jobs, step)

    def _part(
        self,
        script: str,
        keys: Sequence[str],
        args: Sequence[Any],
        queues: tuple[str, str],
        jobs: Sequence[JobState],
        step: StepKey | None,
    ) -> QueueBatch:
        if step is None:
            # Not read later, but they are of this queue.
            own = self._link.of(queues[0], ("operation", "changed"))
        elif self._link.apart:
            own = self._link.of(queues[0], step_names(step))
        else:
            own = [self._link.keys.operation(step.number, name) for name in ("", "changed")]
        return QueueBatch(Call(script, [*keys, *own], [*args, _frozen(step, jobs)]), [job.id for job in jobs], *queues)


def _first(ids: Sequence[str], found: Mapping[str, T]) -> dict[str, T]:
    return {one: found[one] for one in ids if one in found} | dict(found)


def _delay(options: ChangeOptions) -> int:
    return round((max(options.delay, 0.0) + random.uniform(0, max(options.spread, 0.0))) * 1e6)


def _frozen(step: StepKey | None, jobs: Sequence[JobState]) -> str:
    if step is None:
        return ""
    return f"{step.done} {step.name}" + "".join(f" {job.token},{job.place}" for job in jobs)


async def change(
    link: RedisLink, rules: Rules, verb: MemberVerb, ids: Sequence[str], options: ChangeOptions
) -> Changed:
    """Change those of these jobs that are in a state that the verb acts on."""
    found = await link.find(ids, STATE_FIELDS)
    jobs = [state_of(job_id, *found[job_id]) for job_id in dict.fromkeys(ids) if job_id in found]
    outcome = ChangeOutcome()
    for part in VerbScripts(link, rules).parts(verb, jobs, options):
        outcome.take(part, await run_batch(link, part.call, part.transit))
    if noted_as_waiting(verb, options):
        await DueHints(link).waiting(outcome.targets)
    return outcome.result()


def noted_as_waiting(verb: str, options: ChangeOptions) -> bool:
    """Whether jobs that a verb changes may wait for their time where they are then."""
    return options.later or verb == "move"


async def switch(link: RedisLink, queue: str, paused: bool) -> bool:
    """Let no worker claim from a queue, or let them again and open it; return False when this changed nothing.

    Raises:
        QueueNotFound: no queue has this name.
    """
    await _require_queue(link, queue)
    commands = link.batch()
    if paused:
        commands.setnx(link.keys.of(queue, "paused"), 1)
    else:
        commands.delete(link.keys.of(queue, "paused"), link.keys.of(queue, "closed"))
        # Workers have dropped what was offered to them meanwhile; without its marker all of it is offered again.
        commands.delete(link.keys.of(queue, "generation"))
    return bool((await link.send(commands))[0])


async def set_closed(link: RedisLink, queue: str, closed: bool) -> bool:
    """Let a queue take no new jobs, or let it again; return False when this changed nothing.

    Raises:
        QueueNotFound: no queue has this name.
    """
    await _require_queue(link, queue)
    commands, key = link.batch(), link.keys.of(queue, "closed")
    if closed:
        commands.setnx(key, 1)
    else:
        commands.delete(key)
    return bool((await link.send(commands))[0])


async def _require_queue(link: RedisLink, queue: str) -> None:
    commands = link.batch()
    commands.sismember(link.keys.queues, queue)
    if not (await link.send(commands))[0]:
        raise QueueNotFound(queue)


async def command(link: RedisLink, worker: str, order: WorkerOrder) -> bool:
    """Give a worker an order; return whether there is such a worker."""
    notification = [link.keys.notifications, f"{ORDER} {worker}"]
    return bool(await link.run("command", [link.keys.workers], [worker, order, *notification]))
