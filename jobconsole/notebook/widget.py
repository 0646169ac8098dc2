"""A table of jobs that refreshes, with retry and delete behind a preview: an anywidget for JupyterLab, VS Code, marimo.

The page asks for each refresh, so that a closed page reads nothing more. It is given texts and tones, never HTML, and
answers with ids, a filter and the number of a preview; what is previewed stays here, with its frozen jobs.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future, wait
from datetime import UTC, datetime
from typing import Any, NamedTuple

import anywidget
import traitlets

from jobconsole.actions.plan import Report, dead_only
from jobconsole.core.rows import JobLine, job_line
from jobconsole.format.glyphs import UNICODE
from jobconsole.format.humanize import exact, plural
from jobconsole.format.spans import RenderContext
from jobconsole.format.words import WORDS
from jobconsole.notebook.change import Chosen, Preview, carry_out, preview, sentence_of_report
from jobconsole.notebook.connection import NotebookConnection, sentence_of
from jobconsole.notebook.draw import static
from jobconsole.notebook.records import JOB_COLUMNS
from jobconsole.present.facts import moment
from queue_core.errors import InvalidArgument, QueueCoreError, StoreUnavailable
from queue_core.model.filters import Filter, parse
from queue_core.model.operation import MemberVerb
from queue_core.model.report import Page

COUNTED = 100_000
"""Jobs up to which their number is shown exactly."""
ANSWER_SECONDS = 1.0
"""How long a refresh waits for the store: the notebook does nothing else meanwhile."""
MAX_IDS = 1_000
"""Jobs that a page can mark."""
COLUMNS = tuple(column for column in JOB_COLUMNS if column.title not in {"STATUS", "PRI"})


class FoundJobs(NamedTuple):
    """What one read has given."""

    where: Filter
    page: Page
    # of all that match, counted no further than `COUNTED`
    number: int


class JobsWidget(anywidget.AnyWidget):  # type: ignore[misc]  # traitlets and anywidget are checked as if not installed
    """Dead jobs of a filter."""

    _esm = static("widget.js")
    _css = static("drawing.css") + static("widget.css")
    # the titles, and each job as its id and its cells: texts with tones
    table = traitlets.Dict().tag(sync=True)
    # title, facts and number of the preview that is open; empty: none
    preview = traitlets.Dict().tag(sync=True)
    # what came of the last change, or what went wrong
    message = traitlets.Dict().tag(sync=True)
    # the filter as it was written
    filter = traitlets.Unicode().tag(sync=True)
    # seconds between two refreshes
    every = traitlets.Float(2.0).tag(sync=True)
    read_only = traitlets.Bool(False).tag(sync=True)

    def __init__(self, connection: NotebookConnection, where: str, every: float, rows: int) -> None:
        """`rows`: how many jobs are shown.

        Raises:
            FilterError: the filter cannot be read.
            StoreUnavailable: the store did not answer in time.
        """
        super().__init__()
        self._connection = connection
        self._rows = rows
        self._where = dead_only(parse(where))
        self._previewed: Preview | None = None
        self._number = 0
        self._report: Report | None = None
        self._running: Future[Report] | None = None
        self._reading: Future[FoundJobs] | None = None
        # the last read has given nothing
        self._lost = False
        self.filter, self.every, self.read_only = where, every, connection.read_only
        self._show_found(connection.run(self._found()))
        self.on_msg(self._answer)

    def _answer(self, widget: object, content: object, buffers: object) -> None:
        """Do what the page asks for; what goes wrong is shown there."""
        if not isinstance(content, dict):
            return
        try:
            self._do(content)
        except QueueCoreError as error:
            self._lost = isinstance(error, StoreUnavailable) or content.get("do") == "refresh"
            self.message = {"text": sentence_of(error), "tone": "bad"}
            self._show({})

    def _do(self, content: dict[str, Any]) -> None:
        verb = content.get("do")
        if verb == "filter":
            text = str(content.get("text", ""))
            self._where, self.filter = dead_only(parse(text)), text
            self.message = {}
        elif verb == "preview":
            self._open(content)
        elif verb == "run":
            self._run(content.get("number"), str(content.get("why", "")))
        elif verb == "back":
            self._close()
        self._read()

    def _open(self, content: dict[str, Any]) -> None:
        ids = content.get("ids")
        chosen: Chosen = self._where if ids is None else [str(one) for one in ids[:MAX_IDS]]
        named: MemberVerb = "delete" if content.get("verb") == "delete" else "retry"
        one = self._connection.run(preview(self._connection, named, chosen, {}))
        self._number += 1
        self._previewed, self.message = one, {}
        words = WORDS[named]
        self.preview = {
            "number": self._number,
            "title": words.title,
            "button": f"{words.button} {plural(len(one), 'job')}",
            "jobs": len(one),
            "facts": [[fact.label, fact.text()] for fact in one.facts if fact.known],
            "then": words.consequence,
        }

    def _run(self, number: object, why: str) -> None:
        """Carry out the preview that the page shows, beside the notebook."""
        one = self._previewed
        if one is None or number != self._number:
            raise InvalidArgument("this preview is not open any more")
        plan = one.confirmed(why)
        self._close()

        def note(report: Report) -> None:
            self._report = report

        self._report = None
        self._running = self._connection.thread.start(carry_out(self._connection.operations, plan, note))

    def _close(self) -> None:
        self._previewed, self.preview = None, {}

    def _read(self) -> None:
        """Show the jobs as they are now; a store that takes its time must not hold the notebook up meanwhile."""
        if self._reading is None:
            self._reading = self._connection.thread.start(self._found())
        reading, where = self._reading, self._where
        if not wait({reading}, ANSWER_SECONDS).done:
            self._lost = True
            self.message = {"text": f"no answer within {ANSWER_SECONDS:g} s; waiting for it", "tone": "warn"}
            self._show({})
            return
        self._reading = None
        found = reading.result()
        if found.where != where:
            # The filter was changed while it was being read.
            self._read()
            return
        if self._lost:
            self._lost, self.message = False, {}
        self._progress()
        self._show_found(found)

    async def _found(self) -> FoundJobs:
        jobs, where = self._connection.jobs, self._where
        page = await jobs.list(where, limit=self._rows)
        number = len(page.jobs) if page.cursor is None else await jobs.count(where, at_most=COUNTED)
        return FoundJobs(where, page, number)

    def _show_found(self, found: FoundJobs) -> None:
        page, number, now = found.page, found.number, datetime.now(UTC)
        more = f"the newest {len(page.jobs)} of {'more than ' * (number >= COUNTED)}{exact(number)}"
        self._show({
            "titles": [[column.title, column.right] for column in COLUMNS],
            "rows": _rows(map(job_line, page.jobs), now),
            "note": more if page.cursor is not None else plural(number, "dead job"),
            "moment": moment(now),
        })  # fmt: skip

    def _show(self, change: dict[str, Any]) -> None:
        """Answer the page: it asks for the next refresh once the table has changed, and be it its turn alone."""
        self.table = {**self.table, **change, "turn": self.table.get("turn", 0) + 1}

    def _progress(self) -> None:
        """Show how far the change is that was carried out last."""
        running, report = self._running, self._report
        if running is None:
            return
        if running.done():
            self._running = None
            report = running.result()
            done = report.operation is not None and report.operation.state == "done"
            self.message = {"text": sentence_of_report(report), "tone": "good" if done else "warn"}
        elif report is not None:
            total = len(report.plan.ids)
            text = f"{report.plan.verb} #{report.number}: {exact(report.done)} of {plural(total, 'job')}"
            self.message = {"text": text, "tone": "accent"}


def _rows(lines: Iterable[JobLine], now: datetime) -> list[dict[str, Any]]:
    context = RenderContext(now, UNICODE)
    return [
        {"id": line.id, "cells": [[*map(list, column.value(line, context))] for column in COLUMNS]} for line in lines
    ]
