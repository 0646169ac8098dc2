"""The demo's lines for people: to stdout, or to stderr where stdout belongs to a program."""

from __future__ import annotations

import os
import sys
from typing import TextIO


class Voice:
    """Writes lines; a reader that has gone away is no error, but a reason to end."""

    def __init__(self, stream: TextIO | None) -> None:
        # None: the demo was started with this stream closed
        self._stream = stream
        self.heard = True

    def say(self, line: str) -> None:
        """Write one line at once."""
        if self._stream is None or not self.heard:
            return
        try:
            self._stream.write(f"{line}\n")
            self._stream.flush()
        except (OSError, ValueError):
            self.heard = False
            self._silence()

    def _silence(self) -> None:
        """Let nothing that is still buffered fail again when the interpreter ends."""
        assert self._stream is not None
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self._stream.fileno())
        os.close(nowhere)


def occupy_standard_streams() -> None:
    """Open what is closed of stdin, stdout and stderr, so that no file or socket of this process takes their place."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


def voice_for(json: bool) -> Voice:
    """Return the voice of a run."""
    return Voice(sys.stderr if json else sys.stdout)
