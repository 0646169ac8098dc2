"""The editor of the person at the terminal, on a file that nobody else can read."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from jobconsole.cli.failures import CommandError, UsageError

_EDITORS = ("VISUAL", "EDITOR")


def edited(text: str) -> str:
    """Return a text as a person leaves it in the editor.

    Raises:
        UsageError: no editor is named, or it cannot be started.
        CommandError: it failed, or left something that is no text.
    """
    command = _command()
    with tempfile.TemporaryDirectory(prefix="jobconsole-") as folder:
        file = Path(folder) / "payload.json"
        file.touch(mode=0o600)
        file.write_text(f"{text}\n", encoding="utf-8")
        _open(command, file)
        try:
            return file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            raise CommandError(f"'{command[0]}' left no text that can be read; nothing was enqueued") from None


def _command() -> list[str]:
    named = next((os.environ[name] for name in _EDITORS if os.environ.get(name)), "vi")
    try:
        command = shlex.split(named)
    except ValueError:
        command = []
    if not command:
        raise UsageError(f"VISUAL or EDITOR does not name an editor: '{named}'")
    return command


def _open(command: list[str], file: Path) -> None:
    with _ctrl_c_is_the_editors():
        try:
            code = subprocess.run([*command, str(file)], check=False).returncode
        except OSError as error:
            named = f"'{command[0]}' cannot be started: {error.strerror}"
            raise UsageError(f"{named}; name another one in EDITOR, or give --payload") from None
    if code:
        raise CommandError(f"'{command[0]}' ended with code {code}; nothing was enqueued")


@contextmanager
def _ctrl_c_is_the_editors() -> Iterator[None]:
    """Leave Ctrl+C to the editor, which hears it, too: it must not end this program below it."""
    # A function, not SIG_IGN, which the editor would inherit.
    before = signal.signal(signal.SIGINT, lambda number, frame: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
