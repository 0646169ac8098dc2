"""Jobs of a filter: a table in a notebook, an iterator, or data frames that are read page by page."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from jobconsole.actions.export import whole
from jobconsole.notebook.connection import NotebookConnection, in_one_sentence, result_of
from jobconsole.notebook.draw import Block, Drawing, as_of, note
from jobconsole.notebook.records import jobs_table
from queue_core.errors import ConfigurationError, InvalidArgument
from queue_core.model.filters import Filter, render
from queue_core.model.job import Job
from queue_core.model.text import safe

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

SHOWN_JOBS = 20
"""Jobs of a table in a notebook."""
PAGE_JOBS = 1_000
"""Jobs that are read at a time."""
BATCH_JOBS = 10_000
"""Jobs of a batch by default: some 3 MB."""
LONGEST_TEXT = 4_000
"""Characters of a name or an error in a data frame."""


class JobRows(Drawing):
    """The jobs that match a filter, read again at each use, the newest change first."""

    def __init__(self, connection: NotebookConnection, where: Filter) -> None:
        self.where = where
        self._connection = connection

    def __repr__(self) -> str:
        return f"<JobRows {safe(render(self.where)) or 'all jobs'}>"

    def __iter__(self) -> Iterator[Job]:
        """Yield each job, with its payload; jobs that change meanwhile may come twice or not at all."""
        for page in self._pages(payload=True):
            yield from page

    def count(self, at_most: int = 100_000) -> int:
        """Return how many jobs there are, counting no further than `at_most`.

        Raises:
            StoreUnavailable: the store did not answer in time.
        """
        return self._connection.run(self._connection.jobs.count(self.where, at_most=at_most))

    def head(self, limit: int = SHOWN_JOBS) -> list[Job]:
        """Return the first jobs, at most 1,000.

        Raises:
            StoreUnavailable: the store did not answer in time.
        """
        return list(self._connection.run(self._connection.jobs.list(self.where, limit=limit)).jobs)

    def blocks(self) -> Iterator[Block]:
        """Yield the first jobs as a table, with their number."""
        jobs, most = self._connection.jobs, 100_000
        page = self._connection.run(jobs.list(self.where, limit=SHOWN_JOBS))
        yield jobs_table(page.jobs, empty=f"no jobs: {safe(render(self.where))}")
        if page.cursor is not None:
            number = self._connection.run(jobs.count(self.where, at_most=most))
            yield note(f"the newest {SHOWN_JOBS} of {'more than ' * (number >= most)}{number:,}")
        yield as_of(self.now())

    # -- data frames

    def batches(self, rows: int = BATCH_JOBS, *, payload: bool = False) -> Iterator[pyarrow.RecordBatch]:
        """Yield the jobs as record batches of Arrow, each of at most so many rows, so that memory stays flat.

        `payload`: with a column of the payloads as JSON. Texts are made harmless, as everywhere in a notebook.

        Raises:
            ConfigurationError: pyarrow is not installed.
            StoreUnavailable: the store did not answer in time.
        """
        if isinstance(rows, bool) or not isinstance(rows, int) or rows < 1:
            raise InvalidArgument(f"rows is a whole number from 1, not {rows!r}")
        arrow = _module("pyarrow", "batches()")
        schema = _schema(arrow, payload)
        held: list[Job] = []
        for page in self._pages(payload):
            held += page
            while len(held) >= rows:
                yield _batch(arrow, schema, held[:rows])
                del held[:rows]
        if held:
            yield _batch(arrow, schema, held)

    def to_arrow(self, *, payload: bool = False) -> pyarrow.Table:
        """Return the jobs as a table of Arrow; see `batches`.

        Raises:
            ConfigurationError: pyarrow is not installed.
            StoreUnavailable: the store did not answer in time.
        """
        with in_one_sentence():
            arrow = _module("pyarrow", "to_arrow()")
            batches = self.batches(payload=payload)
            return arrow.Table.from_batches(batches, _schema(arrow, payload)).unify_dictionaries()

    def to_pandas(self, *, payload: bool = False) -> pandas.DataFrame:
        """Return the jobs as a data frame of pandas; see `batches`.

        Raises:
            ConfigurationError: pandas or pyarrow is not installed.
            StoreUnavailable: the store did not answer in time.
        """
        with in_one_sentence():
            _module("pandas", "to_pandas()")
            # Each column of the table is given up once it is converted: the peak is one column above the frame.
            return self.to_arrow(payload=payload).to_pandas(split_blocks=True, self_destruct=True)

    def to_polars(self, *, payload: bool = False) -> polars.DataFrame:
        """Return the jobs as a data frame of polars; see `batches`.

        Raises:
            ConfigurationError: polars or pyarrow is not installed.
            StoreUnavailable: the store did not answer in time.
        """
        with in_one_sentence():
            frames = _module("polars", "to_polars()")
            return frames.from_arrow(self.to_arrow(payload=payload))

    def _pages(self, payload: bool) -> Iterator[Sequence[Job]]:
        """Yield pages of jobs; the next one is read while this one is used."""
        thread, inspector = self._connection.thread, self._connection.jobs.inspector

        async def read(cursor: str | None) -> tuple[Sequence[Job], str | None]:
            page = await inspector.jobs(self.where, PAGE_JOBS, cursor)
            return await whole(inspector, page.jobs) if payload else page.jobs, page.cursor

        with in_one_sentence():
            coming = thread.start(read(None))
            try:
                while True:
                    page, cursor = result_of(coming)
                    if cursor is None:
                        yield page
                        return
                    coming = thread.start(read(cursor))
                    yield page
            finally:
                coming.cancel()


_WORDS = ("type", "queue", "status", "failure_kind", "signature", "worker")
"""Columns with few values, which are kept once each."""
_TIMES = ("created_at", "updated_at", "run_at", "started_at", "completed_at", "trashed_at")
_NUMBERS = ("priority", "retry_count", "max_retries", "losses", "crashes", "progress")
_TEXTS = ("id", "error", "ordering_key", "unique_key")
COLUMNS = (
    "id", "type", "queue", "status", "priority", "created_at", "updated_at", "run_at", "started_at", "completed_at",
    "retry_count", "max_retries", "failure_kind", "signature", "error", "worker", "progress", "losses", "crashes",
    "ordering_key", "unique_key", "tags", "trashed_at",
)  # fmt: skip
"""The columns of a data frame, with `payload` behind them where it is asked for."""


def _schema(arrow: Any, payload: bool) -> Any:
    kinds = {
        **dict.fromkeys(_WORDS, arrow.dictionary(arrow.int32(), arrow.string())),
        **dict.fromkeys(_TIMES, arrow.timestamp("us", tz="UTC")),
        **dict.fromkeys(_NUMBERS, arrow.int32()),
        **dict.fromkeys((*_TEXTS, "payload"), arrow.string()),
        "tags": arrow.list_(arrow.string()),
    }
    return arrow.schema([(name, kinds[name]) for name in (*COLUMNS, *(["payload"] if payload else []))])


def _batch(arrow: Any, schema: Any, jobs: Sequence[Job]) -> Any:
    arrays = []
    for field in schema:
        values = [_VALUES.get(field.name, _value)(job, field.name) for job in jobs]
        # Words are encoded from plain strings: of a dictionary type, Arrow would not take them.
        word = field.name in _WORDS
        array = arrow.array(values, arrow.string() if word else field.type)
        arrays.append(array.dictionary_encode() if word else array)
    return arrow.RecordBatch.from_arrays(arrays, schema=schema)


def _value(job: Job, name: str) -> Any:
    value = getattr(job, name)
    return safe(value, LONGEST_TEXT) if isinstance(value, str) else value


def _payload(job: Job) -> str:
    text = job.payload_text
    return safe(text, len(text) * _WIDEST) if job.payload is None else json.dumps(job.payload)


_WIDEST = 10
"""Characters that an unseen one becomes at most."""
_VALUES: dict[str, Callable[[Job, str], Any]] = {
    "tags": lambda job, name: [safe(tag, LONGEST_TEXT) for tag in job.tags],
    # JSON with everything escaped that is not plain ASCII; where the stored text is no JSON, that text.
    "payload": lambda job, name: _payload(job),
}


def _module(name: str, call: str) -> Any:
    """Return a module of data frames, or name what to install."""
    try:
        import_module("pyarrow")
        return import_module(name)
    except ImportError:
        needed = "pyarrow" if name == "pyarrow" else f"{name} and pyarrow"
        raise ConfigurationError(f"{call} needs {needed}: pip install {needed.replace(' and', '')}") from None
