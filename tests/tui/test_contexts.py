"""Contexts in the console: colour and word, what is read-only, thresholds that ring."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from textual.drivers.headless_driver import HeadlessDriver

from jobconsole.core.alerts import Thresholds
from jobconsole.core.connection import Connection, ContextInfo
from jobconsole.core.contexts import ContextLine, Places
from jobconsole.format.glyphs import UNICODE
from jobconsole.format.spans import RenderContext
from jobconsole.present.layout import fit_columns
from jobconsole.tui.app import ConsoleApp
from jobconsole.tui.base.themes import CONTEXT_COLOURS, DAY, NIGHT, Palette
from jobconsole.tui.screens.contexts import CONTEXTS
from jobconsole.tui.widgets import footer
from queue_core import JobQueue
from queue_core.model.states import Status
from tests.conformance.making import failure
from tests.conformance.world import World
from tests.tui.conftest import Sit
from tests.tui.scenes import dead, smtp
from tests.tui.seat import seated
from tests.tui.still import NOW

Buried = dict[str, list[str]]


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Bells and notifications that are written to the terminal."""
    texts: list[str] = []

    def write(self: HeadlessDriver, text: str) -> None:
        if text.startswith("\x1b]9;"):
            texts.append(text)

    monkeypatch.setattr(HeadlessDriver, "write", write)
    for name in ("TMUX", "TERM", "TERM_PROGRAM"):
        monkeypatch.delenv(name, raising=False)
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
        text = "12 dead jobs (threshold 12)"
        assert written.count(f"\x1b]9;PROD: {text}\x07\x1b]777;notify;PROD;{text}\x07") == 1
        await dead(world, 1, smtp(), type="send_email", queue="mail")
        await seat.until("13 jobs")
        assert len(written) == 2


async def test_a_new_signature_rings_once_and_notifies(
    sit: Sit, world: World, buried: Buried, written: list[str]
) -> None:
    async with sit(context=ContextInfo("prod", "PROD")) as seat:
        await seat.ready()
        await seat.until("10 jobs")
        await dead(world, 1, failure("off", exception="OSError", signature="feed00000001", title="OSError: a;\x1b[2J"))
        await seat.until("NEW OSError: a;␛[2J")
        text = "NEW OSError: a,␛[2J"
        await seat.until(lambda: len(written) == 2)
        assert written == ["\a", f"\x1b]9;PROD: {text}\x07\x1b]777;notify;PROD;{text}\x07"]
        await dead(world, 1, smtp(), type="send_email", queue="mail")
        await seat.until("12 jobs")
        assert len(written) == 2


async def test_an_alarm_waits_until_the_answer_to_a_key_was_read(
    sit: Sit, world: World, buried: Buried, written: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(footer, "READ_SECONDS", 1e6)
    async with sit(context=ContextInfo("prod", "PROD", "", Thresholds(dead=12))) as seat:
        await seat.ready()
        await seat.press("p")
        await seat.until("screen held, p resumes")
        await dead(world, 2, smtp(), type="send_email", queue="mail")
        await seat.until(lambda: "\a" in written)
        assert "screen held, p resumes" in seat.text()
        monkeypatch.setattr(footer, "READ_SECONDS", 0.0)
        seat.view.notice._follow()
        await seat.until("12 dead jobs (threshold 12)")


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


def places(**openers: Callable[[], JobQueue]) -> Places:
    """Return contexts of these names, none of which was named on the command line."""
    infos = {name: (ContextInfo(name, name.upper()), opener) for name, opener in openers.items()}
    return Places(lambda: infos, len(infos), f"{len(infos)} contexts are configured and none was named", "(file x.db)")


def gone() -> JobQueue:
    """Make a queue on a server that is not there."""
    return JobQueue(redis="redis://127.0.0.1:1/0")


async def test_a_change_asks_where_no_context_was_named(sit: Sit, jobs: JobQueue, buried: Buried) -> None:
    async with sit(places=places(prod=lambda: JobQueue(memory=True), dev=gone)) as seat:
        await seat.ready()
        await seat.until("TimeoutError")
        await seat.press("D")
        await seat.until("Delete here?")
        assert "2 contexts are configured and none was named" in seat.text()
        await seat.press("enter")
        await seat.until("Dead letters", but="Delete here?")
        assert not (await jobs.inspector.get(buried["send_email"][0])).trashed_at
        await seat.press("D", "tab", "enter")
        await seat.until("Delete 5 jobs")
        await seat.press("enter")
        await seat.until("deleted 5 jobs")


async def test_all_contexts_are_on_one_screen_and_enter_goes_to_one(sit: Sit, buried: Buried) -> None:
    there = places(prod=lambda: JobQueue(memory=True), dev=gone)
    async with sit(places=there) as seat:
        await seat.ready()
        await seat.press("0")
        await seat.until("Contexts  2")
        await seat.until("✓ ")
        await seat.until("▲ lost")
        assert "? " in seat.text(), "what is not known is no 0"
        await seat.press("escape")
        await seat.until("Dead letters")
        assert there.chosen is None
        await seat.press("0", "j", "enter")
        await seat.until(lambda: there.chosen == "dev")


async def test_without_contexts_the_key_says_so(sit: Sit) -> None:
    async with sit() as seat:
        await seat.ready()
        await seat.press("0")
        await seat.until("no contexts are configured")


@pytest.mark.parametrize(
    ("width", "gone"), [(197, []), (77, ["RELEASE"]), (57, ["QUEUED", "WORKER", "RELEASE", "OLD"])]
)
def test_names_of_contexts_have_room_to_differ(width: int, gone: list[str]) -> None:
    fitted = {column.title: size for column, size in fit_columns(CONTEXTS, width)}
    assert [column.title for column in CONTEXTS if column.title not in fitted] == gone
    assert fitted["CONTEXT"] >= 15


def test_what_was_not_read_of_a_context_is_unknown() -> None:
    line, context = ContextLine(ContextInfo("down")), RenderContext(NOW, UNICODE)
    unknown = [column.title for column in CONTEXTS if column.value(line, context)[0][0] == "?"]
    assert unknown == [column.title for column in CONTEXTS[1:-1]]
