"""Titles that are cut still look different."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from jobconsole.format.cuts import cut_apart, dominant, shared, title_parts
from jobconsole.format.spans import fit, width_of, wrap


def drawn(text: str, width: int, *others: str) -> str:
    """Return a text as it is cut beside others."""
    spans = cut_apart(((text[:3], "strong"), (text[3:], "text")), width, shared((text, *others))[text])
    assert width_of(spans) == width
    return "".join(part for part, _ in spans).rstrip()


def test_a_text_is_cut_at_its_end_where_no_other_one_looks_like_it() -> None:
    assert drawn("JSONDecodeError: Unterminated string", 20, "KeyError: <str>") == "JSONDecodeError: Un…"


def test_texts_that_differ_only_at_their_ends_are_cut_in_the_middle() -> None:
    first = "SyntaxError: invalid character (U+<n>) in <path>"
    second = "SyntaxError: invalid character (U+<n>) at line <n>"
    assert drawn(first, 24, second) == "SyntaxError:…) in <path>"
    assert drawn(second, 23, first) == "SyntaxErr…) at line <n>"
    assert drawn(first, 60, second) == first, "what fits is not cut"


def test_a_difference_far_before_the_end_is_shown_with_what_follows_it() -> None:
    first, second = ("Error: " + "x" * 40 + word + "y" * 40 for word in ("red", "blue"))
    assert "red" in drawn(first, 30, second)
    assert "blue" in drawn(second, 30, first)


@given(st.text("abc漢", max_size=60), st.text("abc漢", max_size=60), st.text("abc", max_size=60), st.integers(16, 50))
def test_two_texts_never_look_alike(head: str, one: str, other: str, width: int) -> None:
    first, second = f"Exception: {head}x{one}", f"Exception: {head}y{other}"
    assert drawn(first, width, second) != drawn(second, width, first)


@pytest.mark.parametrize(
    ("names", "found"), [({}, ""), ({"a": 8, "b": 2}, "a"), ({"a": 7, "b": 3}, ""), ({"a": 1}, "a")]
)
def test_a_name_dominates_from_four_fifths_on(names: dict[str, int], found: str) -> None:
    assert dominant(names, 0.8) == found


TITLE = (("Dead letters  ", "title"), ("3 signatures", "muted"), (" · 18 jobs", "muted"))
NOTE = (("↑ 2 new above  ", "warn"), ("by growth", "muted"))


@pytest.mark.parametrize(
    ("room", "title", "note"),
    [
        (90, "Dead letters  3 signatures · 18 jobs", "/type:send_email  ↑ 2 new above  by growth"),
        (80, "Dead letters  3 signatures · 18 jobs", "/type:send_email  ↑ 2 new above"),
        (70, "Dead letters  3 signatures · 18 jobs", "/type:send_ema…  ↑ 2 new above"),
        (60, "Dead letters  3 signatures", "/type:send_ema…  ↑ 2 new above"),
        (40, "Dead letters", "/type:send_email"),
        (26, "Dead letters …", "filtered"),
        (20, "Dead le…", "filtered"),
    ],
)
def test_a_filter_is_always_seen(room: int, title: str, note: str) -> None:
    shown = title_parts(TITLE, NOTE, "type:send_email", room)
    assert tuple("".join(text for text, _ in spans) for spans in shown) == (title, note)


def test_no_control_character_of_a_filter_reaches_the_terminal() -> None:
    _, right = title_parts(TITLE, (), "\x1b]0;owned\x07", 80)
    assert right == (("/␛]0;owned␇", "accent"),)


@example("\x1f", 9, [])
@given(st.text(min_size=1), st.integers(8, 120), st.lists(st.tuples(st.text(), st.sampled_from(["warn", "muted"]))))
def test_a_filter_or_that_there_is_one_is_seen_in_any_room(text: str, room: int, note: list[tuple[str, str]]) -> None:
    title, right = title_parts(TITLE, tuple(note), text, room + 8)
    assert width_of(title) + width_of(right) + 4 <= room + 8
    assert right[0][0].startswith(("/", "filtered"))


@pytest.mark.parametrize(
    ("text", "most", "lines"),
    [
        ("on a-very-long-name of all", 1, ["on a-very-l…"]),
        ("one two three four five six", 2, ["one two", "three four…"]),
        ("one two three four five six", 3, ["one two", "three four", "five six"]),
        ("a-very-long-name-of-all of them", 2, ["a-very-long-", "name-of-all…"]),
        ("  one two  three four", 2, ["one two ", "three four"]),
        ("界界界 界界界 界界", 1, ["界界界 界界…"]),
        ("one two three", 0, ["one two", "three"]),
    ],
)
def test_the_last_line_of_a_longer_text_is_full(text: str, most: int, lines: list[str]) -> None:
    assert wrap(text, 12, most) == lines


def test_a_blank_for_half_of_a_wide_character_is_behind_the_ellipsis() -> None:
    assert "".join(text for text, _ in fit((("日本語", "text"),), 4)) == "日… "
    assert "".join(text for text, _ in fit((("a日本語", "text"),), 4)) == "a日…"
    assert "".join(text for text, _ in fit((("日 本語", "text"),), 4)) == "日 …"
