"""Records as a table, and a group of dead jobs with its verbs."""

from __future__ import annotations

from collections.abc import Coroutine, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Generic, TypeVar, Unpack

from jobconsole.actions.plan import dead_of
from jobconsole.format.humanize import plural
from jobconsole.notebook.change import Preview, preview
from jobconsole.notebook.connection import NotebookConnection
from jobconsole.notebook.draw import Block, Drawing, FactsBlock, TableBlock, TextBlock, as_of, note
from jobconsole.notebook.options import RetryOptions
from jobconsole.notebook.rows import JobRows
from jobconsole.present.breakdown import ShareRow, notes, percent, share_rows
from jobconsole.present.facts import Fact, of_group
from jobconsole.present.layout import Column
from jobconsole.present.signature import of_state
from queue_core.model.filters import Filter
from queue_core.model.job import Job
from queue_core.model.report import Breakdown, SignatureInfo
from queue_core.model.triage.signatures import SignatureState

T = TypeVar("T")

SHARES: tuple[Column[ShareRow], ...] = (
    Column("PROPERTY", 24, lambda row, context: ((row.label, "muted"),)),
    Column("VALUE", 60, lambda row, context: ((row.value, "text"),)),
    Column("DEAD", 6, lambda row, context: ((percent(row.dead), "strong"),), right=True),
    Column("COMPLETED", 9, lambda row, context: ((percent(row.completed), "muted"),), right=True),
)
"""The columns of a breakdown."""


class Listing(Drawing, Generic[T]):
    """Records that a notebook shows as a table: a sequence of them, as of one moment."""

    def __init__(self, records: Sequence[T], table: TableBlock, now: datetime) -> None:
        self._records = records
        self._table = table
        self._now = now

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[T]:
        return iter(self._records)

    def __getitem__(self, place: int) -> T:
        return self._records[place]

    def __repr__(self) -> str:
        return f"<Listing of {len(self._records)}>"

    def now(self) -> datetime:
        """Return when they were read, by the store's clock."""
        return self._now

    def blocks(self) -> Iterator[Block]:
        """Yield the table, and its moment."""
        yield self._table
        yield as_of(self._now)


class SignatureGroup(Drawing):
    """The dead jobs that died of the same error."""

    def __init__(
        self,
        connection: NotebookConnection,
        info: SignatureInfo,
        sample: Job,
        state: SignatureState,
        breakdown: Breakdown,
    ) -> None:
        self.info = info
        # its state, owner, note and releases, as it was read
        self.state = state
        # what its jobs have in common
        self.breakdown = breakdown
        # the newest job of the group
        self.sample = sample
        self._connection = connection

    def __repr__(self) -> str:
        return f"<SignatureGroup {self.info.signature}: {plural(self.info.count, 'job')}>"

    @property
    def jobs(self) -> JobRows:
        """The jobs of the group."""
        return JobRows(self._connection, self._where)

    @property
    def _where(self) -> Filter:
        return dead_of(self.info.signature, Filter())

    def retry(self, **options: Unpack[RetryOptions]) -> Preview:
        """Return a preview of a retry of all of them; see NotebookConsole.retry."""
        return self._of_group(preview(self._connection, "retry", self._where, options))

    def delete(self) -> Preview:
        """Return a preview of a delete of all of them; see NotebookConsole.delete."""
        return self._of_group(preview(self._connection, "delete", self._where, {}))

    def blocks(self) -> Iterator[Block]:
        """Yield state, owner and release, what the jobs have in common, and the newest job's traceback."""
        yield FactsBlock((*of_group(self.info, "15m"), *of_state(self.state)))
        yield FactsBlock((Fact("newest", self.sample.id, "muted"),))
        rows = share_rows(self.breakdown)
        if rows:
            yield TableBlock("", SHARES, rows)
            yield from map(note, notes(self.breakdown))
        if self.sample.traceback:
            yield TextBlock("traceback of the newest", self.sample.traceback, unfolded=True)
        yield as_of(self.now())

    def _of_group(self, work: Coroutine[Any, Any, Preview]) -> Preview:
        made = self._connection.run(work)
        # The console shows the operation with the group.
        made.plan = replace(made.plan, label=self.info.title, signatures=(self.info.signature,))
        return made
