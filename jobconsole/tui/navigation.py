"""Navigation between views, by key or link, and output to the clipboard or a file."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

from textual.app import App

from jobconsole.actions import export
from jobconsole.actions.command import joined, looking
from jobconsole.actions.export import ExportOptions, export_file
from jobconsole.actions.plan import Target
from jobconsole.format.humanize import plural
from jobconsole.tui.base.host import Host, spawn
from jobconsole.tui.base.links import Link
from jobconsole.tui.screens.view import View
from jobconsole.tui.sheets.confirm import ExportSheet
from jobconsole.tui.terminal import SuspendingDriver
from jobconsole.tui.views import VIEW_OF
from queue_core.errors import ConfigurationError, QueueCoreError
from queue_core.model.filters import Filter, parse
from queue_core.model.text import safe

OSC_LIMIT = 50_000
"""Characters that are sent to the terminal's clipboard: many terminals drop longer ones without a word."""


class Navigation:
    """The application's navigation; it has one."""

    def __init__(self, app: App[Any], view: Callable[[], View | None]) -> None:
        """`view`: returns the view that is on the screen; None before its widgets are there."""
        self._app = app
        self._view = view
        # the signature whose runbook was copied last; "": its id was
        self._copied = ""

    @property
    def _host(self) -> Host:
        return cast(Host, self._app)

    def go(self, link: Link) -> None:
        """Go to the place that a link leads to."""
        view = VIEW_OF[link.place]
        self._app.switch_mode(view.name)
        if link.place == view.item:
            self._app.call_after_refresh(self._show_item, link.value)
        elif view.filtered:
            self._app.call_after_refresh(self._narrow, parse(link.value), safe(link.value))

    def _show_item(self, item: str) -> None:
        view = self._view()
        if view is not None:
            view.show_item(item)

    def open_jobs(self, where: Filter, text: str) -> None:
        """Go to the jobs that match a filter; `text` is how it is shown."""
        self._app.switch_mode("jobs")
        self._app.call_after_refresh(self._narrow, where, text)

    def _narrow(self, where: Filter, text: str) -> None:
        view = self._view()
        if view is not None:
            view.filter_line.hold(where, text)

    def do_copy_link(self) -> None:
        """Copy the command that opens the place under the cursor."""
        view = self._view()
        if view is not None:
            link = (view.pane.link() if view.pane is not None else None) or view.link()
            self.copy(f"jobconsole open {Link(link.place, link.value, self._host.context.name).text}")

    def do_contexts(self) -> None:
        """Show all contexts."""
        from jobconsole.tui.screens.contexts import ContextsScreen

        if not self._host.places.number:
            self._host.show_notice("no contexts are configured; the contexts: of jobconsole.yaml name them", "warn")
            return
        try:
            screen = ContextsScreen(self._host.places, self._host.context.name)
        except ConfigurationError as error:
            self._host.show_notice(str(error), "bad")
            return
        self._app.push_screen(screen, self._go_to)

    def _go_to(self, context: str | None) -> None:
        """Leave this context for another one; operations that workers carry out go on."""
        if context is not None:
            self._host.places.chosen = context
            self._app.exit(0)

    def do_suspend(self) -> None:
        """Stop the console, and the script that has started it; it draws again when the shell goes on with it."""
        driver = self._app._driver
        if not (isinstance(driver, SuspendingDriver) and driver.can_suspend and driver.stop_all()):
            self._host.show_notice("this terminal has no shell to go back to", "warn")

    def do_copy_command(self) -> None:
        """Copy the command that shows the same list, or the thing under the cursor, without the console."""
        view = self._view()
        if view is not None:
            link = (view.pane.link() if view.pane is not None and view.stage != "home" else None) or view.link()
            self.copy_commands([looking(link.place, link.value)])

    def copy_commands(self, commands: Sequence[Sequence[str]]) -> None:
        """Copy commands, on the servers and the context that are shown, as one line for a shell."""
        context = self._host.context.name
        self.copy(joined(commands, [*self._host.places.given, *([f"--context={context}"] if context else [])]))

    def copy_signature(self, signature: str) -> None:
        """Copy the runbook of a signature; when pressed again, and where it has none, its id."""
        snapshot = self._host.model.snapshot
        state = snapshot.states.get(signature) if snapshot is not None else None
        if state is not None and state.runbook and self._copied != signature:
            self._copied = signature
            self.copy(state.runbook, "the runbook; y again copies the id:")
        else:
            self._copied = ""
            self.copy(signature, "the signature's id")

    def copy(self, text: str, what: str = "") -> None:
        """Copy a text to the clipboard of the terminal (OSC 52), and to a file for terminals that refuse it.

        `what` it is goes into the notice.
        """
        if len(text) <= OSC_LIMIT:
            self._app.copy_to_clipboard(text)
        shown = f"{what} {safe(text, 120)}".strip()
        path: Path | None = None
        try:
            path = export.state_folder() / "copied.txt"
            export.write_over(path, f"{text}\n")
        except OSError as error:
            why = error if path is None else f"{path} cannot be written: {error.strerror}"
            self._host.show_notice(f"copied {shown} (clipboard only: {why})")
        else:
            self._host.show_notice(f"copied {shown}  (also in {path})")

    def export(self, target: Target) -> None:
        """Ask for the format, then write jobs into a file."""
        self._app.push_screen(ExportSheet(target), self._begin_export)

    def _begin_export(self, options: ExportOptions | None) -> None:
        if options is not None:
            spawn(self._app, "export", self._export, options)

    async def _export(self, options: ExportOptions) -> None:
        name = f"jobs-{self._host.model.now.strftime('%Y%m%d-%H%M%S')}.{options.format}"
        try:
            number, path = await self._write(options, name)
        except (QueueCoreError, OSError) as error:
            self._host.show_notice(f"nothing was exported: {error}", "bad")
        else:
            self._host.show_notice(f"wrote {plural(number, 'job')} to {path}", "good")

    async def _write(self, options: ExportOptions, name: str) -> tuple[int, Path]:
        """Write into the current folder, or into this program's own where that one is not for writing."""
        path = Path.cwd() / name
        if not os.access(path.parent, os.W_OK):
            path = export.state_folder() / name
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        inspector = self._host.connection.jobs.inspector
        return await export_file(
            inspector, options, path, lambda number: self._host.show_notice(f"wrote {number:,} ...", "muted")
        ), path
