"""Running jobs keep their lines while one looks at them."""

from __future__ import annotations

from jobconsole.core.running import FREE, HELD, LISTED_AFTER, RunningJob, StableRows

LONG = LISTED_AFTER + 1


def running(*names: str, started: float = 0.0) -> list[RunningJob]:
    """Return running jobs that began one after the other."""
    return [RunningJob(name, 1, "task", "work", started + index) for index, name in enumerate(names)]


def shown(board: StableRows) -> list[str]:
    """Return what stands on the lines."""
    return ["" if job.outcome == FREE else job.id for job in board.lines]


def end(job: RunningJob, steady: float) -> None:
    """Let a job end."""
    job.outcome, job.ended = "completed", steady


def test_the_longest_running_comes_first() -> None:
    board = StableRows()
    board.update(reversed(running("a", "b", "c")), 10 + LONG, 0)
    assert shown(board) == ["a", "b", "c"]


def test_a_job_that_runs_for_a_moment_gets_no_line() -> None:
    board = StableRows()
    board.update(running("a", started=10), 10 + LISTED_AFTER / 2, 0)
    assert shown(board) == []


def test_an_ended_job_is_seen_for_a_moment_and_its_line_goes_to_the_next() -> None:
    board, jobs = StableRows(), running("a", "b", "c", "d")
    board.update(jobs, 10 + LONG, 0)
    end(jobs[1], 0)
    board.update([jobs[0], jobs[2], jobs[3]], 10 + LONG, HELD / 2)
    assert shown(board) == ["a", "b", "c", "d"]
    board.update([jobs[0], jobs[2], jobs[3]], 10 + LONG, HELD * 2)
    assert shown(board) == ["a", "", "c", "d"]
    board.update([jobs[0], jobs[2], jobs[3], *running("e", started=9)], 10 + LONG, HELD * 2)
    assert shown(board) == ["a", "e", "c", "d"]


def test_the_line_under_the_cursor_stays() -> None:
    board, jobs = StableRows(), running("a", "b")
    board.update(jobs, 10 + LONG, 0)
    end(jobs[0], 0)
    board.update(jobs[1:], 10 + LONG, HELD * 2, pinned="a")
    assert shown(board) == ["a", "b"]


def test_many_gaps_are_closed() -> None:
    board, jobs = StableRows(), running(*"abcdefgh")
    board.update(jobs, 20 + LONG, 0)
    for job in jobs[:6]:
        end(job, 0)
    board.update(jobs[6:], 20 + LONG, HELD * 2)
    assert shown(board) == ["g", "h"]


def test_sorting_brings_the_longest_running_to_the_top() -> None:
    board = StableRows()
    board.update(running("late", started=5), 20 + LONG, 0)
    board.update([*running("late", started=5), *running("early", started=1)], 20 + LONG, 0)
    assert shown(board) == ["late", "early"]
    board.sort()
    assert shown(board) == ["early", "late"]
