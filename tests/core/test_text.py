"""Text from jobs: shown without teeth, stored by every store, bounded."""

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queue_core.model.text import MARK, cut, safe, storable

ANY = st.text(st.characters(codec=None), max_size=300)


def harmless(text: str) -> bool:
    """Say whether a terminal shows exactly these characters and nothing else happens."""
    return text.isprintable() and not any(unicodedata.category(char) in {"Cc", "Cf", "Cs", "Zl", "Zp"} for char in text)


@given(ANY, st.integers(0, 400))
def test_whatever_comes_in_one_harmless_line_of_bounded_length_comes_out(text: str, limit: int) -> None:
    shown = safe(text, limit)
    assert harmless(shown)
    assert len(shown) <= limit


@given(ANY)
def test_with_newlines_every_line_is_harmless(text: str) -> None:
    assert all(map(harmless, safe(text, 10_000, newlines=True).split("\n")))


@given(ANY)
def test_what_was_made_safe_stays_as_it_is(text: str) -> None:
    once = safe(text, 10_000)
    assert safe(once, 10_000) == once


@given(st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=100))
def test_plain_text_is_returned_itself(text: str) -> None:
    assert safe(text) is text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2J", "␛[2J"),
        ("\x1b]0;title\x07", "␛]0;title␇"),
        ("a\x00b\x7f", "a␀b␡"),
        ("\x9b31m", "\\u009b31m"),
        ("invoice\u202egpj.exe", "invoice\\u202egpj.exe"),
        ("\u2066x\u2069", "\\u2066x\\u2069"),
        ("pay\u200bpal", "pay\\u200bpal"),
        ("\ufeffx", "\\ufeffx"),
        ("\ud800", "\\ud800"),
        ("tag\U000e0041", "tag\\U000e0041"),
        ("line\u2028line", "line\\u2028line"),
        ("a\u00a0b", "a b"),
        ("one\ntwo\tthree\r", "one␊two␉three␍"),
        ("Grüße 日本語 🎉", "Grüße 日本語 🎉"),
        ("\U0001f44d\U0001f3fd ok", "\U0001f44d\\U0001f3fd ok"),
        ("\U0001f1e9\U0001f1ea", "\\U0001f1e9\\U0001f1ea"),
        ("boom [/foo]", "boom [/foo]"),
        ("e\u0301", "e\u0301"),
    ],
)
def test_examples(text: str, shown: str) -> None:
    assert safe(text) == shown


def test_lines_stay_and_tabs_become_spaces_where_newlines_are_wanted() -> None:
    assert safe("a\r\n\tb\rc\x1b", newlines=True) == "a\n    b␍c␛"


def test_marks_piled_on_one_letter_do_not_climb() -> None:
    shown = safe("a" + "\u0301" * 50)
    assert shown.count("\u0301") <= 4


def test_a_capped_text_says_so() -> None:
    assert safe("x" * 50, 10) == "x" * 9 + MARK
    assert safe("x" * 10, 10) == "x" * 10
    assert safe("\x1b" * 20, 10, newlines=True) == "␛" * 9 + MARK


@given(ANY)
def test_storable_text_goes_through_utf8_and_has_no_nul(text: str) -> None:
    stored = storable(text)
    assert stored.encode().decode() == stored
    assert "\0" not in stored
    if "\0" not in text and not re.search("[\ud800-\udfff]", text):
        assert stored == text


@given(ANY, st.integers(0, 200))
def test_cut_keeps_the_bytes_within_the_limit(text: str, limit: int) -> None:
    short = cut(text, limit)
    assert len(short.encode()) <= limit
    if len(storable(text).encode()) <= limit:
        assert short == storable(text)


def test_cut_keeps_both_ends_and_says_what_it_did() -> None:
    short = cut("first\n" + "x" * 100_000 + "\nlast", 1_000)
    assert short.startswith("first\n")
    assert short.endswith("\nlast")
    assert "… cut to 1,000 bytes …" in short
    assert 950 < len(short.encode()) <= 1_000


def test_cut_splits_no_character() -> None:
    assert "\ufffd" not in cut("é" * 1_000, 501)
