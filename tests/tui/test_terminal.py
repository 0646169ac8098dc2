"""What is sent to the terminal: fewer bytes, the same picture."""

from __future__ import annotations

import dataclasses
import io
import os
import random
import re
import signal
import sys
import threading
from contextlib import suppress

import pytest
from textual.drivers._writer_thread import MAX_QUEUED_WRITES, WriterThread
from textual.drivers.headless_driver import HeadlessDriver
from textual.drivers.linux_driver import LinuxDriver

from jobconsole.format.spans import changed
from jobconsole.tui.app import ConsoleApp
from jobconsole.tui.screens.jobs import StateTabs
from jobconsole.tui.terminal import _Drawing, compress_styles, mend_suspension, shortened
from queue_core import JobQueue
from tests.tui.seat import WIDE, seated
from tests.tui.still import show, snapshot, still_app

_TOKENS = re.compile(r"\x1b\[([0-9;]*)m|\x1b\[(\d+);(\d+)H|(.)", re.DOTALL)
COLOURS = ["38;5;188", "38;5;246", "38;2;1;2;3", "31", "97"]
GROUNDS = ["48;5;16", "48;5;23", "48;2;16;0;0", "41", "107"]


def picture(data: str, start: frozenset[str] = frozenset()) -> tuple[list[tuple[str, ...]], frozenset[str]]:
    """Return each drawn character with its place and style, and the style that is left."""
    drawn: list[tuple[str, ...]] = []
    style, place = set(start), ""
    for codes, row, column, char in _TOKENS.findall(data):
        if row:
            place = f"{row};{column}"
        elif char:
            drawn.append((char, place, *sorted(seen(char, style))))
        else:
            style = told(style, codes.split(";"))
    return drawn, frozenset(style)


def seen(char: str, style: set[str]) -> set[str]:
    """Return what one sees of a style: of a blank without a line through it, its ground."""
    hidden = char == " " and not style & {"4", "7"}
    return {one for one in style if not (hidden and (one == "bold" or one.startswith("fg")))}


def told(style: set[str], codes: list[str]) -> set[str]:
    """Return a style after some codes, as a terminal takes them."""
    codes = list(codes)
    while codes:
        code = codes.pop(0)
        if code in {"", "0"}:
            style = set()
        elif code == "22":
            style -= {"bold"}
        elif code == "1":
            style |= {"bold"}
        elif code in {"3", "4", "7"}:
            style |= {code}
        else:
            more = [codes.pop(0) for _ in range({"5": 2, "2": 4}[codes[0]])] if code in {"38", "48"} else []
            kind = "fg" if code == "38" or code[:-1] in {"3", "9"} else "bg"
            style = {one for one in style if not one.startswith(kind)} | {f"{kind} {code} {more}"}
    return style


def some(chance: random.Random) -> str:
    """Return what a frame may be made of."""
    codes = [chance.choice(group) for group in (["1", "", "4", "7", "3"], COLOURS, GROUNDS) if chance.random() < 0.8]
    style = ";".join(code for code in codes if code)
    text = chance.choice(["ab", " ", "", "\x1b[3;4H", "\n", "\x1b[1;1H\x1b[2;2H"])
    return f"\x1b[{style}m{text}\x1b[0m" if style else text


@pytest.mark.parametrize("seed", range(200))
def test_the_picture_is_the_same(seed: int) -> None:
    chance = random.Random(seed)
    data = "".join(some(chance) for _ in range(30))
    start = frozenset({"bold", "bg 48 ['5', '1']"})
    assert picture(shortened(data), start) == picture(data, start)
    assert len(shortened(data)) <= len(data)


def test_only_what_differs_is_told() -> None:
    line = "\x1b[0m\x1b[1;38;5;75;48;5;16ma\x1b[0m\x1b[38;5;246;48;5;16mb\x1b[0m\x1b[4;5H\x1b[38;5;246;48;5;16mc\x1b[0m"
    assert shortened(line) == "\x1b[0m\x1b[1;38;5;75;48;5;16ma\x1b[22;38;5;246mb\x1b[4;5Hc\x1b[0m"


def test_blanks_keep_the_colour_before_them() -> None:
    line = "\x1b[0m\x1b[38;5;75;48;5;16ma\x1b[0m\x1b[1;38;5;246;48;5;16m  \x1b[0m\x1b[38;5;75;48;5;16mb\x1b[0m"
    assert shortened(line) == "\x1b[0m\x1b[38;5;75;48;5;16ma  b\x1b[0m"
    ground = "\x1b[0m\x1b[38;5;75;48;5;16ma\x1b[0m\x1b[38;5;75;48;5;23m \x1b[0m"
    assert shortened(ground) == "\x1b[0m\x1b[38;5;75;48;5;16ma\x1b[48;5;23m \x1b[0m"


def test_other_sequences_are_left_alone() -> None:
    data = "\x1b[?2026h\x1b[1;1H\x1b]52;c;YWJj\x07\x1b[?25l\x1b[2J\x1b[>1u"
    assert shortened(data) == data


async def test_the_console_writes_through_it(monkeypatch: pytest.MonkeyPatch) -> None:
    app, written = ConsoleApp(JobQueue(memory=True)), list[str]()
    plain = app.driver_class.__mro__[1]
    monkeypatch.setattr(plain, "write", lambda driver, data: written.append(data))
    app.driver_class.write(object.__new__(app.driver_class), "\x1b[0m\x1b[1ma\x1b[0m\x1b[1mb\x1b[0m")
    assert written == ["\x1b[0m\x1b[1mab\x1b[0m"]


async def test_only_the_cells_that_have_changed_are_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of a line before them was sent, too: a list with ages cost three times as much."""
    written: list[str] = []
    async with seated(still_app(), WIDE, drawn=True) as seat:
        await show(seat)
        await seat.press("3")
        await seat.until("running 96")
        monkeypatch.setattr(HeadlessDriver, "is_headless", False)
        monkeypatch.setattr(HeadlessDriver, "write", lambda driver, data: written.append(data))
        now = snapshot()
        seat.app.model.adopt(dataclasses.replace(now, totals=dataclasses.replace(now.totals, running=97)))
        tabs = seat.view.query_one(StateTabs)
        tabs.repaint()
        await seat.until(lambda: "97" in "".join(written))
        column = seat.text().splitlines()[tabs.region.y].index(" running 97 ") + 1
        drawn, _ = picture(next(data for data in written if "97" in data))
        assert "".join(char for char, *_ in drawn) == " running 97 "
        assert drawn[0][1] == f"{tabs.region.y + 1};{column}"


async def test_an_ended_console_handles_no_signal_any_more() -> None:
    """The process may go on without it, as that of the demo does."""
    handled = (signal.SIGTSTP, signal.SIGCONT)
    before = [signal.getsignal(number) for number in handled]
    driver = mend_suspension(LinuxDriver)(ConsoleApp(JobQueue(memory=True)))
    try:
        assert {signal.getsignal(number) for number in handled}.isdisjoint(before)
    finally:
        driver.close()
        after = [signal.getsignal(number) for number in handled]
        for number, handler in zip(handled, before, strict=True):
            signal.signal(number, handler)
    assert after == before


async def test_drawing_goes_on_without_a_trace_when_the_terminal_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also more than waits to be written: a thread that has ended would let the drawing wait for ever."""
    ours, theirs = os.openpty()
    raised: list[BaseException | None] = []
    monkeypatch.setattr(threading, "excepthook", lambda arguments: raised.append(arguments.exc_value))
    # What it did not take is still in the file when that is closed.
    with suppress(OSError), os.fdopen(theirs, "w") as terminal:
        monkeypatch.setattr(sys, "__stderr__", terminal)
        driver = compress_styles(LinuxDriver)(ConsoleApp(JobQueue(memory=True)))
        try:
            drawn = WriterThread(vars(driver)["_file"])
            os.close(ours)
            drawn.start()
            for _ in range(2 * MAX_QUEUED_WRITES):
                if drawn.is_alive():
                    drawn.write("a picture")
            drawn.stop()
        finally:
            driver.close()
    assert raised == []


@pytest.mark.parametrize(
    ("before", "after", "parts"),
    [
        ("a b c", "a x c", [range(1, 2)]),
        ("a b c", "a b c", []),
        ("a b c", "x b y", [range(3)]),
        ("a a", "a a a", [range(3)]),
        ("long b long", "long x long", [range(4, 5)]),
        ("a a b", "a b b", [range(1, 2)]),
        ("ab c", "a bc", [range(3)]),
        ("20s a-column-that-stays 7%", "21s a-column-that-stays 8%", [range(3), range(22, 24)]),
        ("20s a-column 7%", "21s a-column 8%", [range(13)]),
        ("20s 注文注文注文注文注文 7%", "21s 注文注文注文注文注文 8%", [range(3), range(23, 25)]),
    ],
)
def test_the_parts_of_a_line_that_changed(before: str, after: str, parts: list[range]) -> None:
    old, new = (tuple((text, "text") for text in line.split()) for line in (before, after))
    assert changed(old, new) == parts


def test_what_a_terminal_cannot_show_keeps_its_cells() -> None:
    """Frames of sheets, and letters of data, were written as their numbers, and moved the rest of the line."""
    written = io.BytesIO()
    drawing = _Drawing(io.TextIOWrapper(written, encoding="ascii", errors="backslashreplace"))
    drawing.write("\x1b[1m╭─ Retry ━╮│ 注文 café e\u0301 … ▔▁ █ ❯\x1b[0m")
    drawing.flush()
    assert written.getvalue() == b"\x1b[1m+- Retry -+| ???? caf? e ~ -_ # >\x1b[0m"


def test_a_terminal_with_unicode_is_written_to_as_it_is() -> None:
    written = io.BytesIO()
    drawing = _Drawing(io.TextIOWrapper(written, encoding="utf-8"))
    drawing.write("╭─ 注文 café │")
    drawing.flush()
    assert written.getvalue().decode() == "╭─ 注文 café │"
