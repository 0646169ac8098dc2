"""Tracebacks come apart into exceptions and frames, the application's told from those of libraries."""

from __future__ import annotations

import traceback

import pytest

from jobconsole.core.tracebacks import parse, top_frame
from jobconsole.format.glyphs import UNICODE
from jobconsole.present.history import peek_lines

SIMPLE = """Traceback (most recent call last):
  File "/srv/app/mail.py", line 88, in send_email
    client.send(message)
    ~~~~~~~~~~~^^^^^^^^^
  File "/usr/lib/python3.11/smtplib.py", line 398, in send
    raise TimeoutError(f"smtp {host} timed out")
TimeoutError: smtp mx-7:25 timed out
after 10 seconds
"""


def test_frames_with_their_source_and_marks() -> None:
    (section,) = parse(SIMPLE)
    first, second = section.frames
    assert (first.file, first.line, first.function) == ("/srv/app/mail.py", 88, "send_email")
    assert first.source == ("client.send(message)", "~~~~~~~~~~~^^^^^^^^^")
    assert (first.application, second.application) == (True, False)
    assert section.error == ("TimeoutError: smtp mx-7:25 timed out", "after 10 seconds")


def test_a_syntax_error_is_named_by_its_message_and_not_by_the_source_above_it() -> None:
    try:
        compile("07", "/srv/app/zeros.py", "exec")
    except SyntaxError as error:
        text, words = traceback.format_exc(), str(error)
    first = peek_lines(text, words, 120, 5, UNICODE)[0]
    assert "".join(part for part, _ in first).startswith("SyntaxError: leading zeros")


def test_a_long_message_that_is_cut_ends_in_an_ellipsis() -> None:
    text = f"TimeoutError: {'far ' * 40}\n"
    lines = ["".join(part for part, _ in line) for line in peek_lines("", text.strip(), 40, 2, UNICODE)]
    assert [len(line) for line in lines] == [37, 40]
    assert lines[1].endswith("…")
    assert peek_lines("", "TimeoutError: far", 40, 2, UNICODE) == [(("TimeoutError: far", "bad"),)]


def test_of_two_lines_one_is_the_place() -> None:
    lines = ["".join(part for part, _ in line).strip() for line in peek_lines(SIMPLE, "", 60, 2, UNICODE)]
    assert lines == ["TimeoutError: smtp mx-7:25 timed out", "srv/app/mail.py:88  send_email"]


def test_the_top_frame_is_the_innermost_of_the_application() -> None:
    frame = top_frame(parse(SIMPLE))
    assert frame is not None
    assert frame.place == "srv/app/mail.py:88"


def test_a_chain_ends_with_the_exception_that_counts() -> None:
    try:
        try:
            {}["missing"]
        except KeyError as error:
            raise ValueError("no such user") from error
    except ValueError:
        sections = parse(traceback.format_exc())
    assert [section.error[0] for section in sections] == ["KeyError: 'missing'", "ValueError: no such user"]
    assert "direct cause" in sections[1].link


def test_a_text_that_is_no_traceback_is_an_error_without_frames() -> None:
    (section,) = parse("the worker died")
    assert (section.frames, section.error) == ((), ("the worker died",))


@pytest.mark.parametrize(
    "file",
    ["/x/site-packages/redis/client.py", "uvloop/loop.pyx", "<frozen runpy>", "/usr/lib/python3.13/json/decoder.py"],
)
def test_frames_of_libraries(file: str) -> None:
    (section,) = parse(
        f'Traceback (most recent call last):\n  File "{file}", line 1, in f\n  File "/srv/app.py", line 2, in g\nE: x\n'
    )
    assert [frame.application for frame in section.frames] == [False, True]


def test_an_installed_application_is_the_application() -> None:
    text = (
        "Traceback (most recent call last):\n"
        '  File "/v/site-packages/shop/orders.py", line 1, in place\n'
        '  File "/v/site-packages/requests/api.py", line 2, in get\n'
        "E: x\n"
    )
    (section,) = parse(text)
    assert [frame.application for frame in section.frames] == [True, False]


def test_hostile_text_comes_out_harmless() -> None:
    (section,) = parse(SIMPLE.replace("mx-7", "\x1b]0;owned\x07\u202e"))
    assert "\x1b" not in section.error[0]
    assert "\u202e" not in section.error[0]


def test_repeated_frames_do_not_end_the_traceback() -> None:
    text = SIMPLE.replace("TimeoutError: smtp", "  [Previous line repeated 995 more times]\nTimeoutError: smtp", 1)
    (section,) = parse(text)
    assert len(section.frames) == 2
    assert section.error[0].startswith("TimeoutError")
