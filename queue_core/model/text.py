"""Text that other programs wrote, made harmless: to show it (`safe`), to store it (`storable`), to bound it (`cut`).

Names, payloads, errors and tracebacks come from jobs, and a job may carry what an attacker sent. Terminals obey escape
sequences, bidirectional marks reorder what a person reads, and stores refuse some code points altogether.
"""

from __future__ import annotations

import re
import unicodedata

MARK = "…"
"""The end of a text that was capped."""

# Printable by Unicode's classes and still invisible or merged into a neighbour: combining grapheme joiner, Hangul
# fillers, Khmer and Mongolian fillers, variation selectors. (Everything else unseen is not `str.isprintable`.)
# Skin tones and the letters of flags, too: terminals disagree on how many cells they take beside their neighbours.
_HIDDEN = "\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u2800\u3164\uffa0\ufe00-\ufe0f\U000e0100-\U000e01ef"
_HIDDEN += "\U0001f3fb-\U0001f3ff\U0001f1e6-\U0001f1ff"
_HIDDEN_PATTERN = re.compile(f"[{_HIDDEN}]")
# More combining marks on one letter than any language writes; they climb over the neighbouring lines.
_PILED_UP = re.compile("(?<=[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]{4})"
                       "[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]+")  # fmt: skip
_TAB = "    "


def type_name(kind: type) -> str:
    """Return the name of a class, whatever its metaclass does when it is asked."""
    return str.__str__(_NAME.__get__(kind))  # a name may be of a subclass of str, with code of its own


_NAME = vars(type)["__name__"]


def safe(text: str, limit: int = 1_000, newlines: bool = False) -> str:
    """Return the text as one may show it anywhere, at most `limit` characters long.

    Control characters become their pictures (␛), everything else that is unseen or reorders text its code
    (`\\u202e`), other spaces plain spaces. A capped text ends in `MARK`. With `newlines`, line ends stay and tabs
    become spaces; without, they are pictures too, so that the result is one line.
    """
    if len(text) <= limit and text.isprintable() and (text.isascii() or _plain(text)):
        return text
    # Every character gives at least one, so what lies beyond this cannot be part of the result.
    shown = text[: max(limit, 0) + 1]
    if newlines:
        shown = "\n".join(_printable(line.replace("\t", _TAB)) for line in shown.replace("\r\n", "\n").split("\n"))
    else:
        shown = _printable(shown)
    if len(shown) <= limit and len(text) <= limit:
        return shown
    return shown[: limit - 1] + MARK if limit > 0 else ""


def _plain(text: str) -> bool:
    return _HIDDEN_PATTERN.search(text) is None and _PILED_UP.search(text) is None


def _printable(line: str) -> str:
    if not line.isprintable():
        line = "".join(char if char.isprintable() else _visible(char) for char in line)
    if line.isascii():
        return line
    line = _HIDDEN_PATTERN.sub(lambda match: _code(match[0]), line)
    return _PILED_UP.sub(lambda match: "".join(map(_code, match[0])), line)


def _visible(char: str) -> str:
    point = ord(char)
    if point < 0x20:
        return chr(0x2400 + point)
    if point == 0x7F:
        return "\u2421"
    return " " if unicodedata.category(char) == "Zs" else _code(char)


def _code(char: str) -> str:
    point = ord(char)
    return f"\\u{point:04x}" if point <= 0xFFFF else f"\\U{point:08x}"


def storable(text: str) -> str:
    """Return the text as every store accepts it: NUL as ␀, lone surrogates as their code, all else unchanged."""
    if "\0" in text:
        text = text.replace("\0", "\u2400")
    try:
        text.encode()
    except UnicodeEncodeError:
        text = text.encode(errors="backslashreplace").decode()
    return text


def cut(text: str, limit: int) -> str:
    """Return the text in at most `limit` bytes of UTF-8: a third from its start, the rest from its end, and a mark.

    The text is `storable` afterwards. The end is worth more: a traceback's last lines show what happened.
    """
    if len(text) > 2 * limit:
        # No character takes fewer bytes than one: more of either end cannot be kept, and less is copied.
        text = f"{text[:limit]}{text[len(text) - limit - 1 :]}"
    data = storable(text).encode()
    if len(data) <= limit:
        return data.decode()
    mark = f"\n{MARK} cut to {limit:,} bytes {MARK}\n"
    room = limit - len(mark.encode())
    if room <= 0:
        return data[:limit].decode(errors="ignore")
    head = data[: room // 3].decode(errors="ignore")
    tail = data[len(data) - (room - room // 3) :].decode(errors="ignore")
    return head + mark + tail
