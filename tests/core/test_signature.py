"""Signatures: the same cause gives the same digits, another cause others, and nothing hostile gets in the way."""

import json
import re
import sys
import time
import traceback
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queue_core.model.retry import Retry
from queue_core.model.settings import Defaults
from queue_core.model.signature import FrameName, application_frame, failure_of, normalise, sign
from tests.hostile import Nameless


def caught(work: Callable[[], object]) -> BaseException:
    try:
        work()
    except BaseException as error:
        return error
    raise AssertionError("it did not raise")


def load_profile(text: str) -> object:
    return json.loads(text)


def send(host: str) -> None:
    raise TimeoutError(f"smtp {host}:25 timed out after 10s")


def send_again(host: str) -> None:
    raise TimeoutError(f"smtp {host}:25 timed out after 10s")


@pytest.mark.parametrize(
    ("message", "masked"),
    [
        ("smtp mx-7:25 timed out after 10s", "smtp <host>:<n> timed out after <n>s"),
        ("[Errno 28] No space left on device: '/tmp/x y.png'", "[Errno <n>] No space left on device: <path>"),
        ("No space left on /var/lib/data", "No space left on <path>"),
        ("'user_7'", "<str>"),
        ("[Errno 111] Connect call failed ('127.0.0.1', 45321)", "[Errno <n>] Connect call failed (<host>, <n>)"),
        ("Connection to 10.0.0.1:5432 refused", "Connection to <host>:<n> refused"),
        ("connection to ::1 failed", "connection to <host> failed"),
        ("HTTP 502 from https://api.example.com/v1/u/7?q=1", "HTTP <n> from <url>"),
        ("user a.b+c@example.com not found", "user <email> not found"),
        ("job 0197f3c2-1111-7abc-8def-0123456789ab is dead", "job <id> is dead"),
        ("commit deadbeef12 and 01H8XGJWBWBAQ4Z5N7M3K9P2RT", "commit <id> and <id>"),
        ("<Foo object at 0x7f3a2b>", "<Foo object at <n>>"),
        ("at 2024-01-02T03:04:05.123Z and 12:30:45", "at <time> and <time>"),
        ("sizes [1, 2, 3, 4]", "sizes [<n> …]"),
        ("cache-1.prod.internal is down", "<host> is down"),
        ("db.prod.example is down", "<host> is down"),
        ("src/app/mail.py:88 broke", "<path>:<n> broke"),
        (r"C:\Users\x\y.txt gone", "<path> gone"),
        ("don't read and/or write the users' text/html", "don't read and/or write the users' text/html"),
        ("attribute json.decoder.JSONDecodeError", "attribute json.decoder.JSONDecodeError"),
        ("not utf-8 but base64", "not utf-8 but base64"),
        ("two\n  lines\tof  text", "two lines of text"),
        ("", ""),
    ],
)
def test_masks(message: str, masked: str) -> None:
    assert normalise(message) == masked


@given(st.text(max_size=3_000))
def test_masking_is_bounded_and_one_line(message: str) -> None:
    masked = normalise(message)
    assert len(masked) <= 240
    assert masked == " ".join(masked.split())


@given(st.integers(), st.uuids(), st.ip_addresses(v=4), st.integers(1, 65_535))
def test_variable_parts_do_not_split_a_group(number: int, job: object, host: object, port: int) -> None:
    text = "job {} of shard {} could not reach {}:{} in time"
    assert normalise(text.format(job, number, host, port)) == "job <id> of shard <n> could not reach <host>:<n> in time"


@pytest.mark.parametrize(
    "hostile",
    ["'" * 5_000, "a." * 2_500, "1:" * 2_500, "/a" * 2_500, "\\" * 5_000, '"\\' * 2_500, "::" * 2_500, "a@" * 2_500,
     "ab:cd:" * 900, "a/" * 2_500, "1," * 2_500, "-" * 5_000, "x" * 4_999 + ":", "e.e" * 1_700, "<n> " * 1_200],
)  # fmt: skip
def test_a_hostile_message_costs_little(hostile: str) -> None:
    began = time.process_time()
    normalise(hostile)
    # Some 20 ms at worst where it was written; a pattern that backtracks takes minutes.
    assert time.process_time() - began < 2


def test_a_long_quoted_text_that_is_cut_is_masked_all_the_same() -> None:
    messages = [f"invalid payload: '{char * size}' in field x" for char, size in (("a ", 5_000), ("b7 ", 3_000))]
    assert {normalise(message) for message in messages} == {"invalid payload: <str>"}


def test_one_cause_has_one_signature_and_a_readable_title() -> None:
    first, second = sign(caught(lambda: send("mx-7"))), sign(caught(lambda: send("mail-12.example.com")))
    assert first == second
    assert re.fullmatch(r"[0-9a-f]{12}", first.signature)
    assert first.title == "TimeoutError: smtp <host>:<n> timed out after <n>s"


def test_the_function_counts_and_the_class_counts() -> None:
    signature = sign(caught(lambda: send("mx-7"))).signature
    assert sign(caught(lambda: send_again("mx-7"))).signature != signature
    assert sign(ValueError("x")).signature != sign(KeyError("x")).signature


def test_an_edit_elsewhere_in_the_file_does_not_split_a_group() -> None:
    def at_line(line: int) -> BaseException:
        scope: dict[str, Callable[[], object]] = {}
        code = "\n" * line + "def work():\n    raise ValueError('broken')\n"
        exec(compile(code, "/srv/app/mail.py", "exec"), scope)
        return caught(scope["work"])

    assert sign(at_line(1)) == sign(at_line(500))


def test_the_frame_of_the_application_counts_not_the_librarys() -> None:
    error = caught(lambda: load_profile("{"))
    frames = [FrameName(frame.filename, frame.name) for frame in traceback.extract_tb(error.__traceback__)]
    assert frames[-1].function == "raw_decode"
    assert application_frame(frames) == FrameName(__file__, "load_profile")


def test_an_installed_application_is_found_by_the_package_that_was_called() -> None:
    site = "/usr/lib/python3/dist-packages"
    frames = [
        FrameName(f"{site}/queue_core/worker/executor.py", "run"),
        FrameName(f"{site}/shop/tasks.py", "charge"),
        FrameName(f"{site}/shop/money.py", "amount"),
        FrameName(f"{site}/requests/api.py", "get"),
        FrameName("/usr/lib/python3.11/socket.py", "connect"),
    ]
    assert application_frame(frames) == FrameName(f"{site}/shop/money.py", "amount")


def test_a_compiled_package_is_no_application() -> None:
    """Its frames name the source from the package's folder on: those of the event loop stand below the handler's."""
    frames = [FrameName("/srv/shop/tasks.py", "charge"), FrameName("uvloop/loop.pyx", "create_connection")]
    assert application_frame(frames) == frames[0]
    site = "/usr/lib/python3/dist-packages"
    installed = [FrameName(f"{site}/shop/tasks.py", "charge"), FrameName("uvloop/loop.pyx", "create_connection")]
    assert application_frame(installed) == installed[0]
    assert application_frame([FrameName("shop/rates.pyx", "convert")]) == FrameName("shop/rates.pyx", "convert")


def test_frames_that_nobody_wrote_are_no_place() -> None:
    assert (
        application_frame([FrameName("<frozen importlib._bootstrap>", "_find"), FrameName("<string>", "<module>")])
        is None
    )
    assert application_frame([]) is None


def test_texts_give_the_signature_that_the_exception_gave() -> None:
    error = caught(lambda: load_profile("{"))
    failure = failure_of(error)
    assert sign(failure.exception, failure.message, failure.traceback) == (failure.signature, failure.title)


def test_chained_exceptions_are_signed_by_the_last_one_and_shown_whole() -> None:
    def work() -> None:
        try:
            send("mx-7")
        except TimeoutError as error:
            raise RuntimeError("mail 12 not sent") from error

    failure = failure_of(caught(work))
    assert failure.title == "RuntimeError: mail <n> not sent"
    assert "smtp mx-7:25 timed out" in failure.traceback
    assert "direct cause" in failure.traceback
    assert sign(failure.exception, failure.message, failure.traceback).signature == failure.signature


def test_groups_are_signed_by_the_kinds_in_them() -> None:
    def group(*errors: Exception) -> tuple[str, str]:
        return sign(ExceptionGroup("unhandled errors", errors))

    signature, title = group(ValueError("x 1"), TimeoutError("y"))
    assert title == "ExceptionGroup: unhandled errors [TimeoutError: y, ValueError: x <n>]"
    assert group(TimeoutError("y"), ValueError("x 2"), ExceptionGroup("in", [ValueError("x 3")]))[0] == signature
    assert group(ValueError("x 1"))[0] != signature
    assert "ValueError: x 1" in failure_of(ExceptionGroup("unhandled errors", [ValueError("x 1")])).traceback


def test_huge_groups_and_chains_are_bounded() -> None:
    wide = ExceptionGroup("wide", [ValueError(f"{chr(97 + n % 26)} {n}") for n in range(5_000)])
    assert len(sign(wide).title) < 2_000
    assert len(failure_of(wide, limit=10_000).traceback.encode()) <= 10_000
    error: Exception = ValueError("first")
    for n in range(2_000):
        following = RuntimeError(f"then {n}")
        following.__cause__ = error
        error = following
    failure = failure_of(error, limit=10_000)
    assert len(failure.traceback.encode()) <= 10_000
    assert failure.title == "RuntimeError: then <n>"


def raising(error: BaseException) -> Callable[[object], str]:
    def method(_: object) -> str:
        raise error

    return method


@pytest.mark.parametrize("error", [ValueError("no"), RecursionError(), SystemExit(3), KeyboardInterrupt(), None])
def test_an_exception_that_cannot_say_what_it_is(error: BaseException | None) -> None:
    said: Callable[[object], object] = raising(error) if error else lambda _: 7
    hostile = type("Hostile", (Exception,), {"__str__": said, "__module__": "shop"})
    failure = failure_of(hostile())
    assert failure.exception == "shop.Hostile"
    assert failure.message == f"<no message: __str__ raised {type(error or TypeError()).__name__}>"
    assert failure.traceback


def test_an_exception_with_hostile_notes_is_still_a_failure() -> None:
    error = ValueError("x")
    error.__notes__ = [type("Note", (), {"__str__": raising(ValueError("no"))})(), 7]  # type: ignore[list-item]
    assert failure_of(error).signature == sign(ValueError("x")).signature


class Shouted(str):
    """A text with code of its own."""

    def __getitem__(self, key: object) -> str:
        raise RuntimeError("no parts")

    __len__ = __add__ = __format__ = __hash__ = __getitem__  # type: ignore[assignment]


def test_an_exception_whose_class_does_not_answer_has_its_name_and_place_all_the_same() -> None:
    def fail() -> None:
        raise Nameless("no picture 7")

    failure = failure_of(caught(fail))
    assert failure.exception == "tests.hostile.Nameless"
    assert (failure.title, failure.message) == ("Nameless: no picture <n>", "no picture 7")
    assert "in fail" in failure.traceback
    assert failure.traceback.count("Traceback") == 1
    assert "tests.hostile.Nameless: no picture 7" in failure.traceback
    assert Retry(on={Exception: Retry(max_retries=9)}).resolved(Defaults()).of(Nameless()).max_retries == 9


def test_names_and_messages_of_other_classes_than_str_are_texts() -> None:
    odd = type("Odd", (Exception,), {"__module__": 7, "__str__": lambda _: Shouted("a message")})
    odd.__qualname__ = Shouted("Odd")
    failure = failure_of(odd())
    assert (failure.exception, failure.title) == ("Odd", "Odd: a message")


def test_recursion_is_a_failure_like_any_other() -> None:
    def deeper() -> None:
        deeper()

    failure = failure_of(caught(deeper))
    assert failure.exception == "RecursionError"
    assert len(failure.traceback.encode()) < 64 << 10


def test_texts_are_cut_to_their_limits_and_storable() -> None:
    failure = failure_of(ValueError("\0\udc80" + "x" * 10_000_000), limit=20_000)
    assert failure.message.startswith("␀\\udc80xxx")
    assert len(failure.message.encode()) <= 4_096
    assert len(failure.traceback.encode()) <= 20_000
    assert len(failure.title) <= 300


def test_a_huge_message_does_not_push_out_the_frames() -> None:
    def bury() -> None:
        raise ValueError("x" * 1_000_000)

    shown = failure_of(caught(bury), limit=20_000).traceback
    assert "in bury" in shown
    assert shown.startswith("Traceback")


def test_the_traceback_begins_at_the_application() -> None:
    from queue_core.model.validation import parse_duration

    failure = failure_of(caught(lambda: parse_duration("soon")))
    assert "in caught" in failure.traceback
    assert "parse_duration" in failure.traceback
    own = caught(lambda: parse_duration("soon"))
    assert own.__traceback__ is not None
    while own.__traceback__.tb_next:
        own.__traceback__ = own.__traceback__.tb_next
    assert "parse_duration" in failure_of(own).traceback


def test_signing_is_quick_enough_for_a_storm() -> None:
    error = caught(lambda: load_profile("{"))
    began = time.process_time()
    for _ in range(200):
        failure_of(error)
    # 0.25 ms each where it was written.
    assert (time.process_time() - began) / 200 < 0.02, sys.version
