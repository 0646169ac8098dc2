"""What a choice consists of, for somebody who is about to change it: types, queues, the oldest, one as a sample."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from jobconsole.core.humanize import exact, moment_of
from jobconsole.core.operations import Target
from jobconsole.core.rows import LINE, NAME, JobLine, job_line
from queue_core.errors import JobNotFound
from queue_core.inspection import Inspector
from queue_core.text import safe

PAGE = 200
"""Jobs that are looked at; of more, the newest ones."""
SHOWN = 5
"""Types and queues that are named."""

Facts = tuple[tuple[str, str], ...]


async def breakdown(inspector: Inspector, target: Target) -> Facts:
    """Return the facts that a target does not bring itself, without counting anything.

    Raises:
        StoreUnavailable: the store did not answer in time.
    """
    known = {label for label, _ in target.facts}
    if not target.wheres:
        return await _sample(inspector, target.ids[0]) if target.ids and "sample" not in known else ()
    rows: list[JobLine] = []
    oldest: list[JobLine] = []
    wanted, more = PAGE if "types" not in known else 1, False
    for where in target.wheres:
        page = await inspector.jobs(where, wanted)
        rows += [job_line(job) for job in page.jobs]
        more = more or page.cursor is not None
        if "died" not in known and page.cursor is not None:
            oldest += [job_line(job) for job in (await inspector.jobs(where, 1, None, "oldest")).jobs]
        if len(rows) >= wanted:
            more = more or where is not target.wheres[-1]
            break
    told = facts_of(rows, rows + oldest, more) if rows else ()
    return tuple(pair for pair in told if pair[0] not in known)


def facts_of(rows: Sequence[JobLine], seen: Sequence[JobLine] = (), more: bool = False) -> Facts:
    """Return what one wants to know of some jobs, which are the newest where there are `more`.

    `seen`: those whose times are looked at, where they are others.
    """
    types = Counter(row.type for row in rows).most_common(SHOWN)
    queues = sorted({row.queue for row in rows})
    # In front: what stands at the end of a line is cut off at 80 columns.
    some = f"of the newest {exact(len(rows))}: " if more else ""
    times = [row.updated_at for row in seen or rows]
    last = max(times)
    died = f"from {moment_of(min(times), last)} to {moment_of(last, last)}"
    return (
        ("types", some + ", ".join(f"{name} {exact(number)}" for name, number in types)),
        ("queues", some + ", ".join(queues[:SHOWN])),
        ("changed" if any(row.status != "dead" for row in rows) else "died", died),
        ("sample", sample_of(rows[0])),
    )


def sample_of(row: JobLine) -> str:
    """Return one job in a line: its id's end and what it died of."""
    return f"{row.id[-4:]} {row.type}: {row.error or row.status}"


async def _sample(inspector: Inspector, job_id: str) -> Facts:
    try:
        job = await inspector.get(job_id)
    except JobNotFound:
        return ()
    return (("sample", f"{job.id[-4:]} {safe(job.type, NAME)}: {safe(job.error or job.status, LINE)}"),)
