"""Move: where jobs may go, what somebody wrote as a target, and what to know about it beforehand."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from jobconsole.core.rows import QueueLine
from jobconsole.core.snapshot import Snapshot
from queue_core.errors import InvalidArgument
from queue_core.operations import Way
from queue_core.text import safe
from queue_core.validation import check_name

NAMED = 3
"""Types that a warning names."""


def offered(queues: Iterable[QueueLine], written: str) -> list[QueueLine]:
    """Return the queues whose names hold what was written, those that begin with it first.

    A name that cannot be shown as it is is not offered: whoever chose it would see another one.
    """
    part = written.strip().casefold()
    found = [queue for queue in queues if part in queue.name.casefold() and queue.name == queue.label]
    return sorted(found, key=lambda queue: (not queue.name.casefold().startswith(part), queue.name))


def way_of(queue: str, priority: int | None) -> Way:
    """Return where jobs are to go; an empty name and no priority leave what they have.

    Raises:
        InvalidArgument: neither is given.
        InvalidJob: it is no name of a queue.
    """
    queue = queue.strip()
    if not queue and priority is None:
        raise InvalidArgument("name another queue or another priority")
    return Way(queue=check_name(queue, "the queue's name") if queue else None, priority=priority)


def warnings(queue: str, types: Sequence[str], snapshot: Snapshot | None) -> list[str]:
    """Return what to know about a target before jobs of these types are moved there, a sentence each."""
    queue = queue.strip()
    if not queue or snapshot is None:
        return []
    name = safe(queue, 60)
    line = next((line for line in snapshot.queues if line.name == queue), None)
    said = []
    if line is None:
        said.append(f"there is no queue '{name}' yet: the first moved job makes it")
    elif line.paused:
        said.append(f"'{name}' is paused: jobs wait there until it goes on")
    idle = [type_ for type_ in types if not any(worker.runs(queue, type_) for worker in snapshot.workers)]
    if idle:
        others = f" and {len(idle) - NAMED} more types" if len(idle) > NAMED else ""
        said.append(f"no live worker of '{name}' runs {', '.join(idle[:NAMED])}{others}")
    elif not types and not any(queue in worker.queues and not worker.lost for worker in snapshot.workers):
        said.append(f"no live worker takes jobs from '{name}'")
    return said
