"""A person at the console: presses keys, reads the screen, waits for what must come."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from unittest.mock import patch

from rich.console import RenderableType
from textual._compositor import Compositor
from textual._context import visible_screen_stack
from textual.pilot import Pilot
from textual.strip import Strip

from jobconsole.format.glyphs import UNICODE
from jobconsole.tui.app import ConsoleApp
from jobconsole.tui.screens.view import View
from jobconsole.tui.widgets import footer
from jobconsole.tui.widgets.table import Table

PATIENCE = 40.0
"""Seconds after which something did not come; machines are slow."""
NARROW, WIDE, COMPACT, LOW, TINY = (80, 24), (200, 50), (60, 20), (40, 10), (39, 9)


class Seat:
    """One running console."""

    def __init__(self, app: ConsoleApp, pilot: Pilot[int]) -> None:
        self.app = app
        self.pilot = pilot

    @property
    def view(self) -> View:
        """The view on the screen."""
        assert self.app.view is not None
        return self.app.view

    def table(self, table_id: str) -> Table[Any]:
        """A table of the view by its id."""
        return self.view.query_one(f"#{table_id}", Table)

    def text(self) -> str:
        """The text of the screen, of a sheet where there is one."""
        return "\n".join(strip.text.rstrip() for strip in self.strips())

    def strips(self) -> list[Strip]:
        """Draw the lines of the screen."""
        # What is seen behind a sheet.
        visible_screen_stack.set(self.app._background_screens)
        return self.app.screen._compositor.render_strips()

    async def press(self, *keys: str) -> None:
        """Press keys, one after the other has been dealt with."""
        for key in keys:
            await self.pilot.press(key)
            await self.pilot.pause()

    async def until(self, wanted: str | Callable[[], object], but: str = "") -> None:
        """Wait until a text stands on the screen or a condition holds (and a text is gone)."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            await self.pilot.pause()
            text = self.text()
            if (wanted in text if isinstance(wanted, str) else wanted()) and (not but or but not in text):
                return
            await asyncio.sleep(0.02)
        reason = f"{wanted!r} did not come" if isinstance(wanted, str) else "the condition did not come true"
        raise AssertionError(f"{reason}; the screen:\n{self.text()}")

    async def ready(self) -> None:
        """Wait for the first whole picture."""
        await self.until(lambda: self.app.model.snapshot is not None)
        await self.until(lambda: "reading" not in self.text())


_draw = Compositor.render_update


def _draw_pictures(
    compositor: Compositor, full: bool = False, screen_stack: list[Any] | None = None, simplify: bool = False
) -> RenderableType | None:
    """Draw what becomes a picture (`simplify`), and otherwise nothing."""
    if simplify:
        return _draw(compositor, full, screen_stack, simplify)
    compositor._dirty_regions.clear()
    return None


@asynccontextmanager
async def seated(app: ConsoleApp, size: tuple[int, int] = NARROW, drawn: bool = False) -> AsyncIterator[Seat]:
    """Run the application without a terminal.

    `drawn`: each change is drawn as on a terminal. Without one that goes nowhere and takes a third of the time of a
    test, so that otherwise only what `Seat.text` reads is drawn. A sentence stays until another one comes: a machine
    that is slow for a while would otherwise take it away before the test has seen it.
    """
    # Whatever this test's own output is encoded in.
    app.glyphs = UNICODE
    drawing = patch.object(Compositor, "render_update", _draw if drawn else _draw_pictures)
    with drawing, patch.object(footer, "SHOWN_SECONDS", 100 * PATIENCE):
        async with app.run_test(size=size, notifications=True) as pilot:
            yield Seat(app, pilot)
