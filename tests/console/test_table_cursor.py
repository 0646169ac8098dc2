"""The cursor and the marks hold on to ids, whatever happens to the list."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from jobconsole.tui.base.cursor import TableCursor

HEIGHT = 5


def selection(rows: str, place: int = 0) -> TableCursor[str]:
    """Return a selection over one-letter rows with its cursor on one of them."""
    made: TableCursor[str] = TableCursor(lambda row: row)
    made.show(list(rows))
    made.move_to(place)
    made.scroll(HEIGHT)
    return made


def test_the_cursor_starts_on_the_first_row() -> None:
    assert selection("abc").key == "a"


def test_rows_that_come_in_above_move_nothing_under_the_eye() -> None:
    chosen = selection("cdefgh", 1)
    chosen.show(list("abcdefgh"))
    assert (chosen.key, chosen.place - chosen.top, chosen.above) == ("d", 1, 2)
    chosen.move_to(1)
    chosen.scroll(HEIGHT)
    assert (chosen.top, chosen.above) == (1, 1), "rows that can be seen are not above"


def test_a_row_that_vanishes_leaves_the_cursor_on_nothing() -> None:
    chosen = selection("abc", 1)
    chosen.show(list("ac"))
    assert chosen.adrift
    assert chosen.row is None
    chosen.show(list("xac"))
    assert chosen.adrift, "another refresh does not choose a row either"
    chosen.move_to(chosen.place)
    assert chosen.row is not None


def test_the_first_row_of_a_list_that_is_filled_in_place_has_the_cursor() -> None:
    rows: list[str] = []
    chosen: TableCursor[str] = TableCursor(lambda row: row)
    chosen.show(rows)
    rows.append("a")
    chosen.show(rows)
    assert chosen.key == "a", "it was adrift: the row under it seemed to be gone"


def test_a_row_removed_on_purpose_hands_the_cursor_on() -> None:
    chosen = selection("abc", 1)
    chosen.expect_gone(["b"])
    chosen.show(list("ac"))
    assert chosen.key == "c"


def test_the_last_row_removed_on_purpose_hands_the_cursor_back() -> None:
    chosen = selection("abc", 2)
    chosen.expect_gone(["c"])
    chosen.show(list("ab"))
    assert chosen.key == "b"


def test_a_list_that_nobody_looks_at_follows_its_top() -> None:
    chosen = selection("bc")
    chosen.show(list("abc"), follow=True)
    assert (chosen.key, chosen.top) == ("a", 0)


def test_an_empty_list_has_nothing_under_the_cursor_and_is_not_adrift() -> None:
    chosen = selection("a")
    chosen.show([])
    assert not chosen.adrift
    chosen.show(list("xy"))
    assert chosen.key == "x"


def test_marks_stay_on_their_rows_and_outlive_them() -> None:
    chosen = selection("abc", 1)
    chosen.toggle_mark()
    chosen.show(list("zac"))
    assert list(chosen.marks) == ["b"]
    assert chosen.is_marked("b")


def test_marking_while_everything_is_marked_unmarks() -> None:
    chosen = selection("abc")
    chosen.everything = True
    chosen.toggle_mark()
    assert not chosen.is_marked("a")


@given(st.lists(st.text("abcdefghij", max_size=10), max_size=8), st.lists(st.integers(-20, 20), max_size=8))
def test_the_cursor_is_on_its_key_or_on_nothing(lists: list[str], moves: list[int]) -> None:
    chosen = selection("abcde", 2)
    for rows, move in zip(lists, moves, strict=False):
        before = chosen.key
        chosen.show(list(dict.fromkeys(rows)))
        assert chosen.key is None or chosen.rows[chosen.place] == chosen.key
        assert not (before is not None and before in rows) or chosen.key == before
        chosen.move_to(chosen.place + move)
        chosen.scroll(HEIGHT)
        assert 0 <= chosen.top <= max(0, len(chosen.rows) - HEIGHT)
        assert not chosen.rows or chosen.top <= chosen.place < chosen.top + HEIGHT
