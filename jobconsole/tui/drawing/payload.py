"""JSON as an indented tree with its names, texts and numbers in different tones."""

from __future__ import annotations

import json
import re
from typing import Any

from jobconsole.core.columns import Span
from jobconsole.core.humanize import size
from jobconsole.tui.drawing.spans import Line, wrap
from queue_core.text import safe

SHOWN = 64 << 10
"""Characters of a JSON text that are shown."""
_TOKEN = re.compile(
    r'(?P<name>"(?:[^"\\]|\\.)*"(?=:))|(?P<text>"(?:[^"\\]|\\.)*")|(?P<other>-?\d[\d.eE+-]*|true|false|null)'
)
_TONES = {"name": "accent", "text": "good", "other": "warn"}


def json_lines(value: Any, text: str, width: int) -> list[Line]:
    """Return the lines of a value; of the stored text where it is no JSON."""
    raw = text if value is None and text else json.dumps(value, indent=2, ensure_ascii=False)
    shown = safe(raw, limit=SHOWN, newlines=True)
    lines: list[Line] = []
    for line in shown.splitlines():
        indent = len(line) - len(line.lstrip(" "))
        for number, part in enumerate(wrap(line[indent:], max(8, width - indent - 2))):
            lines.append(((" " * (indent + (2 if number else 0)), "text"), *_toned(part)))
    if len(raw) > SHOWN:
        lines.append(((f"cut: the whole has {size(len(raw.encode(errors='replace')))}", "muted"),))
    return lines


def _toned(line: str) -> list[Span]:
    spans: list[Span] = []
    at = 0
    for match in _TOKEN.finditer(line):
        if match.start() > at:
            spans.append((line[at : match.start()], "muted"))
        spans.append((match[0], _TONES[match.lastgroup or "other"]))
        at = match.end()
    return [*spans, (line[at:], "muted")] if at < len(line) else spans
