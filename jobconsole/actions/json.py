"""JSON as text to edit: numbers keep their notation, keys their order, also duplicate ones."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator
from typing import Any, NamedTuple

from queue_core.model.codec import long_number
from queue_core.model.text import safe

_TOKEN = re.compile(r'[{}\[\],:]|"(?>[^"\\]+|\\.)*+"|[^\s{}\[\],:"]+')
_OPENING, _CLOSING = frozenset("{["), frozenset("}]")
_INDENT = "  "


class NotJson(ValueError):
    """A text is no JSON; the message is the reason, `at` the place."""

    def __init__(self, reason: str, at: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        # characters before the mistake; None: it has no one place
        self.at = at


class Oddity(NamedTuple):
    """Valid JSON that readers interpret differently."""

    at: int
    text: str


def value_of(text: str) -> Any:
    """Return the value of a JSON text.

    Raises:
        NotJson: the text is none; NaN and infinity have no JSON form.
    """
    try:
        return json.loads(text, parse_constant=_no_constant)
    except RecursionError:
        raise NotJson("it is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise NotJson(_plain(error.msg), error.pos) from None
    except NotJson as error:
        raise NotJson(error.reason, _place_of(text, error.reason.split(maxsplit=1)[0])) from None
    except ValueError:
        raise NotJson(f"it holds {long_number()}") from None


def pretty(text: str) -> str:
    """Return a JSON text with one value a line; characters that are unsafe in a terminal are escaped in its strings."""
    out: list[str] = []
    depth, before = 0, ""
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token in _CLOSING:
            depth -= 1
            if before not in _OPENING:
                out.append("\n" + _INDENT * depth)
        elif before in _OPENING or before == ",":
            out.append("\n" + _INDENT * depth)
        out.append(": " if token == ":" else escaped(token))
        depth += token in _OPENING
        before = token
    return "".join(out)


def compact(text: str) -> str:
    """Return a JSON text without blanks, as it is stored: texts without needless escapes, numbers as they are."""
    return "".join(_stored(match[0]) for match in _TOKEN.finditer(text))


def oddities(text: str) -> list[Oddity]:
    """Return the keys of a JSON text that occur twice in an object, and the numbers that no float can hold."""
    found: list[Oddity] = []
    keys: list[set[str]] = []
    for token, at, is_key in _walk(text, keys):
        if is_key:
            name = json.loads(token)
            if name in keys[-1]:
                found.append(Oddity(at, f"the key '{safe(name, 60)}' stands twice here; the last one counts"))
            keys[-1].add(name)
        elif (token[0] == "-" or token[0].isdigit()) and _endless(token):
            found.append(Oddity(at, f"{safe(token, 40)} is more than a float can hold; Python reads it as infinity"))
    return found


def escaped(text: str) -> str:
    """Return a text with everything that is unseen or moves other text as JSON escapes; line ends and tabs stay."""
    if text.isascii() and text.isprintable():
        return text
    if safe(text, len(text), newlines=True) == text:
        return text
    return "".join(char if char in "\n\t" or _harmless(char) else json.dumps(char)[1:-1] for char in text)


def _walk(text: str, keys: list[set[str]]) -> Iterator[tuple[str, int, bool]]:
    """Yield each token with its place and whether it is a key; `keys` has a set for each open object or array."""
    inside: list[str] = []
    before = ""
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token in _OPENING:
            inside.append(token)
            keys.append(set())
        elif token in _CLOSING:
            inside.pop()
            keys.pop()
        else:
            yield token, match.start(), bool(inside) and inside[-1] == "{" and before in {"{", ","}
        before = token


def _stored(token: str) -> str:
    return json.dumps(json.loads(token), ensure_ascii=False) if token[0] == '"' else token


def _harmless(char: str) -> bool:
    return safe(char, 1) == char and not unicodedata.combining(char)


def _endless(number: str) -> bool:
    return not number.lstrip("-").isdigit() and float(number) in {float("inf"), float("-inf")}


def _no_constant(name: str) -> Any:
    raise NotJson(f"{name} has no JSON form")


def _place_of(text: str, constant: str) -> int | None:
    return next((match.start() for match in _TOKEN.finditer(text) if match[0] == constant), None)


def _plain(message: str) -> str:
    """Return the error of Python's JSON reader in the words of a person who has the text before them."""
    return _WORDS.get(message, message[:1].lower() + message[1:])


_WORDS = {
    "Expecting property name enclosed in double quotes": "a key between double quotes is expected",
    "Illegal trailing comma before end of object": "a comma stands before the closing brace",
    "Illegal trailing comma before end of array": "a comma stands before the closing bracket",
    "Expecting ':' delimiter": "a colon is expected",
    "Expecting ',' delimiter": "a comma is expected",
    "Expecting value": "a value is expected",
    "Extra data": "the JSON ends before this",
    "Unterminated string starting at": "the text that starts here has no closing quote",
    "Invalid control character at": "a control character stands in a text; write it as an escape such as \\n or \\t",
}
