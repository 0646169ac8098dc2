"""Contexts in the console: colour and word, what is read-only, thresholds that ring."""

from __future__ import annotations

import pytest
from textual.drivers.headless_driver import HeadlessDriver

from jobconsole.core.alerts import Thresholds
from jobconsole.core.connection import Connection, ContextInfo
from jobconsole.tui.app import ConsoleApp
from jobconsole.tui.base.themes import CONTEXT_COLOURS, DAY, NIGHT, Palette
from queue_core import JobQueue
from queue_core.model.states import Status
from tests.conformance.world import World
from tests.tui.conftest import Sit
from tests.tui.scenes import dead, smtp
from tests.tui.seat import seated

Buried = dict[str, list[str]]


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Bells and notifications that are written to the terminal."""
    texts: list[str] = []

    def write(self: HeadlessDriver, text: str) -> None:
        if text.startswith("\x1b]9;"):
            texts.append(text)

    monkeypatch.setattr(HeadlessDriver, "write", write)
    # Without a terminal Textual rings no bell.
    monkeypatch.setattr(ConsoleApp, "bell", lambda self: texts.append("\a"))
    return texts


async def test_a_threshold_rings_once_and_notifies(sit: Sit, world: World, buried: Buried, written: list[str]) -> None:
    context = ContextInfo("prod", "PROD", "", Thresholds(dead=12))
    async with sit(context=context) as seat:
        await seat.ready()
        await seat.until("10 jobs")
        assert written == []
        await dead(world, 2, smtp(), type="send_email", queue="mail")
        await seat.until("12 dead jobs (threshold 12)")
        assert written.count("\a") == 1
        assert written.count("\x1b]9;PROD: 12 dead jobs (threshold 12)\x07") == 1
        await dead(world, 1, smtp(), type="send_email", queue="mail")
        await seat.until("13 jobs")
        assert len(written) == 2


async def test_a_quiet_threshold_only_speaks(sit: Sit, buried: Buried, written: list[str]) -> None:
    async with sit(context=ContextInfo("x", "X", "", Thresholds(dead=1, bell=False, notify=False))) as seat:
        await seat.until("10 dead jobs (threshold 1)")
        assert written == []


async def test_a_context_that_is_read_only_cannot_be_changed_past_the_screen(jobs: JobQueue, buried: Buried) -> None:
    app = ConsoleApp(Connection(jobs, read_only=True), context=ContextInfo("prod", "PROD", "magenta"))
    async with seated(app) as seat:
        await seat.ready()
        await seat.until("TimeoutError")
        assert "READ-ONLY" in seat.text()
        # Even where the screen and the operator forget it.
        seat.app.operator.read_only = False
        await seat.press("R", "enter")
        await seat.until("nothing was retried: 'op submit' was refused: this connection is read-only")
        assert (await jobs.inspector.get(buried["send_email"][0])).status is Status.DEAD


@pytest.mark.parametrize("scheme", [NIGHT, DAY], ids=lambda scheme: scheme.name)
@pytest.mark.parametrize("colour", sorted(CONTEXT_COLOURS))
def test_every_colour_can_be_read(scheme: object, colour: str) -> None:
    style = Palette(scheme).style(ContextInfo("x", "X", colour).tone)  # type: ignore[arg-type]
    assert style.color is not None
    assert style.bgcolor is not None
    front, back = (sum(w * c for w, c in zip((0.299, 0.587, 0.114), one.get_truecolor(), strict=True))
                   for one in (style.color, style.bgcolor))  # fmt: skip
    assert abs(front - back) > 90
