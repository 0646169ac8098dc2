"""What a detail reads of why jobs died: the breakdown of a signature, and a payload beside one that succeeded."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from datetime import datetime
from functools import partial

from textual.dom import DOMNode

from jobconsole.format.spans import Line, RenderContext
from jobconsole.present.breakdown import (
    ShareRow,
    breakdown_lines,
    comparison_lines,
    pairs_lines,
    row_places,
    share_rows,
)
from jobconsole.tui.base.host import Renewal, host_of
from queue_core.client.causes.compare import Comparison
from queue_core.errors import QueueCoreError
from queue_core.model.report import Breakdown

REST_SECONDS = 0.15
"""How long the cursor must rest before anything is read."""
AGAIN_SECONDS = 5.0
"""Between two reads of the same breakdown, while jobs of the signature go on to die or are retried."""


class Causes:
    """Reads one of the two at a time, when the cursor rests; what was asked for before is then given up."""

    def __init__(self, node: DOMNode, repaint: Callable[[], object]) -> None:
        self._node = node
        self._repaint = repaint
        self._renewal = Renewal(node, "causes")
        # what was read, or why it could not be, with what it is about
        self._breakdown: tuple[str, Breakdown | str] | None = None
        # as of which dead jobs it was read, and when, in seconds of time.monotonic
        self._as_of: Hashable = None
        self._read_at = float("-inf")
        self._comparison: tuple[tuple[str, int], Comparison | str] | None = None
        # the line of the breakdown under the cursor
        self.cursor = 0
        # completed jobs between the last one and the one that is compared with
        self.back = 0
        # equal fields are shown, too
        self.equal = False

    @property
    def rows(self) -> list[ShareRow]:
        """The lines of the breakdown that the cursor can be on."""
        found = self._breakdown[1] if self._breakdown else ""
        return [] if isinstance(found, str) else share_rows(found)

    @property
    def row(self) -> ShareRow | None:
        """The line under the cursor."""
        rows = self.rows
        return rows[min(self.cursor, len(rows) - 1)] if rows else None

    def fields_of(self, signature: str) -> tuple[str, ...]:
        """The fields of payloads that distinguish the dead jobs of a signature best; () where none is known."""
        if self._breakdown is None or self._breakdown[0] != signature or isinstance(self._breakdown[1], str):
            return ()
        return tuple(one.name.removeprefix("payload.") for one in self._breakdown[1].fields)

    def first_death(self, signature: str | None) -> datetime | None:
        """When the first of the dead jobs of a signature died; None: not known, or not yet."""
        if self._breakdown is None or self._breakdown[0] != signature or isinstance(self._breakdown[1], str):
            return None
        return self._breakdown[1].first

    def known(self, signature: str) -> bool:
        """Whether the breakdown of a signature was read, or could not be."""
        return self._breakdown is not None and self._breakdown[0] == signature

    def about(self, changed: bool) -> None:
        """Begin again at the first line, where the subject has changed."""
        if changed:
            self.cursor = self.back = 0

    def move(self, step: int) -> None:
        """Move the cursor over the breakdown."""
        self.cursor = max(0, min(self.cursor + step, len(self.rows) - 1))

    @property
    def place(self) -> int:
        """The line of the breakdown that the cursor is on."""
        found = self._breakdown[1] if self._breakdown else ""
        return 0 if isinstance(found, str) or not self.rows else row_places(found)[min(self.cursor, len(self.rows) - 1)]

    def older(self, step: int) -> None:
        """Compare with an older or a newer completed job."""
        found = self._comparison[1] if self._comparison else ""
        if step < 0 or (isinstance(found, Comparison) and found.older):
            self.back = max(0, self.back + step)

    def breakdown(self, signature: str, context: RenderContext, width: int, as_of: Hashable = None) -> list[Line]:
        """Return the lines of a signature's breakdown; reads it where that was not done.

        It is read again at times where `as_of` has changed, whatever shows that its dead jobs are others now.
        """
        if not signature:
            return [(("this job has not failed: there is no signature to break down", "muted"),)]
        if self._breakdown is None or self._breakdown[0] != signature:
            self._as_of = as_of
            self.read_breakdown(signature)
            return [(("reading ...", "muted"),)]
        if as_of != self._as_of and time.monotonic() - self._read_at >= AGAIN_SECONDS:
            self._as_of = as_of
            self.read_breakdown(signature)
        found = self._breakdown[1]
        if isinstance(found, str):
            return [((found, "warn"),)]
        return breakdown_lines(found, context, width, min(self.cursor, max(0, len(self.rows) - 1)))

    def comparison(self, job_id: str, context: RenderContext, width: int) -> list[Line]:
        """Return a job's payload beside another; reads them where that was not done."""
        key = (job_id, self.back)
        if self._comparison is None or self._comparison[0] != key:
            self.read_comparison(job_id)
            return [(("reading ...", "muted"),)]
        found = self._comparison[1]
        if isinstance(found, str):
            return [((found, "warn"),)]
        return [*comparison_lines(found, context, width, self.equal), *pairs_lines(found, self.back, width)]

    def read_breakdown(self, signature: str) -> None:
        """Read it once the cursor rests."""
        self._renewal.read(signature, partial(self._read_breakdown, signature))

    def read_comparison(self, job_id: str) -> None:
        """Read it once the cursor rests."""
        self._renewal.read((job_id, self.back), partial(self._read_comparison, job_id, self.back))

    async def _read_breakdown(self, signature: str) -> None:
        console = host_of(self._node)
        await console.pause(REST_SECONDS)
        try:
            self._breakdown = (signature, await console.refresher.breakdown(signature))
        except QueueCoreError as error:
            self._breakdown = (signature, str(error))
        self._read_at = time.monotonic()
        self._repaint()

    async def _read_comparison(self, job_id: str, back: int) -> None:
        console = host_of(self._node)
        await console.pause(REST_SECONDS)
        try:
            self._comparison = ((job_id, back), await console.refresher.comparison(job_id, back))
        except QueueCoreError as error:
            self._comparison = ((job_id, back), str(error))
        self._repaint()

    def forget(self) -> None:
        """Read again what is shown next."""
        self._breakdown = self._comparison = None
