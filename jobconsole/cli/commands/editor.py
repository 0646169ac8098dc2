"""The editor of the person at the terminal, on a file that only its owner can read."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from jobconsole.actions.json import NotJson, value_of
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
    """Leave Ctrl+C to the editor, which receives it, too: it must not end this program below it."""
    # A function, not SIG_IGN, which the editor would inherit.
    before = signal.signal(signal.SIGINT, lambda number, frame: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


_DECODER = json.JSONDecoder()
_SPACES = re.compile(r"[ \t\r\n]*")


class _Range(NamedTuple):
    """Where a value is in a text; an empty one behind the last member is where a new key goes."""

    start: int
    end: int
    # what has to be inserted before a new value
    before: str = ""


def assigned(text: str, assignment: str) -> str:
    """Return a JSON text after `path=value`: keys and array indexes with dots between; a value that is no JSON is text.

    The last key may be new; all others have to be there.

    Raises:
        UsageError: it is no assignment, or leads nowhere.
    """
    path, sign, value = assignment.partition("=")
    keys = path.split(".")
    if not sign or not all(keys):
        raise UsageError(f"--set takes PATH=VALUE, as in user.id=7 or items.0.name=book, not '{assignment}'")
    place = _Range(_after_spaces(text, 0), len(text))
    for depth, key in enumerate(keys):
        here = ".".join(keys[:depth]) or "the payload"
        found = _member(text, place.start, key, last=depth == len(keys) - 1)
        if found is None:
            raise UsageError(f"--set {path}: there is no '{key}' in {here}")
        place = found
    return f"{text[: place.start]}{place.before}{_json(value)}{text[place.end :]}"


def _json(value: str) -> str:
    try:
        value_of(value)
    except NotJson:
        return json.dumps(value, ensure_ascii=False)
    return value


def _member(text: str, at: int, key: str, last: bool) -> _Range | None:
    """Return the place of a member of the object or array that begins at `at`."""
    if text[at] == "{":
        return _value_of_key(text, at, key, last)
    return _item(text, at, key) if text[at] == "[" else None


def _value_of_key(text: str, at: int, key: str, last: bool) -> _Range | None:
    found = None
    at, comma = _after_spaces(text, at + 1), ""
    while text[at] != "}":
        name, at = _DECODER.raw_decode(text, at)
        start = _after_spaces(text, _after_spaces(text, at) + 1)
        _, end = _DECODER.raw_decode(text, start)
        # Of duplicate keys, the last one counts.
        found = _Range(start, end) if name == key else found
        at, comma = _behind(text, end), ","
    return found or (_Range(at, at, f"{comma}{json.dumps(key, ensure_ascii=False)}:") if last else None)


def _item(text: str, at: int, key: str) -> _Range | None:
    if not re.fullmatch(r"[0-9]{1,9}", key):
        return None
    at, left = _after_spaces(text, at + 1), int(key)
    while text[at] != "]":
        _, end = _DECODER.raw_decode(text, at)
        if left == 0:
            return _Range(at, end)
        at, left = _behind(text, end), left - 1
    return None


def _behind(text: str, end: int) -> int:
    """Return where the next member, or the end of the object or array, begins."""
    at = _after_spaces(text, end)
    return _after_spaces(text, at + 1) if text[at] == "," else at


def _after_spaces(text: str, at: int) -> int:
    match = _SPACES.match(text, at)
    return match.end() if match else at
