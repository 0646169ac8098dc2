"""`connect` and what it returns: every look at the queue from a notebook, and the previews of its changes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypedDict, Unpack

from jobconsole.actions.plan import dead_only
from jobconsole.core.connection import ContextInfo
from jobconsole.core.progress import OperationLine, operation_line
from jobconsole.core.rows import clean_signature, clean_worker, queue_line
from jobconsole.notebook.change import Chosen, Preview, preview
from jobconsole.notebook.connection import NotebookConnection, in_one_sentence
from jobconsole.notebook.draw import Block, Drawing, FactsBlock, TableBlock
from jobconsole.notebook.lists import Listing, SignatureGroup
from jobconsole.notebook.options import RetryOptions
from jobconsole.notebook.records import QUEUE_COLUMNS
from jobconsole.notebook.rows import JobRows
from jobconsole.present.columns import WORKERS, signature_columns
from jobconsole.present.facts import Fact
from jobconsole.present.layout import Column
from jobconsole.present.operation import OPERATIONS
from jobconsole.settings import ConsoleSettings, queue_of, read_settings
from queue_core.client.health import Health, Stats
from queue_core.errors import ConfigurationError, InvalidArgument, NotFound
from queue_core.model.addresses import mask
from queue_core.model.filters import Filter, parse
from queue_core.model.job import Job
from queue_core.model.operation import Operation
from queue_core.model.report import QueueInfo, SignatureInfo, WorkerInfo
from queue_core.model.settings import JobsSettings
from queue_core.queue import JobQueue

if TYPE_CHECKING:
    from jobconsole.notebook.live import LiveDisplay
    from jobconsole.notebook.screen import ConsoleScreen
    from jobconsole.notebook.widget import JobsWidget

WINDOW = 900.0
"""Seconds over which the growth of a group is counted."""
HOUR = 3600.0
"""Seconds after which a live display stops by itself: the page may be closed, which nothing reports."""
_BY_ARGUMENTS = "call connect(postgres_url=…, redis_url=…)"


class Addresses(TypedDict, total=False):
    """Where the jobs are; what is left out comes from the environment and the configuration file."""

    postgres_url: str
    # of PostgreSQL, with the jobs
    schema: str
    redis_url: str
    # of all keys in Redis
    prefix: str
    # the path of a database file
    sqlite: str | os.PathLike[str]
    # seconds after which a server is given up
    timeout: float


def connect(
    jobs: JobQueue | JobsSettings | None = None,
    *,
    config: str | os.PathLike[str] | None = None,
    context: str | None = None,
    read_only: bool = False,
    **addresses: Unpack[Addresses],
) -> NotebookConsole:
    """Connect to where the jobs are, found as the console finds it: addresses here, the environment, jobconsole.yaml.

    `jobs`: a queue of this notebook, or its settings; another connection is opened to the same place. `context`: a
    block of the configuration's contexts. With `read_only` everything that changes jobs is refused.

    Raises:
        ConfigurationError: no servers are configured, or a setting cannot be.
        StoreUnavailable, SchemaError: the store cannot be used.
    """
    with in_one_sentence():
        settings = _settings(jobs, config, context, read_only, addresses)
        queue = queue_of(settings, _BY_ARGUMENTS)
        return NotebookConsole(settings, queue)


def _settings(
    jobs: JobQueue | JobsSettings | None,
    config: str | os.PathLike[str] | None,
    context: str | None,
    read_only: bool,
    addresses: Addresses,
) -> ConsoleSettings:
    if jobs is not None:
        if addresses or config is not None or context is not None:
            raise InvalidArgument("give either a queue, or addresses, a configuration or a context")
        return ConsoleSettings(jobs.settings if isinstance(jobs, JobQueue) else jobs, read_only=read_only)
    unknown = addresses.keys() - Addresses.__annotations__.keys()
    if unknown:
        raise InvalidArgument(f"connect() takes no {', '.join(sorted(unknown))}; it takes {', '.join(_PLACES)}")
    overrides: dict[str, Any] = {"postgres": {}, "redis": {}, "sqlite": {}}
    for name, places in _PLACES.items():
        for block, key in places:
            if (value := addresses.get(name)) is not None:
                overrides[block][key] = os.fspath(value) if isinstance(value, os.PathLike) else value
    if "sqlite" in addresses:
        overrides["queue_backend"] = "sqlite"
    path = None if config is None else os.fspath(config)
    return read_settings(path=path, overrides={"jobs": overrides}, context=context, read_only=read_only)


_PLACES: dict[str, tuple[tuple[str, str], ...]] = {
    "postgres_url": (("postgres", "url"),),
    "schema": (("postgres", "schema"),),
    "redis_url": (("redis", "url"),),
    "prefix": (("redis", "prefix"),),
    "sqlite": (("sqlite", "path"),),
    "timeout": (("postgres", "timeout"), ("redis", "timeout"), ("sqlite", "timeout")),
}


class NotebookConsole(Drawing):
    """Looks at the queue and previews of changes, without `await`; from any thread of the process."""

    def __init__(self, settings: ConsoleSettings, jobs: JobQueue) -> None:
        self.settings = settings
        self.connection = NotebookConnection(jobs, settings.read_only)
        try:
            # A driver refuses a parameter of its address by a ValueError.
            self.connection.run(jobs.open())
        except (OSError, ValueError) as error:
            self.close()
            raise ConfigurationError(mask(str(error))) from error
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<NotebookConsole {self.settings.jobs.mode}{', read-only' * self.settings.read_only}>"

    def close(self) -> None:
        """Disconnect; a second time is safe."""
        self.connection.close()

    def blocks(self) -> Iterator[Block]:
        """Yield where the jobs are."""
        one = self.settings.jobs
        urls = [url.get_secret_value() for url in (one.postgres.url, one.redis.url) if url is not None]
        where = [str(one.sqlite.path)] if one.mode == "sqlite" else [mask(url) for url in urls]
        yield FactsBlock(
            (
                Fact("context", self.settings.word, "warn"),
                Fact("mode", one.mode, "strong"),
                *(Fact("at", place) for place in where),
                Fact("changes", "refused: read-only" if self.settings.read_only else "behind a preview", "muted"),
            )
        )

    # -- looks

    def stats(self) -> Stats:
        """Return how many jobs there are, by band of priority and by queue.

        Raises:
            StoreUnavailable: the store did not answer in time.
        """
        return self.connection.run(self.connection.jobs.stats())

    def health(self) -> Health:
        """Return how the queue is; a store that does not answer makes it unhealthy and raises nothing."""
        return self.connection.run(self.connection.jobs.health())

    def queues(self) -> Listing[QueueInfo]:
        """Return the queues by name.

        Raises:
            StoreUnavailable: the store did not answer in time.
        """
        overview = self.connection.run(self.connection.jobs.inspector.overview())
        queues = sorted(overview.queues, key=lambda queue: queue.name)
        return Listing(queues, TableBlock("", QUEUE_COLUMNS, [*map(queue_line, queues)], "no queues"), overview.now)

    def workers(self) -> Listing[WorkerInfo]:
        """Return the worker processes.

        Raises:
            StoreUnavailable: the store did not answer in time.
        """
        overview = self.connection.run(self.connection.jobs.inspector.overview())
        table = TableBlock("", WORKERS, [*map(clean_worker, overview.workers)], "no workers")
        return Listing(overview.workers, table, overview.now)

    def dlq(self, where: str | Filter = "") -> JobRows:
        """Return the dead jobs that match a filter, such as "type:mail err:~smtp age:<1h"; "trash:yes" for the trash.

        Raises:
            FilterError: the filter cannot be read.
        """
        with in_one_sentence():
            return JobRows(self.connection, dead_only(_filter(where)))

    def jobs(self, where: str | Filter = "") -> JobRows:
        """Return the jobs in any state that match a filter, such as "queue:images status:running".

        Raises:
            FilterError: the filter cannot be read.
        """
        with in_one_sentence():
            return JobRows(self.connection, _filter(where))

    def job(self, job_id: str) -> Job:
        """Return everything that is known about a job.

        Raises:
            JobNotFound: no job has this id.
            StoreUnavailable: the store did not answer in time.
        """
        return self.connection.run(self.connection.jobs.get(job_id))

    def signatures(self, where: str | Filter = "", limit: int = 20) -> Listing[SignatureInfo]:
        """Return the groups of dead jobs by error, the fastest growing first.

        Raises:
            FilterError: the filter cannot be read.
            StoreUnavailable: the store did not answer in time.
        """
        groups = self.connection.run(self._groups(where, limit))
        # The console shortens a signature to fit; here it is copied into the next call.
        columns = (*signature_columns("15m", trend=True), _SIGNATURE)
        table = TableBlock("", columns, [*map(clean_signature, groups)], "no dead jobs")
        return Listing(groups, table, datetime.now(UTC))

    def signature(self, signature: str) -> SignatureGroup:
        """Return the group of dead jobs whose error signature begins so: state, owner, breakdown, newest job.

        Raises:
            FilterError: this is no signature.
            NotFound: no dead job has it.
            InvalidArgument: several begin so.
            StoreUnavailable: the store did not answer in time.
        """
        with in_one_sentence():
            groups = self.connection.run(self._groups(Filter(parse(f"signature:{signature}").terms), 2))
            if not groups:
                raise NotFound(f"no dead job has an error signature that begins with {signature}")
            if len(groups) > 1:
                raise InvalidArgument(f"several error signatures begin with {signature}")
            info, run, jobs = groups[0], self.connection.run, self.connection.jobs
            states, found = run(jobs.signatures.states([info], WINDOW)), run(jobs.breakdown(info.signature))
            return SignatureGroup(self.connection, info, self.job(info.sample_id), states[info.signature], found)

    def operations(self, limit: int = 20) -> Listing[Operation]:
        """Return who changed what, and why, the newest first.

        Raises:
            StoreUnavailable: the store did not answer in time.
        """
        operations = self.connection.run(self.connection.jobs.operations.list_operations(limit))
        table = TableBlock("", _OPERATIONS, [*map(operation_line, operations)], "no operations")
        return Listing(operations, table, datetime.now(UTC))

    async def _groups(self, where: str | Filter, limit: int) -> list[SignatureInfo]:
        return await self.connection.jobs.inspector.signatures(dead_only(_filter(where)), WINDOW, 6, limit)

    def watch(self, where: str | Filter = "", *, every: float = 2.0, seconds: float = HOUR) -> LiveDisplay:
        """Show queues, dead jobs and running jobs live, read every so many seconds; `where` narrows the dead jobs.

        It goes on beside the notebook until the next cell is run, `stop()`, or so many seconds have passed; `wait()`
        keeps the cell busy until it is interrupted.

        Raises:
            FilterError, InvalidArgument: the filter or a time cannot be, or this is no notebook.
            StoreUnavailable: the store did not answer in time.
        """
        from jobconsole.notebook.live import watch

        with in_one_sentence():
            return watch(self.connection, dead_only(_filter(where)), every, seconds)

    def widget(self, where: str = "", *, every: float = 2.0, rows: int = 20) -> JobsWidget:
        """Return a table of dead jobs that refreshes, with retry and delete behind a preview.

        Raises:
            ConfigurationError: anywidget is not installed.
            FilterError: the filter cannot be read.
            StoreUnavailable: the store did not answer in time.
        """
        with in_one_sentence():
            try:
                from jobconsole.notebook.widget import JobsWidget
            except ModuleNotFoundError as error:
                raise ConfigurationError(f"widget() needs {error.name}: pip install 'jobconsole[notebook]'") from None
            return JobsWidget(self.connection, where, every, rows)

    def console_svg(
        self, place: str = "triage", *, columns: int = 120, lines: int = 36, dark: bool = True
    ) -> ConsoleScreen:
        """Return the console's screen as a picture; `place`: a view, such as "live", or a job, as in "job/<id>".

        Raises:
            InvalidArgument: the place leads nowhere, or the size cannot be.
            StoreUnavailable: the store did not answer in time.
        """
        from jobconsole.notebook.screen import console_screen, link_of

        with in_one_sentence():
            context = ContextInfo(self.settings.context or "", self.settings.word, self.settings.colour or "")
            link = link_of(place)
            return self.connection.run(console_screen(self.connection, context, link, (columns, lines), dark))

    # -- changes, behind a preview

    def retry(self, chosen: Chosen, **options: Unpack[RetryOptions]) -> Preview:
        """Return a preview of a retry; its `run` puts the jobs back to queued.

        `chosen`: a filter, an id, a job, several of them, or what `dlq` returned. From 50 jobs on they are spread over
        some time, 200 a second, unless a canary, a rate or a spread is given.

        Raises:
            FilterError, InvalidArgument, InvalidJob: what was chosen, or an option, cannot be.
            StoreUnavailable: the store did not answer in time.
        """
        return self.connection.run(preview(self.connection, "retry", chosen, options))

    def delete(self, chosen: Chosen) -> Preview:
        """Return a preview of a delete; its `run` moves dead jobs to the trash, from where `undo` brings them back.

        Raises:
            FilterError, InvalidArgument: what was chosen cannot be.
            StoreUnavailable: the store did not answer in time.
        """
        return self.connection.run(preview(self.connection, "delete", chosen, {}))


def _filter(where: str | Filter) -> Filter:
    if isinstance(where, Filter):
        return where
    if not isinstance(where, str):
        raise InvalidArgument(f"a filter is a text such as 'type:mail age:<1h', not {where!r}")
    return parse(where)


_SIGNATURE: Column[SignatureInfo] = Column("SIGNATURE", 12, lambda info, context: ((info.signature, "muted"),))
_OPERATIONS: tuple[Column[OperationLine], ...] = tuple(
    column for column in OPERATIONS if column.title not in {"PROGRESS", "RATE", "ETA"}
)
