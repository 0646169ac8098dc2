"""What a list shows of operations: their states with speed and time left, what they wait for, what has undone them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jobconsole.core.progress import OperationPages, operation_line, operations_line
from jobconsole.format.glyphs import UNICODE
from jobconsole.present.facts import of_operation
from jobconsole.present.operation import OPERATIONS, strip_line
from jobconsole.tui.sheets.change import merged
from queue_core.model.operation import Operation, OperationRequest, OperationState, Outcomes, Rollout
from tests.console.test_facts import MOMENT, operation, text_of


def state_cell(one: Operation, rate: float | None = None, undone_by: int = 0) -> str:
    (column,) = [column for column in OPERATIONS if column.title == "STATE"]
    line = replace(operation_line(one), rate=rate, undone_by=undone_by)
    return "".join(text for text, _ in column.value(line, MOMENT))


RUNNING = operation(82, total=1204, done=640, processed=640, barrier=1204)


@pytest.mark.parametrize(
    ("one", "rate", "undone_by", "text"),
    [
        (RUNNING, 40.0, 0, "▶ 40/s, 14s"),
        (RUNNING, 0.0, 0, "▶ running"),
        (RUNNING, None, 0, "▶ running"),
        (
            operation(83, total=1204, done=101, barrier=101, rollout=Rollout(ramp=(1, 100, 1000))),
            40.0,
            0,
            "▶ ramp 2 of 3",
        ),
        (operation(79, total=120, done=120, processed=120, barrier=120, state="done"), None, 80, "↶ undone by #80"),
        (operation(84, total=10, barrier=0, rollout=Rollout(when_release="r125")), None, 0, "◷ waits r125"),
    ],
)
def test_the_state_of_an_operation(one: Operation, rate: float | None, undone_by: int, text: str) -> None:
    assert state_cell(one, rate, undone_by) == text


@pytest.mark.parametrize(("rate", "before"), [(40.0, "ETA 14s"), (0.0, "0/s"), (None, "640/1,204 ")])
def test_who_asked_for_an_operation_is_apart_from_what_is_before(rate: float | None, before: str) -> None:
    line = replace(operation_line(RUNNING), rate=rate)
    shown = "".join(text for text, _ in strip_line(line, MOMENT, 120))
    assert f"{before} {UNICODE.separator} {line.user} " in shown


def test_those_that_wait_for_a_release_are_counted_apart() -> None:
    waiting = operation(84, total=10, barrier=0, rollout=Rollout(when_release="r125"))
    other = operation(85, total=10, barrier=0, rollout=Rollout(when_release="r126"))

    def counted(*found: Operation) -> str:
        return "".join(text for text, _ in operations_line([operation_line(one) for one in found], UNICODE))

    assert counted(RUNNING, waiting) == "1 running  1 waits for r125"
    assert counted(waiting, replace(waiting, number=90)) == "2 wait for r125"
    assert counted(waiting, other) == "2 wait for releases"


def test_a_ramp_shows_what_has_passed_and_what_follows() -> None:
    one = operation(
        83, total=1204, done=101, processed=101, barrier=110, rollout=Rollout(ramp=(10, 100), stop_percent=20.0)
    )
    found = text_of(of_operation(one, None, Outcomes(91, 0, 0, 91)), "canary")
    assert found == "10 passed; ramp 2 of 2, of 100 jobs, not over: 91 not ended; then 1,094"


def test_jobs_that_are_still_being_written_are_not_a_total() -> None:
    one = operation(5, state="preparing", total=18_000)
    assert text_of(of_operation(one, None), "jobs") == "18,000 written so far"
    line = "".join(text for text, _ in strip_line(operation_line(one), MOMENT, 120))
    assert "preparing  18,000 written so far" in line
    assert "0/18,000" not in line


@pytest.mark.parametrize("state", ["stopped", "cancelled"])
def test_a_canary_that_has_stopped_its_operation_is_not_called_unfinished(state: OperationState) -> None:
    one = operation(
        5, total=32, done=10, processed=10, barrier=10, state=state, rollout=Rollout(canary=10, stop_percent=20.0)
    )
    found = text_of(of_operation(one, None, Outcomes(10, 0, 10, 0)), "canary")
    assert found == "of 10 jobs, stopped: 10 failed again; then 22"


@pytest.mark.parametrize(
    ("verb", "why", "number"),
    [
        ("restore", "takes #3 back", 3), ("resume", "undoes #3", 3), ("mute", "undoes #3", 3),
        ("retry", "undoes #3", 0), ("resume", "undoes #3 perhaps", 0), ("resume", "", 0),
    ],
)  # fmt: skip
def test_an_operation_shows_which_one_has_undone_it(verb: str, why: str, number: int) -> None:
    back = operation(4, state="done")
    request: OperationRequest = replace(back.request, verb=verb, why=why)  # type: ignore[arg-type]
    pages = OperationPages()
    pages.take([operation_line(operation(3, state="done")), operation_line(replace(back, request=request))], None, 10)
    (undone,) = [line.undone_by for line in pages.newest_first if line.number == 3]
    assert undone == (4 if number else 0)


def test_where_jobs_of_one_type_died_is_one_line() -> None:
    facts = (
        ("types", "send_email 38,902"), ("queues", "default"), ("died", "from 02:52:10 to 03:07:37"),
        ("release", " since r124"), ("sample", "x"),
    )  # fmt: skip
    assert merged(facts) == [
        ("died", "02:52:10 to 03:07:37 on default, all send_email since r124"),
        ("sample", "x"),
    ]
    several = (("types", "send_email 2, sync 1"), *facts[1:])
    assert merged(several) == [fact for fact in several if fact[0] != "release"]
    assert merged(facts[:2]) == list(facts[:2])
