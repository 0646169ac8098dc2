"""The console's screen as a picture: drawn without a terminal, by the console itself."""

from __future__ import annotations

import asyncio
import io
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from jobconsole.core.connection import Connection, ContextInfo
from jobconsole.notebook.connection import NotebookConnection
from jobconsole.tui.app import ConsoleApp
from jobconsole.tui.base.links import SCHEME, Link, LinkError, parse_link
from jobconsole.tui.base.themes import DAY, NIGHT
from queue_core.errors import InvalidArgument, StoreUnavailable

if TYPE_CHECKING:
    from textual.pilot import Pilot

PATIENCE_SECONDS = 15.0
"""Until the first whole picture."""
POLL_SECONDS = 0.05
LEAST_SIZE, MAX_SIZE = (60, 20), (400, 200)
"""Columns and lines of a screen."""
READING = "reading&#160;..."
"""A part that is not there yet."""


class ConsoleScreen:
    """A picture of the console, which notebooks show; `save` writes it to a file."""

    def __init__(self, svg: str) -> None:
        self.svg = svg

    def __repr__(self) -> str:
        return f"<ConsoleScreen, {len(self.svg):,} characters of SVG>"

    def _repr_svg_(self) -> str:
        return self.svg

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the picture to a file.

        Raises:
            OSError: it cannot be written.
        """
        Path(path).write_text(self.svg, encoding="utf-8")


def link_of(text: str) -> Link:
    """Return the place that a text leads to: the name of a view, such as "live", or a link without its beginning.

    Raises:
        InvalidArgument: it leads nowhere.
    """
    try:
        return parse_link(text if text.startswith(SCHEME) else f"{SCHEME}/{text}")
    except LinkError as error:
        raise InvalidArgument(str(error)) from None


async def console_screen(
    connection: NotebookConnection, context: ContextInfo, link: Link, size: tuple[int, int], dark: bool
) -> ConsoleScreen:
    """Draw a place of the console, once all of it is read.

    Raises:
        InvalidArgument: a size that cannot be.
        StoreUnavailable: the store did not answer in time.
    """
    if not all(least <= given <= most for least, given, most in zip(LEAST_SIZE, size, MAX_SIZE, strict=True)):
        raise InvalidArgument(
            f"a screen has {LEAST_SIZE[0]} to {MAX_SIZE[0]} columns and {LEAST_SIZE[1]} to {MAX_SIZE[1]} lines"
        )
    # It looks only, whatever the connection may do.
    app = ConsoleApp(Connection(connection.jobs), read_only=True, context=context)
    app.link, app.theme = link, (NIGHT if dark else DAY).name
    async with app.run_test(size=size) as pilot:
        return ConsoleScreen(_cleaned(await _whole_picture(app, pilot)))


async def _whole_picture(app: ConsoleApp, pilot: Pilot[int]) -> str:
    """Return the picture once nothing is being read any more, and the same is drawn twice."""
    before = ""
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                await pilot.pause(POLL_SECONDS)
                picture = _picture(app)
                read = app.model.snapshot is not None and READING not in picture
                if read and picture == before:
                    return picture
                before = picture
    except TimeoutError:
        if app.model.snapshot is not None:
            # It is a busy queue, whose picture never rests.
            return before
        server = app.connection.store
        raise StoreUnavailable(server.name, server.error or f"no picture within {PATIENCE_SECONDS:g} s") from None


def _picture(app: ConsoleApp) -> str:
    """Return the picture as it is now. In a notebook, Textual's own export would also display it."""
    width, height = app.size
    console = Console(
        width=width,
        height=height,
        file=io.StringIO(),
        force_terminal=True,
        force_jupyter=False,
        color_system="truecolor",
        record=True,
        legacy_windows=False,
    )
    console.print(app.screen._compositor.render_update(full=True))
    return console.export_svg(title="jobconsole")


def _cleaned(svg: str) -> str:
    """Return a picture that loads no font from elsewhere, and whose names do not change at each run."""
    svg = re.sub(r',\s*url\("https?://[^)]*\)\s*format\("woff2?"\)', "", svg)
    return re.sub(r"terminal-\d+", "terminal", svg)
