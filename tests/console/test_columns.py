"""Columns fit their width, and the least needed goes first."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobconsole.core.rows import held_order
from jobconsole.format.glyphs import ASCII, UNICODE, Glyphs, glyphs_for
from jobconsole.format.spans import RenderContext, fit
from jobconsole.present.columns import (
    DEAD_JOBS,
    JOBS,
    QUEUES,
    RUNNING_JOBS,
    WORKERS,
    bar,
    dead_columns,
    signature_columns,
)
from jobconsole.present.layout import FAIR, GAP, Column, fit_columns, row_spans
from jobconsole.present.operation import OPERATIONS
from jobconsole.present.schedule import TICKS
from jobconsole.present.signature import owner_spans
from queue_core.model.report import WorkerInfo
from queue_core.model.triage.signatures import UNTOUCHED, SignatureState

NOW = datetime(2026, 3, 1, tzinfo=UTC)
TABLES = {
    "signatures": signature_columns("15m"),
    "dead": DEAD_JOBS,
    "dead, much room": dead_columns(200),
    "jobs": JOBS,
    "running": RUNNING_JOBS,
    "queues": QUEUES,
    "workers": WORKERS,
    "ticks": TICKS,
}


@pytest.mark.parametrize(
    ("owner", "shown"),
    [
        ("ana", "an"),
        ("界界", "界"),
        ("a界", "a"),
        ("e\N{COMBINING ACUTE ACCENT}va", "e\N{COMBINING ACUTE ACCENT}v"),
        ("b", "b"),
        ("", "-"),
    ],
)
def test_an_owner_is_cut_to_the_letters_that_two_cells_hold(owner: str, shown: str) -> None:
    state = SignatureState("9f31c2aaaaaa", facts=replace(UNTOUCHED, owner=owner))
    (text, _), *blank = fit(owner_spans(state), 2)
    assert (text + "".join(part for part, _ in blank)).rstrip() == shown


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("width", [75, 90, 180])
def test_a_table_fills_its_width(name: str, width: int) -> None:
    fitted = fit_columns(TABLES[name], width)
    assert sum(size for _, size in fitted) + GAP * (len(fitted) - 1) == width


LENT: tuple[Column[str], ...] = (
    Column("#", 3, lambda row, context: (("7", "text"),)),
    Column("WHY", 6, lambda row, context: (("a long reason", "text"),), flex=True),
    Column("ID", 4, lambda row, context: ((row, "faint"),)),
    Column("AT", 4, lambda row, context: (("now" if row else "", "faint"),)),
)


@pytest.mark.parametrize(("row", "shown"), [("", "7    a long reason     "), ("id-1", "7    a lon…  id-1  now ")])
def test_blank_cells_lend_their_room_to_the_text_before_them(row: str, shown: str) -> None:
    fitted = fit_columns(LENT, 23)
    assert "".join(text for text, _ in row_spans(row, fitted, RenderContext(NOW, UNICODE))) == shown


def test_outcomes_of_operations_leave_room_for_what_they_are_about() -> None:
    """At 80x24; where there is room, they are in full."""
    for width, outcome in ((77, 18), (180, 24)):
        fitted = {column.title: size for column, size in fit_columns(OPERATIONS, width)}
        assert fitted["OUTCOME"] == outcome
        assert fitted["TARGET"] >= FAIR


def test_titles_have_a_third_of_the_list_beside_states_owners_and_releases() -> None:
    """At 200x50 the list has 90 cells within its frame, 3 of them for cursor and mark."""
    state = SignatureState("9f31c2aaaaaa", "new", replace(UNTOUCHED, owner="team mail"), since="r124", died=1)
    fitted = fit_columns(signature_columns("15m", states={"9f31c2aaaaaa": state}, wide=True, whole=True), 87)
    assert [column.title for column, _ in fitted][:-1] == ["STATE", "COUNT", "15m", "LAST", "OWNER", "SINCE", "TYPE"]
    assert fitted[-1][1] >= 87 / 3


@pytest.mark.parametrize("name", TABLES)
def test_what_a_table_is_about_is_never_dropped(name: str) -> None:
    flexible = next(column.title for column in TABLES[name] if column.flex)
    assert flexible in [column.title for column, _ in fit_columns(TABLES[name], 30)]


def test_a_worker_with_stuck_handlers_says_so() -> None:
    """Unless it is lost or quiet, which matters more."""
    worker = WorkerInfo("a", "host", 1, "1", ("q",), None, 10, 3, False, NOW, NOW, 0.1, lost=False, stuck=2)
    moment = RenderContext(NOW, UNICODE)
    state = WORKERS[0]
    assert state.title == "STATE"

    def said(**given: bool) -> str:
        return "".join(text for text, _ in state.value(replace(worker, **given), moment))

    assert said() == "2 stuck"
    assert "lost" in said(lost=True)
    assert "quiet" in said(quiet=True)


@given(st.integers(0, 100), st.integers(1, 60), st.sampled_from([UNICODE, ASCII]))
def test_a_progress_bar_keeps_its_width(percent: int, width: int, glyphs: Glyphs) -> None:
    assert sum(len(text) for text, _ in bar(percent, width, glyphs)) == width


def test_full_and_empty_differ_without_colour() -> None:
    for glyphs in (UNICODE, ASCII):
        (full, _), (empty, _) = bar(50, 10, glyphs)
        assert set(full).isdisjoint(empty)


def test_a_terminal_without_unicode_gets_ascii() -> None:
    assert glyphs_for("ANSI_X3.4-1968") is ASCII
    assert glyphs_for("UTF-8") is UNICODE
    assert "".join(ASCII.states.values()).isascii()
    assert ASCII.levels.isascii()


def test_the_order_holds_and_new_rows_come_first() -> None:
    assert held_order(["c", "new", "a", "b"], ["a", "b", "c", "gone"], str) == ["new", "a", "b", "c"]
    assert held_order(["c", "a"], [], str) == ["c", "a"]


def test_release_and_host_of_dead_jobs_are_shown_where_there_is_room() -> None:
    assert "HOST" not in [column.title for column in dead_columns(120)]
    shown = [column.title for column, _ in fit_columns(dead_columns(200), 88)]
    assert shown == ["DIED", "TYPE", "TRY", "RELEASE", "HOST", "ERROR", "ID"]


@pytest.mark.parametrize(("width", "last"), [(83, "tenant"), (140, "ERROR"), (190, "ERROR")])
def test_what_fields_of_payloads_leave_goes_to_the_error_where_it_is_shown(width: int, last: str) -> None:
    fitted = fit_columns(dead_columns(300, ["region", "tenant"]), width)
    spare = width - sum(column.width + column.gap for column, _ in fitted) + fitted[0][0].gap
    assert {column.title: size - column.width for column, size in fitted if size != column.width} == {last: spare}
