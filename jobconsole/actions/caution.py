"""What is to be known before jobs are retried: only what is true at the moment, a sentence each."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from jobconsole.actions.plan import NAMED_TYPES, Plan, Target
from jobconsole.core.rows import LONGEST_NAME
from jobconsole.format.humanize import exact, plural
from queue_core.errors import JobNotFound, OperationNotFound
from queue_core.model.job import Job
from queue_core.model.operation import Operation
from queue_core.model.report import Overview, WorkerInfo
from queue_core.model.text import safe
from queue_core.ports.inspector import Inspector

if TYPE_CHECKING:
    from queue_core.client.operations import Operations

SAMPLED_JOBS = 200
"""Jobs whose queue and type are looked at: the newest ones of a filter."""
SAMPLED_IDS = 20
"""Jobs that are looked at where they were named one by one."""
COMPARED_OPERATIONS = 20
"""Operations whose members are compared, and the members of each."""
COMPARED_MEMBERS = 20_000


class Served(NamedTuple):
    """Where some of the jobs will run."""

    queue: str
    type: str


async def cautions(inspector: Inspector, operations: Operations, target: Target, plan: Plan) -> list[str]:
    """Return what to know before this retry.

    Raises:
        StoreUnavailable: the store did not answer in time.
    """
    if plan.verb != "retry" or not plan.ids:
        return []
    jobs = await _sampled(inspector, target)
    places = list(dict.fromkeys(Served(plan.options.queue or job.queue, job.type) for job in jobs))
    overview = await inspector.overview()
    queue, others = plan.options.queue, await _others(operations, frozenset(plan.ids))
    if queue is not None and not any(queue in worker.queues for worker in claiming(overview)):
        name = safe(queue, LONGEST_NAME)
        return [f"no live worker works on queue '{name}'; the jobs wait there until one does", *others]
    died = {job.release for job in jobs if job.release}
    return [*unserved(places, overview), *others, *released_elsewhere(died, places, overview)]


def claiming(overview: Overview) -> list[WorkerInfo]:
    """Return the live workers that claim jobs: those that stop, or are quiet, do not."""
    return [worker for worker in overview.workers if not (worker.lost or worker.quiet)]


def released_elsewhere(died: Collection[str], places: Sequence[Served], overview: Overview) -> list[str]:
    """Return that another release than the one they died on is live, but not where they run."""
    live = [worker for worker in claiming(overview) if worker.release]
    if len(died) != 1 or not places:
        return []
    (before,) = died
    sentences = []
    for name in dict.fromkeys(worker.release or "" for worker in live):
        workers = [worker for worker in live if worker.release == name]
        if name != before and not any(worker.runs(*place) for worker in workers for place in places):
            number = plural(len(workers), "worker")
            elsewhere = any(one.types is None or place.type in one.types for one in workers for place in places)
            what = "queues" if elsewhere else "types"
            runs = f"which {'runs' if len(workers) == 1 else 'run'} other {what}"
            release = safe(name, LONGEST_NAME)
            sentences.append(f"they died on {safe(before, LONGEST_NAME)}; {release} is live on {number}, {runs}")
    return sentences[:1]


async def _sampled(inspector: Inspector, target: Target) -> list[Job]:
    """Return some of the jobs."""
    found: list[Job] = []
    for where in target.wheres:
        found += (await inspector.jobs(where, SAMPLED_JOBS)).jobs
    for job_id in target.ids[:SAMPLED_IDS]:
        try:
            found.append(await inspector.get(job_id))
        except JobNotFound:
            continue
    return found


def unserved(places: Iterable[Served], overview: Overview) -> list[str]:
    """Return which of these jobs would wait, since no live worker runs them or their queue is paused; or is closed."""
    places, live = list(places), claiming(overview)
    nowhere: dict[str, list[str]] = {}
    elsewhere: dict[str, list[str]] = {}
    for queue, type_ in places:
        if any(worker.runs(queue, type_) for worker in live):
            continue
        anywhere = any(worker.types is None or type_ in worker.types for worker in live)
        (elsewhere if anywhere else nowhere).setdefault(type_ if not anywhere else queue, []).append(type_)
    sentences = []
    if not live and places:
        alive = any(not worker.lost for worker in overview.workers)
        why = "every live worker is quiet or is stopping: the jobs wait until one claims" if alive else ""
        return [why or "no worker is alive: the jobs wait until one is"]
    if nowhere:
        sentences.append(f"no live worker runs {_named(nowhere)}: the jobs wait until one does")
    sentences += [
        f"no live worker of queue '{safe(queue, LONGEST_NAME)}' runs {_named(types)}: the jobs wait until one does"
        for queue, types in elsewhere.items()
    ]
    paused = {queue.name for queue in overview.queues if queue.paused}
    sentences += [
        f"queue '{safe(name, LONGEST_NAME)}' is paused: the jobs wait until it is resumed"
        for name in dict.fromkeys(place.queue for place in places)
        if name in paused
    ]
    closed = {queue.name for queue in overview.queues if queue.closed}
    sentences += [
        f"queue '{safe(name, LONGEST_NAME)}' is closed: these jobs go in all the same, "
        "and it is not empty before they ran"
        for name in dict.fromkeys(place.queue for place in places)
        if name in closed
    ]
    return sentences


def _named(types: Iterable[str]) -> str:
    names = [safe(name, LONGEST_NAME) for name in types]
    more = f" and {plural(len(names) - NAMED_TYPES, 'more type')}" if len(names) > NAMED_TYPES else ""
    return ", ".join(names[:NAMED_TYPES]) + more


async def _others(operations: Operations, ids: frozenset[str]) -> list[str]:
    sentences = []
    running = await operations.list_operations(COMPARED_OPERATIONS, unfinished=True)
    for one in [one for one in running if one.request.verb == "retry" and one.done < one.total]:
        try:
            pending = await operations.pending_ids(one.number, COMPARED_MEMBERS)
        except OperationNotFound:
            continue
        if both := len(ids.intersection(pending)):
            sentences.append(other_sentence(one, both, one.total - one.done > len(pending)))
    return sentences


def other_sentence(one: Operation, both: int, more: bool) -> str:
    """Return that another operation retries so many of the same jobs, or would; `more`: at least so many."""
    who = f"#{one.number} of {safe(one.request.author.user, LONGEST_NAME)}"
    these = f"{'at least ' if more else ''}{exact(both)} of these, too"
    if one.state in ("paused", "stopped"):
        return f"{who} is {one.state}; resumed, it retries {these}"
    verb = "retries" if one.state == "running" and not one.waits_for else "is to retry"
    return f"{who} {verb} {these}; what it has retried is skipped"
