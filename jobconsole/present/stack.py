"""Where a running job was: what its worker answered, read defensively, drawn for a tab and for the command line."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeGuard

from jobconsole.core.rows import LONGEST_NAME
from jobconsole.format import humanize
from jobconsole.format.spans import Line, RenderContext, Spans, fit, width_of, wrap
from queue_core.model.report import JobStack
from queue_core.model.text import safe
from queue_core.ports.operations import STACKS_OF_A_JOB

SHOWN_FRAMES = 50
"""Frames that are shown."""
LONGEST_TEXT = 200
"""Characters of a path, a name or a line of code."""
LONGEST_SECONDS = 1e12
"""Times of an answer are below this; a longer one, or one that is no number, is unknown."""
SILENT = "did not answer in 2 s; if it answers later, the stack is kept with the job"
MiB = 1 << 20


@dataclass(frozen=True, slots=True)
class StackLine:
    """A frame, harmless."""

    # file and line: the place by which two stacks are compared
    place: str
    function: str
    code: str
    library: bool


@dataclass(frozen=True, slots=True)
class LiveStack:
    """A stack as it was answered; every text of it is harmless."""

    number: int
    worker: str
    requested_at: datetime
    # None: not answered
    taken_at: datetime | None
    # task, thread, child task or child thread; "" where there is a problem
    kind: str
    # a sentence
    problem: str
    frames: tuple[StackLine, ...]
    # whether the worker measured itself: an answer that cannot be read has nothing of it
    measured: bool
    # seconds; None: the event loop did not answer
    lag: float | None
    # bytes
    memory: int
    # bytes and seconds; None: unknown
    grown: tuple[int, float] | None

    @property
    def places(self) -> tuple[str, ...]:
        """Where the program's own code is; of a stack in libraries alone, all of it."""
        own = tuple(frame.place for frame in self.frames if not frame.library)
        return own or tuple(frame.place for frame in self.frames)


def read_stack(stack: JobStack) -> LiveStack:
    """Return a stack with its answer read; an answer that is none is a problem, not an error."""
    try:
        answer = json.loads(stack.text) if stack.text else {}
        given: dict[str, Any] = answer if isinstance(answer, dict) else {"problem": "its worker's answer is unreadable"}
        frames = tuple(_frame(*one) for one in list(given.get("frames", ()))[:SHOWN_FRAMES])
        grown, over, lag = given.get("grown"), given.get("grown_over"), given.get("lag")
        problem = str(given.get("problem", ""))
    except (ValueError, TypeError):
        return read_stack(stack._replace(text='{"problem": "its worker\'s answer is unreadable"}'))
    return LiveStack(
        number=stack.number,
        worker=safe(stack.worker, LONGEST_NAME),
        requested_at=stack.requested_at,
        taken_at=stack.taken_at,
        kind=safe(str(given.get("kind", "")), LONGEST_NAME),
        problem=SILENT if stack.taken_at is None else safe(problem, LONGEST_TEXT),
        frames=frames,
        measured="lag" in given,
        lag=lag if _is_time(lag) else None,
        memory=_number(given.get("memory")),
        grown=(grown, float(over)) if isinstance(grown, int) and _is_time(over) else None,
    )


def stack_body(stack: LiveStack) -> dict[str, object]:
    """Return a stack as JSON."""
    grown, over = stack.grown or (None, None)
    return {
        "worker": stack.worker,
        "requested_at": stack.requested_at,
        "taken_at": stack.taken_at,
        "kind": stack.kind or None,
        "problem": stack.problem or None,
        "loop_lag": stack.lag,
        "memory": stack.memory,
        "memory_grown": grown,
        "memory_grown_over": over,
        "frames": [
            {"place": frame.place, "function": frame.function, "code": frame.code, "library": frame.library}
            for frame in stack.frames
        ],
    }


def _frame(file: object, line: object, function: object, code: object, library: object) -> StackLine:
    place = f"{safe(str(file), LONGEST_TEXT)}:{_number(line)}"
    return StackLine(place, safe(str(function), LONGEST_TEXT), safe(str(code), LONGEST_TEXT), bool(library))


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


def _is_time(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and 0 <= value < LONGEST_SECONDS


def unmoved_since(stacks: Sequence[LiveStack]) -> datetime | None:
    """Return when the newest of these stacks was first at its place, without another one between; None: only now."""
    taken = [stack for stack in stacks if stack.taken_at is not None and stack.frames]
    since = None
    for earlier in taken[1:]:
        if earlier.places != taken[0].places:
            break
        since = earlier.taken_at
    return since


def stack_lines(
    stacks: Sequence[LiveStack] | None, all_frames: bool, context: RenderContext, width: int, key: str = "t"
) -> list[Line]:
    """Return the newest stack of a job; library frames are folded unless all are shown, by a key. None: being read."""
    if stacks is None:
        return [(("reading ...", "muted"),)]
    if not stacks:
        words = "no stack was taken yet; L asks the worker of a running job where it is"
        return [((part, "muted"),) for part in wrap(words, width)]
    newest = stacks[0]
    lines: list[Line] = [((part, "muted"),) for part in wrap(_facts(newest, context.now), width)]
    if newest.problem:
        who = f"{newest.worker} {newest.problem}" if newest.taken_at is None else newest.problem
        lines += [((part, "warn"),) for part in wrap(f"{context.glyphs.alert} {who}", width)]
    lines += _frame_lines(newest, all_frames, context, width, key)
    since = unmoved_since(stacks)
    if since is not None and newest.taken_at is not None:
        stood = humanize.duration((newest.taken_at - since).total_seconds())
        text = f"The same place as at {humanize.moment_of(since, context.now)}: it has not moved for {stood}"
        lines += [((part, "warn"),) for part in wrap(f"{context.glyphs.alert} {text}", width)]
    kept = sum(stack.taken_at is not None for stack in stacks)
    return [*lines, ((f"{kept} of {STACKS_OF_A_JOB} kept with the job", "muted"),)]


def _facts(stack: LiveStack, now: datetime) -> str:
    if stack.taken_at is None:
        return f"asked {humanize.moment_of(stack.requested_at, now)}"
    took = humanize.duration(max(0.0, (stack.taken_at - stack.requested_at).total_seconds()))
    words = [f"taken {humanize.moment_of(stack.taken_at, now)} in {took}"]
    if stack.kind:
        words.append(f"{stack.kind} stack")
    if not stack.measured:
        return " · ".join(words)
    words.append("the event loop is blocked" if stack.lag is None else f"loop lag {humanize.duration(stack.lag)}")
    words.append(f"{'process' if 'child' in stack.kind else 'worker'} {humanize.size(stack.memory)}")
    if stack.grown is not None and abs(stack.grown[0]) >= MiB:
        sign, over = "+" if stack.grown[0] > 0 else "-", humanize.duration(stack.grown[1])
        words[-1] += f", {sign}{humanize.size(abs(stack.grown[0]))} in {over}"
    return " · ".join(words)


def _frame_lines(stack: LiveStack, all_frames: bool, context: RenderContext, width: int, key: str) -> list[Line]:
    own = any(not frame.library for frame in stack.frames)
    shown = [frame for frame in stack.frames if all_frames or not own or not frame.library]
    lines: list[Line] = []
    for frame in shown:
        tone = "muted" if frame.library else "strong"
        lines.append(_cut(((f"  {frame.place}  ", "text"), (frame.function, tone)), context, width))
        if frame.code:
            code = ((f"      {frame.code}", "muted" if frame.library else "text"),)
            lines.append(_cut(code, context, width))
    folded = len(stack.frames) - len(shown)
    if folded:
        words = humanize.plural(folded, "library frame")
        lines.append(((f"  {context.glyphs.ellipsis} {words} folded; {key} shows them", "muted"),))
    return lines


def _cut(line: Spans, context: RenderContext, width: int) -> Line:
    return line if width_of(line) <= width else fit(line, width, ellipsis=context.glyphs.ellipsis)
