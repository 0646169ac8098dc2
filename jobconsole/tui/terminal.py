"""The terminal: fewer bytes to it, suspension, and notifications."""

from __future__ import annotations

import errno
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, TextIO

from rich.cells import cell_len
from rich.console import Console, RenderableType
from textual._compositor import ChopsUpdate
from textual.driver import Driver

from queue_core.model.text import safe

_GONE = frozenset({errno.EIO, errno.ENXIO, errno.EPIPE})
"""The errors of writing to a terminal that is gone."""

# Suspension: Ctrl+Z, SIGSTOP, and what follows.

_SUSPENSION = (signal.SIGTSTP, signal.SIGCONT)
"""What Textual handles from its start on: also when the console has ended, and the program goes on without it."""


class SuspendingDriver(Driver):
    """Stops as other programs do, draws everything again after any stop, and leaves no signal handlers behind."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        before = {number: signal.getsignal(number) for number in _SUSPENSION}
        super().__init__(*args, **kwargs)
        self._replaced = {number: was for number, was in before.items() if signal.getsignal(number) != was}
        self._suspending = False
        # while it stops and takes the terminal again, and whether it was continued meanwhile
        self._busy = self._continued = False

    def stop_all(self) -> bool:
        """Stop what the terminal would at Ctrl+Z: this process, and what waits for it, such as a script.

        Return, once it is drawn again, whether there was a shell that took over: where there is none, the system
        stops nothing.
        """
        return self._stop(lambda: os.killpg(0, signal.SIGTSTP))

    def _sigtstp_application(self, *_: object) -> None:
        # Textual would stop by SIGSTOP, also where no shell ever continues it.
        self._stop(lambda: signal.raise_signal(signal.SIGTSTP))

    def _stop(self, stop: Callable[[], None]) -> bool:
        drawing, self._busy, self._continued = self._auto_restart, True, False
        if drawing:
            # First, for the shell has the terminal as soon as the script is stopped.
            self.suspend_application_mode()
            self._must_signal_resume = True
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        try:
            stop()
        finally:
            # This lets the handler of SIGCONT run, too.
            signal.signal(signal.SIGTSTP, self._sigtstp_application)
            stopped, self._busy = self._continued, False
        if drawing:
            self.resume_application_mode()
        return stopped

    def _sigcont_application(self, *_: object) -> None:
        self._continued = True
        if self._auto_restart and not self._busy:
            self.resume_application_mode()

    def suspend_application_mode(self) -> None:
        self._suspending = True
        try:
            super().suspend_application_mode()
        finally:
            self._suspending = False

    def resume_application_mode(self) -> None:
        self._busy = self._continued = True
        try:
            # Without the terminal, it is stopped while it begins, and continued once it is the shell's turn again.
            while self._continued:
                self._continued = False
                writer = getattr(self, "_writer_thread", None)
                if writer is not None and writer.is_alive():
                    # Stopped by SIGSTOP, and the shell has changed the terminal's modes; or the terminal is gone.
                    if not os.isatty(getattr(self, "fileno", -1)):
                        return
                    self.suspend_application_mode()
                super().resume_application_mode()
        finally:
            self._busy = False
        # The screen is empty, and Textual draws what changes.
        self._app.call_later(self._app.refresh)

    def close(self) -> None:
        super().close()
        if not self._suspending:
            for number, handler in self._replaced.items():
                signal.signal(number, signal.SIG_DFL if handler is None else handler)


def mend_suspension(driver: type[Driver]) -> type[Driver]:
    """Return a driver that stops and goes on as other programs do, in front of the given one."""
    return type("Suspending", (SuspendingDriver, driver), {})


# Notifications that a terminal shows on the desktop.
#
# There is no answer by which a program could find out which of the two kinds a terminal knows; one that knows both
# would show the same twice. An unknown kind is not shown by any of them.

BOTH = ("kitty", "ghostty", "wezterm", "foot")
"""Beginnings of the names of terminals that know both kinds."""
LONGEST_NOTIFICATION = 300
"""Characters."""


def notification(title: str, text: str, environ: Mapping[str, str]) -> str:
    """Return what makes the terminal notify, as OSC 9 and, unless it is known to show that, too, OSC 777."""
    # Semicolons are between the parts of a sequence.
    title, text = (safe(one, LONGEST_NOTIFICATION).replace(";", ",") for one in (title, text))
    sequences = [f"\x1b]9;{title}: {text}\x07"]
    names = (environ.get("TERM", "").removeprefix("xterm-"), environ.get("TERM_PROGRAM", ""))
    if not any(name.lower().startswith(BOTH) for name in names):
        sequences.append(f"\x1b]777;notify;{title};{text}\x07")
    # Inside of tmux, the terminal around it is meant.
    wrapped = (f"\x1bPtmux;{one.replace(chr(27), chr(27) * 2)}\x1b\\" for one in sequences)
    return "".join(wrapped if environ.get("TMUX") else sequences)


# Fewer bytes for the same picture: only the cells that have changed are sent to the terminal.
#
# Textual ends a line at the last cell that has changed, and begins it where its widget begins: an age in a list would
# cost all columns before it.


def changes_only(drawing: RenderableType | None) -> RenderableType | None:
    """Return what draws the same and sends no cells before those that have changed."""
    if isinstance(drawing, ChopsUpdate):
        return _Changes(drawing.chops, drawing.spans, drawing.chop_ends)
    return drawing


class _Changes(ChopsUpdate):
    """The parts of lines that have changed, from their first cell on."""

    def render_segments(self, console: Console) -> str:
        return "".join(self._parts(console))

    def _parts(self, console: Console) -> Iterator[str]:
        for y, first, last in self.spans:
            for end, (begin, strip) in zip(self.chop_ends[y], self.chops[y].items(), strict=False):
                start, stop = max(first, begin), min(last, end)
                if strip is not None and start < stop:
                    yield f"\x1b[{y + 1};{start + 1}H"
                    yield strip.crop(start - begin, stop - begin).render(console)


# And of two styles in a row, only the difference.
#
# Textual ends each piece of text with a reset and repeats all of the next one's colours; over SSH that is most of
# what a picture costs.

_STYLE = re.compile(r"(\x1b\[[0-9;]*m)")
_MOVES = re.compile(r"(?:\x1b\[\d+;\d+H)*")
_RESET = "\x1b[0m"
_BOLD, _DIM = "1", "2"
_UNSEEN = frozenset({"38", _BOLD})
"""What a blank does not show: the colour of its text and its weight."""
_LINES = frozenset({"4", "7", "9"})
"""Underlined, reversed, struck through: then it shows that colour after all."""


def compress_styles(driver: type[Driver]) -> type[Driver]:
    """Return a driver that writes what the given one would, in fewer bytes."""

    class Thrifty(driver):  # type: ignore[valid-type, misc]
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            # Textual draws on stderr, which may be on its way into a file.
            drawn, screen = getattr(self, "_file", None), sys.__stdout__
            if drawn is sys.__stderr__ and not _seen(drawn) and _seen(screen):
                drawn = screen
            if drawn is not None:
                self._file = _Drawing(drawn)

        def write(self, data: str) -> None:
            super().write(shortened(data))

        def stop_application_mode(self) -> None:
            try:
                super().stop_application_mode()
            except OSError:
                # The terminal is gone. The thread that reads keys was not asked to end, and would read for ever.
                self.exit_event.set()

    return Thrifty


class _Drawing:
    """The terminal's file, which loses what is drawn once the terminal is gone.

    Textual writes to it in a thread, whose error would be printed; and without that thread, drawing waits for ever.
    """

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._gone = False
        self._encoding = file.encoding or "utf-8"
        # what else is asked of a file
        self.fileno, self.isatty = file.fileno, file.isatty

    def write(self, text: str) -> int:
        if not self._gone:
            with self._until_gone():
                return self._file.write(encodable(text, self._encoding))
        return len(text)

    def flush(self) -> None:
        if not self._gone:
            with self._until_gone():
                self._file.flush()

    @contextmanager
    def _until_gone(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if error.errno not in _GONE:
                raise
            self._gone = True


# A terminal without Unicode. Its file would write the numbers of what it cannot encode, in many cells for one.

_INSTEAD = {"…": "~", "▔": "-", "▁": "_", "❯": ">", "●": "*", "✓": "v", "▲": "!", "▸": ">", "×": "x", "·": "-"}
"""What looks alike; characters of frames are replaced by their direction."""


def encodable(text: str, encoding: str) -> str:
    """Return a text with each character that an encoding lacks replaced by one of ASCII for each of its cells."""
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return "".join(_instead(one, encoding) for one in text)
    return text


@lru_cache(maxsize=4096)
def _instead(character: str, encoding: str) -> str:
    try:
        character.encode(encoding)
    except UnicodeEncodeError:
        pass
    else:
        return character
    if "\u2500" <= character <= "\u257f":
        return "-" if character in "─━═╌┄┈╴╶╸╺" else "|" if character in "│┃║╎┆┊╵╷" else "+"
    if "\u2580" <= character <= "\u259f":
        return _INSTEAD.get(character, "#")
    return _INSTEAD.get(character, "?" * cell_len(character))


def _seen(stream: TextIO | None) -> bool:
    """Whether a stream ends at a terminal."""
    return stream is not None and not stream.closed and stream.isatty()


def shortened(data: str) -> str:
    """Return what draws the same as `data`, whatever style was set before, and leaves the same style behind."""
    kept: list[str] = []
    # the style that is set, as it is named after a reset: "" for none; None: not known
    now: str | None = None
    resetting = False
    pieces = _STYLE.split(data)
    for place, piece in enumerate(pieces):
        if place % 2 == 0:
            # What only moves the cursor draws nothing, in whatever style.
            if resetting and not _MOVES.fullmatch(piece):
                kept.append(_RESET)
                now, resetting = "", False
            kept.append(piece)
        elif piece in {_RESET, "\x1b[m"}:
            resetting = True
        elif resetting:
            resetting = False
            if not (now and _blank(pieces[place + 1]) and _same_for_blanks(now, piece)):
                kept.append(_RESET + piece if now is None else _step(now, piece))
                now = piece
        else:
            kept.append(piece)
            now = piece if now == "" else None
    return "".join([*kept, _RESET]) if resetting else "".join(kept)


def _blank(text: str) -> bool:
    return bool(text) and not text.strip(" ")


@lru_cache(maxsize=4096)
def _same_for_blanks(before: str, after: str) -> bool:
    """Return whether blanks look the same in two styles, both as they are named after a reset."""
    old, new = _parts(before), _parts(after)
    lined = _LINES & (old.keys() | new.keys())
    return not lined and all(kind in _UNSEEN for kind, _ in old.items() ^ new.items())


@lru_cache(maxsize=4096)
def _step(before: str, after: str) -> str:
    """Return what turns one style into another, both as they are named after a reset."""
    old, new = _parts(before), _parts(after)
    gone = old.keys() - new.keys()
    # What takes bold away takes dim away, too.
    if gone - {_BOLD} or (gone and _DIM in new):
        return _RESET + after
    codes = ["22"] if gone else []
    codes += [code for kind, code in new.items() if old.get(kind) != code]
    return f"\x1b[{';'.join(codes)}m" if codes else ""


def _parts(style: str) -> dict[str, str]:
    """Return the codes of a style by what they are about: both colours, and each attribute for itself."""
    codes = iter(style[2:-1].split(";")) if style else iter(())
    return dict(_part(code, codes) for code in codes)


def _part(code: str, codes: Iterator[str]) -> tuple[str, str]:
    if code in {"38", "48"}:
        kind = next(codes, "")
        rest = [next(codes, "") for _ in range(3 if kind == "2" else 1)]
        return code, ";".join((code, kind, *rest))
    if code.isdecimal() and (30 <= int(code) <= 37 or 90 <= int(code) <= 97):
        return "38", code
    if code.isdecimal() and (40 <= int(code) <= 47 or 100 <= int(code) <= 107):
        return "48", code
    return code, code
