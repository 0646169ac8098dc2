"""Python tracebacks, parsed: the frames of the application first, those of libraries folded."""

from __future__ import annotations

import re
from dataclasses import dataclass

from queue_core.model.signature import FrameName as PlainFrame
from queue_core.model.signature import application_frame, is_own
from queue_core.model.text import safe

_LINE = 300
_FRAME = re.compile(r'^\s*File "(?P<file>[^"\n]{1,4096})", line (?P<line>\d{1,9}), in (?P<function>.{1,200})$')
_START = re.compile(r"^\s*(?:\+ |\| )*(?:Exception Group )?Traceback \(most recent call last\):\s*$")
# Compiled extensions name their sources by a relative path.
_LIBRARY = re.compile(r"[\\/](?:site|dist)-packages[\\/]|[\\/]lib[\\/]python3|[\\/]Lib[\\/]|^<|\.p(?:yx|x[di])$")
_PACKAGE = re.compile(r"[\\/](?:site|dist)-packages[\\/]([^\\/]+)")


@dataclass(frozen=True, slots=True)
class StackFrame:
    """One frame of a traceback."""

    file: str
    line: int
    function: str
    # the source line, and the marks under it, as the traceback has them
    source: tuple[str, ...]
    application: bool

    @property
    def place(self) -> str:
        """The file in a short form with its line: its last three parts."""
        parts = re.split(r"[\\/]", self.file)
        return f"{'/'.join(parts[-3:])}:{self.line}"


@dataclass(frozen=True, slots=True)
class Section:
    """One exception of a chain: its link to the one before, its frames outermost first, and its message."""

    # the sentence between two exceptions of a chain; "" for the first
    link: str
    frames: tuple[StackFrame, ...]
    error: tuple[str, ...]

    @property
    def headline(self) -> int:
        """The line of the error that names the exception: of a SyntaxError it is below the indented source."""
        return next((at for at, line in enumerate(self.error) if line and not line[0].isspace()), 0)


def parse(text: str) -> tuple[Section, ...]:
    """Return the exceptions of a traceback, the last one (the one that ended the attempt) at the end.

    A text that is no traceback gives one section without frames. All texts are harmless.
    """
    lines = safe(text, limit=200_000, newlines=True).splitlines()
    sections: list[Section] = []
    link: list[str] = []
    at = 0
    while at < len(lines):
        if not _START.match(lines[at]):
            link.append(lines[at])
            at += 1
            continue
        error, link = _split(link)
        if sections and error:
            sections[-1] = Section(sections[-1].link, sections[-1].frames, sections[-1].error + error)
        elif error:
            sections.append(Section("", (), error))
        frames, at = _frames(lines, at + 1)
        sections.append(Section(" ".join(link).strip(), frames, ()))
        link = []
    rest = tuple(line.rstrip() for line in link)
    if sections:
        sections[-1] = Section(sections[-1].link, sections[-1].frames, sections[-1].error + _trim(rest))
    else:
        sections = [Section("", (), _trim(rest))]
    return tuple(section for section in sections if section.frames or section.error)


def top_frame(sections: tuple[Section, ...]) -> StackFrame | None:
    """Return the innermost frame of the application in the last exception, any innermost one where it has none."""
    frames = sections[-1].frames if sections else ()
    own = [frame for frame in frames if frame.application] or list(frames)
    return own[-1] if own else None


def _split(lines: list[str]) -> tuple[tuple[str, ...], list[str]]:
    """Split the lines between two tracebacks into the first one's error and the sentence that links them."""
    for index in range(len(lines) - 1, -1, -1):
        if lines[index].strip().endswith(":") and "exception" in lines[index].lower():
            return _trim(tuple(lines[:index])), [lines[index].strip()]
    return _trim(tuple(lines)), []


def _trim(lines: tuple[str, ...]) -> tuple[str, ...]:
    kept = [line.rstrip() for line in lines]
    while kept and not kept[-1]:
        kept.pop()
    while kept and not kept[0]:
        kept.pop(0)
    return tuple(kept)


def _frames(lines: list[str], at: int) -> tuple[tuple[StackFrame, ...], int]:
    found: list[tuple[re.Match[str], list[str]]] = []
    while at < len(lines):
        match = _FRAME.match(lines[at])
        if match:
            found.append((match, []))
        elif found and lines[at].startswith("    "):
            found[-1][1].append(lines[at][4:].rstrip()[:_LINE])
        elif not (found and lines[at].lstrip().startswith("[Previous line repeated")):
            break
        at += 1
    own = _own_package([PlainFrame(match["file"], match["function"]) for match, _ in found])
    return tuple(_frame(match, source, own) for match, source in found), at


def _own_package(frames: list[PlainFrame]) -> str:
    """The installed package that is the application, where the application is an installed one."""
    frame = application_frame(frames)
    match = _PACKAGE.search(frame.file) if frame else None
    return match[1] if match else ""


def _frame(match: re.Match[str], source: list[str], own: str) -> StackFrame:
    file = match["file"]
    package = _PACKAGE.search(file)
    application = bool(own and package and package[1] == own) or not (_LIBRARY.search(file) or is_own(file))
    return StackFrame(file, int(match["line"]), match["function"], tuple(source), application)
