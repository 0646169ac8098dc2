"""Which jobs a verb acts on: ids as arguments or from standard input, or everything that filters match."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jobconsole.cli.failures import DONE, Missing, Refused, UsageError, note, progress, warn
from jobconsole.cli.output import Output
from jobconsole.cli.parser import duration
from jobconsole.cli.session import connected
from jobconsole.format.humanize import plural
from jobconsole.format.words import PART, canonical_id
from queue_core.errors import FilterError, JobNotFound, QueueNotFound

if TYPE_CHECKING:
    from queue_core.client.finding.search import SearchProgress
    from queue_core.model.filters import Filter
    from queue_core.model.job import Job
    from queue_core.model.states import Status
    from queue_core.queue import JobQueue


_FLAGS = {"type": ":=", "queue": ":=", "tag": ":=", "signature": ":", "status": ":"}
"""Options that are one term of a filter, with the sign between field and value."""
_PROGRESS_SECONDS = 0.4
"""Seconds between two lines that show how far a search is."""
_LONGEST_INPUT = 64 << 20
"""Bytes of ids that are read from standard input: more than a million."""


_EVERYTHING = {
    "": "all jobs",
    "status=dead": "all dead jobs",
    "trash:yes": "all jobs in the trash",
    "status=dead trash:yes": "all dead jobs in the trash",
}
"""What operations on everything are noted for, by the filter."""


@dataclass(frozen=True, slots=True)
class JobSelection:
    """Either ids, or a filter."""

    ids: tuple[str, ...] = ()
    where: Filter | None = None

    @property
    def label(self) -> str:
        """What an operation on them is noted for."""
        from queue_core.model.filters import render

        if self.where is not None:
            asked = render(self.where)
            return _EVERYTHING.get(asked, asked)
        return f"job {self.ids[0]}" if len(self.ids) == 1 else f"{plural(len(self.ids), 'job')} by id"


def add_filters(parser: argparse.ArgumentParser) -> None:
    """Declare the options that narrow a list."""
    group = parser.add_argument_group("filters (all of them must hold)")
    group.add_argument(
        "--filter",
        metavar="TEXT",
        help="in the filter language, as in 'type:mail err:~smtp age:<1h'; @NAME is the filter saved as NAME",
    )
    whole = "look for a text: in all dead jobs, however long that takes (default: for 2 s)"
    group.add_argument("--search-all", action="store_true", help=whole)
    group.add_argument("--type", metavar="NAME", help="of this type")
    group.add_argument("--queue", metavar="NAME", help="in this queue")
    group.add_argument("--signature", metavar="HEX", help="whose error signature begins so")
    group.add_argument("--status", metavar="WORD", help="in this state")
    group.add_argument("--tag", metavar="NAME", help="with this tag")
    group.add_argument("--older-than", type=duration, metavar="T", help="whose last change is longer ago, as in 2h")


def add_selection(parser: argparse.ArgumentParser) -> None:
    """Declare what chooses jobs for a verb: ids, filters, or all of them."""
    parser.add_argument("ids", nargs="*", metavar="ID", help="jobs; - reads ids from standard input")
    add_filters(parser)
    parser.add_argument("--all", action="store_true", help="every job that this verb acts on")


def filter_of(options: argparse.Namespace, *always: str) -> Filter:
    """Return the filter of the options, with `always` in the filter language.

    Raises:
        UsageError, FilterError: an option, or the text of --filter, cannot be understood.
    """
    from queue_core.model.filters import Filter, parse

    parts = [parse(" ".join(always)), *(_flag(options, name, sign) for name, sign in _FLAGS.items())]
    if options.older_than is not None:
        parts.append(parse(f"age:>{options.older_than:f}s"))
    if options.filter is not None:
        parts.append(parse(options.filter))
    return Filter(tuple(term for part in parts for term in part.terms), any(part.trash for part in parts))


def _flag(options: argparse.Namespace, name: str, sign: str) -> Filter:
    """Return the filter of one option, whose value is taken as it is."""
    from queue_core.model.filters import parse

    value = getattr(options, name)
    if value is None:
        return parse("")
    try:
        return parse(f"{name}{sign}{quoted(value)}")
    except FilterError as error:
        raise UsageError(f"argument --{name}: {error.reason}") from None


def selection_of(options: argparse.Namespace, *always: str) -> JobSelection:
    """Return what was chosen; `always` narrows filters to the jobs that the verb acts on.

    Raises:
        UsageError: nothing was chosen, or ids and filters together.
        FilterError, JobNotFound: a filter or an id cannot be understood.
    """
    filtered = options.all or any(getattr(options, name) is not None for name in (*_FLAGS, "filter", "older_than"))
    if options.ids and filtered:
        raise UsageError("give either ids or filters, not both")
    if options.ids:
        return JobSelection(ids=tuple(dict.fromkeys(map(canonical, _ids(options.ids)))))
    if not filtered:
        raise UsageError("which jobs? give ids, a filter such as --signature or --type, or --all")
    return JobSelection(where=filter_of(options, *always))


async def check_queue(jobs: JobQueue, name: str | None) -> None:
    """Check that a queue exists; None passes.

    Raises:
        QueueNotFound: it does not.
    """
    if name is not None and name not in await jobs.store.queues():
        raise QueueNotFound(name)


_OPERATIONS = 1_000
"""Operations, the last ones, that are looked through for a signature."""


async def check_signature(jobs: JobQueue, given: str | None) -> None:
    """Check that the store knows a signature that begins so; None passes.

    One whose jobs were all retried since is known by its deaths, by what was set of it, and by the last operations on
    it.

    Raises:
        Missing: it does not.
    """
    if given is None:
        return
    from queue_core.model.filters import Filter, Term

    name = given.lower()
    terms = (Term("status", "=", "dead"), Term("signature", "=", name))
    known = (
        await jobs.inspector.known_signatures(Filter(terms), 60.0, 1)
        or await jobs.signatures.died_of(name)
        or any(one.startswith(name) for one in (await jobs.inspector.signature_facts())[1])
        or await jobs.inspector.count(Filter(terms, trash=True), 1)
        or any(
            signature.startswith(name)
            for operation in await jobs.operations.list_operations(_OPERATIONS)
            for signature in operation.request.signatures
        )
    )
    if not known:
        raise Missing(f"no dead job has a signature that begins with '{given}'")


async def check_listed(jobs: JobQueue, given: str | None) -> None:
    """Check the signature of a list in which nothing was found; unlike a change, it shows jobs that are not dead, too.

    Raises:
        Missing: the store does not know it, and no job has it.
    """
    from queue_core.model.filters import Filter, Term

    if given is not None and not await jobs.inspector.count(Filter((Term("signature", "=", given.lower()),)), 1):
        await check_signature(jobs, given)


async def hint_names(jobs: JobQueue, where: Filter | None) -> list[str]:
    """Warn of types and queues that a filter names which found nothing, where they are not known; return the sentences.

    There may be jobs of a type that no worker has announced, so this is no error.
    """
    terms = () if where is None else where.terms
    asked: dict[str, list[str]] = {"type": [], "queue": []}
    for term in terms:
        if term.field in asked and term.operator == "=" and not term.negated:
            asked[term.field].append(term.value)
    types = await jobs.inspector.types() if asked["type"] else {}
    queues = await jobs.store.queues() if asked["queue"] else ()
    sentences = [f"no worker has announced a type '{name}'" for name in asked["type"] if name not in types]
    sentences += [f"there is no queue '{name}'" for name in asked["queue"] if name not in queues]
    for sentence in sentences:
        warn(sentence)
    return sentences


async def read_jobs(
    jobs: JobQueue, where: Filter, limit: int, cursor: str | None, oldest: bool
) -> tuple[list[Job], str | None]:
    """Return so many jobs and the cursor behind them, a part at a time: for each the store has its whole time limit."""
    found: list[Job] = []
    while True:
        page = await jobs.inspector.jobs(
            where, min(limit - len(found), PAGE_JOBS), cursor, "oldest" if oldest else "newest"
        )
        found += page.jobs
        cursor = page.cursor
        if cursor is None or len(found) >= limit:
            return found, cursor


def canonical(job_id: str) -> str:
    """Return a whole id as stores write it, and a part of one as it was given: `find_id` finds its job.

    Raises:
        JobNotFound: it is neither, so no job has it.
    """
    found = canonical_id(job_id)
    if found is None:
        raise JobNotFound(job_id)
    return found


WHOLE_ID = 36
"""Characters of a whole id."""
PAGE_JOBS, MAX_PAGES = 200, 10
"""Jobs that are read at a time, and how often for an id whose middle is left out."""
NAMED_IDS = 4
"""Ids that the sentence about an ambiguous one names."""


async def find_id(jobs: JobQueue, given: str) -> str:
    """Return the id that begins so, or that begins and ends so: `01a1fdb8`, `01a1fdb8\u2026ff7d`; a whole id as it is.

    It reads a bounded number of jobs, in the trash, too.

    Raises:
        JobNotFound: no job has such an id.
        UsageError: several have, or too many begin so to find the one that ends so.
    """
    part = PART.fullmatch(given)
    if part is not None and len(given) == WHOLE_ID:
        return given
    if part is None:
        raise JobNotFound(given)
    head, tail = part[1].lower().replace("-", ""), (part[2] or "").lower()
    found: list[str] = []
    for trash in (False, True):
        found += await _begin_so(jobs, given, head, tail, trash)
    if not found:
        raise JobNotFound(given)
    if len(found) > 1:
        named = ", ".join(found[:NAMED_IDS])
        raise UsageError(f"'{given}' is part of several ids: {named}{' and others' if len(found) > NAMED_IDS else ''}")
    return found[0]


def find_job(options: argparse.Namespace, output: Output, given: str) -> str:
    """Return the id that begins so, on a connection of its own; see `find_id`."""
    found: list[str] = []

    async def find(jobs: JobQueue, options: argparse.Namespace, output: Output) -> int:
        found.append(await find_id(jobs, given))
        return DONE

    connected(options, output, find)
    return found[0]


async def find_ids(jobs: JobQueue, given: Sequence[str]) -> tuple[str, ...]:
    """Return the ids of these jobs, each once; see `find_id`."""
    return tuple(dict.fromkeys([await find_id(jobs, one) for one in given]))


async def states_of(jobs: JobQueue, ids: Sequence[str]) -> dict[str, tuple[Status, bool]]:
    """Return the state of each of these jobs that is there, and whether it is in the trash."""
    from queue_core.model.filters import Filter, set_of

    found: dict[str, tuple[Status, bool]] = {}
    for start in range(0, len(ids), PAGE_JOBS):
        named = set_of("ids", ids[start : start + PAGE_JOBS])
        for trash in (False, True):
            page = await jobs.inspector.jobs(Filter((named,), trash), PAGE_JOBS)
            found |= {job.id: (job.status, trash) for job in page.jobs}
    return found


async def in_dlq(jobs: JobQueue, ids: tuple[str, ...]) -> tuple[str, ...]:
    """Leave out the jobs that have left the DLQ since their ids were listed: what has completed would run again.

    Raises:
        Refused: none of them is there.
    """
    from queue_core.model.states import Status

    left = {job_id for job_id, state in (await states_of(jobs, ids)).items() if state != (Status.DEAD, False)}
    if not left:
        return ids
    sentence = (
        f"not in the DLQ any more, and left alone: {plural(len(left), 'job')} of {len(ids):,}; "
        "'job retry' takes completed ones and those in the trash, too"
    )
    if len(left) == len(ids):
        raise Refused(sentence)
    warn(sentence)
    return tuple(job_id for job_id in ids if job_id not in left)


async def _begin_so(jobs: JobQueue, given: str, head: str, tail: str, trash: bool) -> list[str]:
    from queue_core.model.filters import Filter, Term

    where, cursor = Filter((Term("id", "=", head),), trash), None
    found: list[str] = []
    for _ in range(MAX_PAGES if tail else 1):
        page = await jobs.inspector.jobs(where, PAGE_JOBS if tail else NAMED_IDS + 1, cursor)
        found += [job.id for job in page.jobs if job.id.endswith(tail)]
        cursor = page.cursor
        if cursor is None or len(found) > NAMED_IDS:
            return found
    if tail and len(found) != 1:
        raise UsageError(f"more than {PAGE_JOBS * MAX_PAGES:,} ids begin like '{given}'; give more of it")
    return found


async def search(jobs: JobQueue, options: argparse.Namespace, where: Filter | None) -> SearchProgress | None:
    """Look for the texts that a filter asks for, and note how far that went; None: it asks for none.

    Lists and changes by this filter mean what was found.

    Raises:
        FilterError: too many error signatures have an owner or a state that is asked for.
    """
    if where is None or not any(term.field == "text" for term in where.terms):
        return None
    from jobconsole.format.words import searched_phrase
    from queue_core.client.finding.inspector import search_texts
    from queue_core.client.finding.search import SEARCH_SECONDS

    ends = time.monotonic() + SEARCH_SECONDS
    try:
        while (found := await search_texts(jobs.inspector, where, _PROGRESS_SECONDS)) is not None and not (
            found.done or found.full
        ):
            progress(searched_phrase(found))
            if not options.search_all and time.monotonic() >= ends:
                break
    finally:
        progress("")
    if found is not None:
        goes_on = "" if found.done or found.full else "; --search-all goes on to the end"
        note(f"{searched_phrase(found)}{goes_on}")
    return found


def search_body(found: SearchProgress | None) -> dict[str, object]:
    """Return how far a search went, for JSON; nothing where there was none."""
    if found is None:
        return {}
    return {"searched": {"jobs": found.looked_at, "of": found.total, "found": found.found, "whole": found.whole}}


def _ids(arguments: Sequence[str]) -> list[str]:
    ids: list[str] = []
    for argument in arguments:
        ids += _from_stdin() if argument == "-" else [argument]
    return ids


def _from_stdin() -> list[str]:
    text = sys.stdin.read(_LONGEST_INPUT + 1)
    if len(text) > _LONGEST_INPUT:
        raise UsageError(f"more than {_LONGEST_INPUT:,} characters of ids on standard input")
    return text.split()


def quoted(value: str) -> str:
    """Return a value as the filter language takes it whatever characters it has."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
