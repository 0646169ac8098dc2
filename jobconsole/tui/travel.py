"""Places of the console: going to one by its link, copying the link of the one that is shown, the time window."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from jobconsole.core import safefiles
from jobconsole.core.alerts import Watcher
from jobconsole.core.connection import Connection, Source
from jobconsole.core.exporting import Wish, export_file
from jobconsole.core.humanize import plural
from jobconsole.core.links import Link
from jobconsole.core.operations import Target
from jobconsole.core.windows import next_window, word
from jobconsole.tui.background import spawn
from jobconsole.tui.screens.exportsheet import ExportSheet
from jobconsole.tui.services import Services
from queue_core.errors import QueueCoreError
from queue_core.filters import Filter, Term, parse, render
from queue_core.text import safe

OSC_LIMIT = 50_000
"""Characters that are sent to the terminal's clipboard: many terminals drop longer ones without a word."""


class Travel(Services, inherit_bindings=False):
    """What the application does about places and the clipboard."""

    def __init__(self, source: Source | Connection, **options: Any) -> None:
        super().__init__(source, **options)
        self.watcher = Watcher(self.context.thresholds)

    # where the console goes once it is drawn; None: to its first view
    link: Link | None = None

    def on_ready(self) -> None:
        if self.link is not None:
            self.go(self.link)

    def go(self, link: Link) -> None:
        """Go to the place that a link leads to."""
        if link.place in {"live", "events"}:
            self.switch_mode(link.place)
        elif link.place == "jobs":
            self.open_jobs(parse(link.value), safe(link.value))
        elif link.place in {"schedules", "operations"}:
            self.switch_mode(link.place)
            self.call_after_refresh(self._narrow_jobs, parse(link.value), safe(link.value))
        elif link.place == "schedule":
            self.switch_mode("schedules")
            self.call_after_refresh(self._show_schedule, link.value)
        elif link.place == "operation":
            self.switch_mode("operations")
            self.call_after_refresh(self._show_operation, int(link.value))
        elif link.place == "job":
            self.switch_mode("jobs")
            self.call_after_refresh(self._show_job, link.value)
        else:
            self.switch_mode("triage")
            where = parse(link.value) if link.place == "triage" else _signature(link.value)
            self.call_after_refresh(self._narrow_jobs, where, safe(render(where)))

    def _show_schedule(self, name: str) -> None:
        if self.view is not None:
            self.view.show_schedule(name)

    def _show_operation(self, number: int) -> None:
        if self.view is not None:
            self.view.show_operation(number)

    def _show_job(self, job_id: str) -> None:
        if self.view is not None:
            self.view.show_job(job_id)

    def alarm(self, sentences: list[str]) -> None:
        """Tell somebody who looks elsewhere that a threshold was crossed."""
        if not sentences:
            return
        said = "; ".join(sentences)
        self.say(said, "bad")
        thresholds = self.context.thresholds
        if thresholds.bell:
            self.bell()
        if thresholds.notify and self._driver is not None:
            where = safe(self.context.word, 24) or "jobconsole"
            self._driver.write(f"\x1b]9;{where}: {said}\x07")

    def do_window(self) -> None:
        """Count growth over the next time window."""
        window = next_window(self.refresher.wanted.window)
        self.refresher.look_back(window)
        self.say(f"growth is counted over the last {word(window)}", "muted")

    def do_copy_link(self) -> None:
        """Copy the command that opens the place under the cursor."""
        view = self.view
        if view is not None:
            link = (view.pane.link() if view.pane is not None else None) or view.link()
            self.copy(f"jobconsole open {Link(link.place, link.value, self.context.name).text}")

    def copy(self, text: str) -> None:
        """Copy a text to the clipboard of the terminal (OSC 52), and to a file for terminals that refuse it."""
        if len(text) <= OSC_LIMIT:
            self.copy_to_clipboard(text)
        path = safefiles.state_folder() / "copied.txt"
        shown = safe(text, 120)
        try:
            safefiles.write_over(path, f"{text}\n")
        except OSError as error:
            self.say(f"copied {shown} (clipboard only: {path} cannot be written: {error.strerror})")
        else:
            self.say(f"copied {shown}  (also in {path})")

    def export(self, target: Target) -> None:
        """Write jobs into a file, once it was said as what."""
        self.push_screen(ExportSheet(target), self._begin_export)

    def _begin_export(self, wish: Wish | None) -> None:
        if wish is not None:
            spawn(self, "export", self._export, wish)

    async def _export(self, wish: Wish) -> None:
        name = f"jobs-{self.model.now.strftime('%Y%m%d-%H%M%S')}.{wish.format}"
        try:
            number, path = await self._write(wish, name)
        except (QueueCoreError, OSError) as error:
            self.say(f"nothing was exported: {error}", "bad")
        else:
            self.say(f"wrote {plural(number, 'job')} to {path}", "good")

    async def _write(self, wish: Wish, name: str) -> tuple[int, Path]:
        """Write into the current folder, or into this program's own where that one is not for writing."""
        path = Path.cwd() / name
        if not os.access(path.parent, os.W_OK):
            path = safefiles.state_folder() / name
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        inspector = self.connection.jobs.inspector
        return await export_file(inspector, wish, path, lambda number: self.say(f"wrote {number:,} ...", "muted")), path


def _signature(value: str) -> Filter:
    return Filter((Term("signature", "=", value),))
