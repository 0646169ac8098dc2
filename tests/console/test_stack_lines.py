"""The stack of a running job as lines of a screen."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from jobconsole.format.glyphs import UNICODE
from jobconsole.format.spans import RenderContext, width_of
from jobconsole.present.stack import LiveStack, StackLine, read_stack, stack_lines
from queue_core.model.report import JobStack

NOW = datetime(2026, 3, 1, 3, 7, 41, tzinfo=UTC)


def test_what_is_cut_of_a_frame_ends_in_an_ellipsis() -> None:
    short = StackLine("app/nfs.py:40", "read_block", "return os.pread(fd, size, at)", False)
    long = StackLine("app/nfs.py:41", "read_" * 12, "return 日本語の名前(" + "size, " * 20 + ")", False)
    stack = LiveStack(
        number=1, worker="vm:1", requested_at=NOW, taken_at=NOW, kind="task", problem="", frames=(short, long),
        measured=True, lag=0.01, memory=1 << 20, grown=None,
    )  # fmt: skip
    lines = stack_lines([stack], False, RenderContext(NOW, UNICODE), 50)[-5:-1]
    texts = ["".join(part for part, _ in line) for line in lines]
    assert all(width_of(line) <= 50 for line in lines)
    assert texts[:2] == ["  app/nfs.py:40  read_block", "      return os.pread(fd, size, at)"]
    assert [text[-1] for text in texts[2:]] == ["…", "…"]


def test_a_job_without_a_stack_has_a_whole_sentence() -> None:
    lines = stack_lines((), False, RenderContext(NOW, UNICODE), 40)
    texts = ["".join(text for text, _ in line) for line in lines]
    assert max(width_of(line) for line in lines) <= 40
    assert " ".join(texts).endswith("asks the worker of a running job where it is")


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e300"])
def test_an_answer_with_numbers_that_are_none_is_drawn(number: str) -> None:
    text = f'{{"lag": {number}, "memory": 1, "grown": 9000000, "grown_over": {number}, "frames": []}}'
    stack = read_stack(JobStack(1, "a job", "vm:1", NOW, NOW, text))
    assert (stack.lag, stack.grown) == (None, None)
    assert stack_lines([stack], False, RenderContext(NOW, UNICODE), 60)


def text_of(answer: str) -> str:
    stack = read_stack(JobStack(1, "a job", "vm:1", NOW, NOW, answer))
    return " ".join(part for line in stack_lines([stack], False, RenderContext(NOW, UNICODE), 200) for part, _ in line)


def test_a_worker_that_measured_nothing_is_not_blamed() -> None:
    assert "blocked" not in text_of('{"problem": "the job has ended, or was given back"}')
    assert "blocked" not in text_of("[]")
    assert "the event loop is blocked" in text_of('{"problem": "it is ending", "lag": null, "memory": 1}')
