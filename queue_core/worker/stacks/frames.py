"""Where a task or a thread is, read from another thread: frames, the innermost first, bounded in number and length."""

from __future__ import annotations

import asyncio
import linecache
import os
import sys
import sysconfig
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

MAX_FRAMES = 50
"""Frames of a stack: the innermost ones."""
MAX_TEXT_LENGTH = 200
"""Characters of a path, a name or a line of code."""
MAX_NESTED_TASKS = 20
"""Tasks that wait for each other, through which a stack is followed."""


class CodeFrame(NamedTuple):
    """A line that is being executed, or awaited."""

    # below the folder that it was imported from
    file: str
    line: int
    function: str
    # the line of the source; "" where that cannot be read
    code: str
    # of Python, of an installed package, or of this one
    library: bool


def of_thread(ident: int) -> list[CodeFrame]:
    """Return where a thread is; nothing where it has ended."""
    return _read(_outward(sys._current_frames().get(ident)))


def of_task(task: asyncio.Task[Any], loop: asyncio.AbstractEventLoop, thread: int) -> list[CodeFrame]:
    """Return where a task is; `thread`: that of its event loop."""
    if asyncio.current_task(loop) is task:
        # It runs at this moment, perhaps for long: what it has called is on the thread's stack.
        return _read(_outward(sys._current_frames().get(thread), of_loop))
    return _read(iter(list(_awaited(task))[::-1]))


def of_loop(code: CodeType) -> bool:
    """Return whether the event loop runs a task by this code."""
    return code.co_name == "_run" and Path(code.co_filename).parts[-2:] == ("asyncio", "events.py")


def _outward(frame: FrameType | None, until: Any = lambda code: False) -> Iterator[tuple[FrameType, int]]:
    while frame is not None and not until(frame.f_code):
        yield frame, frame.f_lineno
        frame = frame.f_back


def _awaited(task: asyncio.Task[Any], depth: int = 0) -> Iterator[tuple[FrameType, int]]:
    """Yield the frames of a task that waits, and of those that it waits for, the outermost first."""
    waits: Any = task.get_coro()
    for _ in range(1000):
        frame = next((one for name in ("cr", "gi", "ag") if (one := getattr(waits, f"{name}_frame", None))), None)
        if frame is None:
            break
        yield frame, frame.f_lineno
        inner = next((one for name in _AWAITS if (one := getattr(waits, name, None)) is not None), None)
        # A soft time limit drives its handler step by step, so nothing is awaited by it.
        waits = frame.f_locals.get("handler") if inner is None and frame.f_code.co_name == "_driven" else inner
    waiter = getattr(task, "_fut_waiter", None)
    if isinstance(waiter, asyncio.Task) and depth < MAX_NESTED_TASKS:
        yield from _awaited(waiter, depth + 1)


_AWAITS = ("cr_await", "gi_yieldfrom", "ag_await")


def _read(found: Iterator[tuple[FrameType, int]]) -> list[CodeFrame]:
    frames = []
    for frame, line in found:
        code = frame.f_code
        path = code.co_filename
        source = linecache.getline(path, line, frame.f_globals).strip()
        frames.append(
            CodeFrame(
                _short(path)[-MAX_TEXT_LENGTH:],
                line,
                code.co_qualname[:MAX_TEXT_LENGTH],
                source[:MAX_TEXT_LENGTH],
                _is_library(path),
            )
        )
        if len(frames) == MAX_FRAMES:
            break
    return frames


@cache
def _libraries() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    own = Path(__file__).resolve().parents[2]
    return tuple({*(paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")), str(own)})


def _is_library(path: str) -> bool:
    packages = {"site-packages", "dist-packages"} & set(Path(path).parts)
    return path.startswith(("<frozen", *_libraries())) or bool(packages)


def _short(path: str) -> str:
    roots = sorted((root for root in {*sys.path, str(Path.cwd())} if root and path.startswith(root + os.sep)), key=len)
    return path[len(roots[-1]) + 1 :] if roots else path
