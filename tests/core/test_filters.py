"""The filter language: what it reads, and that it says what is wrong."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queue_core.errors import FilterError
from queue_core.model.filters import Filter, Operator, Term, filter_of, parse, render, with_saved
from queue_core.model.filters.terms import read_span, span_of
from queue_core.model.states import Status

VALUES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=30)
WORDS = st.sampled_from(["type", "queue", "tag", "worker", "error", "payload.user.id", "payload.a.0.b"])


@st.composite
def terms(draw: st.DrawFn) -> Term:
    """Terms as `parse` leaves them."""
    negated = draw(st.booleans())
    kind = draw(st.sampled_from(["word", "text", "status", "number", "age", "hex"]))
    if kind == "word":
        return Term(draw(WORDS), draw(st.sampled_from(["=", "~"])), draw(VALUES), negated)
    if kind == "text":
        return Term("word", "~", draw(VALUES), negated)
    if kind == "status":
        return Term("status", "=", draw(st.sampled_from(Status)).value, negated)
    if kind == "number":
        operators: list[Operator] = ["=", "<", ">"]
        return Term("priority", draw(st.sampled_from(operators)), str(draw(st.integers(-128, 127))), negated)
    if kind == "age":
        return Term("age", draw(st.sampled_from(["<", ">"])), repr(float(draw(st.integers(0, 10**9)))), negated)
    digits = st.text("0123456789abcdef", min_size=1, max_size=12)
    return Term(draw(st.sampled_from(["id", "signature"])), "=", draw(digits), negated)


@given(st.lists(terms(), max_size=10), st.booleans())
def test_a_rendered_filter_reads_back_as_itself(some: list[Term], trash: bool) -> None:
    where = Filter(tuple(some), trash)
    assert parse(render(where)) == where


@given(st.text(max_size=200))
def test_any_text_is_a_filter_or_a_filter_error_at_a_place_in_it(text: str) -> None:
    try:
        where = parse(text)
    except FilterError as error:
        mistake = error
    else:
        assert parse(render(where)) == where
        return
    assert 0 <= mistake.position <= len(text)
    assert str(mistake).startswith(f"filter, character {mistake.position + 1}: ")


@pytest.mark.parametrize(
    ("text", "term"),
    [
        ("type:send_email", Term("type", "=", "send_email")),
        ("TYPE:x", Term("type", "=", "x")),
        ("type=x", Term("type", "=", "x")),
        ("type:~mail", Term("type", "~", "mail")),
        ("type:a:b", Term("type", "=", "a:b")),
        ("err:~smtp", Term("error", "~", "smtp")),
        ("err:smtp", Term("error", "~", "smtp")),
        ("err=smtp", Term("error", "=", "smtp")),
        ('err:"mx 7 \\"x\\""', Term("error", "~", 'mx 7 "x"')),
        ("age:<1h", Term("age", "<", "3600.0")),
        ("age>2d", Term("age", ">", "172800.0")),
        ("sig:9F31", Term("signature", "=", "9f31")),
        ("id:0197F3C2-11", Term("id", "=", "0197f3c211")),
        ("payload.user.id=7", Term("payload.user.id", "=", "7")),
        ("payload.items.0.name:~pen", Term("payload.items.0.name", "~", "pen")),
        ("payload.size:>10", Term("payload.size", ">", "10")),
        ("!tag:y", Term("tag", "=", "y", True)),
        ("-tag:y", Term("tag", "=", "y", True)),
        ("status:failed", Term("status", "=", "dead")),
        ("status:dlq", Term("status", "=", "dead")),
        ("status:pending", Term("status", "=", "queued")),
        ("status:processing", Term("status", "=", "running")),
        ("priority:>high", Term("priority", ">", "10")),
        ("priority:-5", Term("priority", "=", "-5")),
        ("retries:>2", Term("retries", ">", "2")),
        ("worker:web-1", Term("worker", "=", "web-1")),
        ("reset", Term("word", "~", "reset")),
        ('"type:x y"', Term("word", "~", "type:x y")),
        ('!"free text"', Term("word", "~", "free text", True)),
        ("mx-7:25", Term("word", "~", "mx-7:25")),
        ("12:30", Term("word", "~", "12:30")),
        ('":"', Term("word", "~", ":")),
        ('"payload.=1"', Term("word", "~", "payload.=1")),
        ("payload.", Term("word", "~", "payload.")),
    ],
)
def test_one_term(text: str, term: Term) -> None:
    assert parse(text) == Filter((term,))
    assert parse(f"  {text}\t") == Filter((term,))


def test_terms_stand_together_and_the_trash_is_no_term() -> None:
    where = parse('type:x  err:~"a b" trash:yes !tag:y')
    assert where.trash
    assert [term.field for term in where.terms] == ["type", "error", "tag"]
    assert not parse("trash:no").trash
    assert not parse("!trash:yes").trash
    assert parse("") == Filter()


def test_states_that_can_match() -> None:
    assert parse("status:failed").statuses() == {Status.DEAD}
    assert parse("!status:dead").statuses() == frozenset(Status) - {Status.DEAD}
    assert parse("status:dead status:queued").statuses() == frozenset()


@pytest.mark.parametrize(
    ("text", "position", "reason", "nearest"),
    [
        ("typ:x", 0, "no field 'typ'; did you mean 'type'?", "type"),
        ("type:x  quue:y", 8, "no field 'quue'; did you mean 'queue'?", "queue"),
        ("signatur:9f", 0, "no field 'signatur'; did you mean 'signature'?", "signature"),
        ("payload:7", 0, "no field 'payload'; did you mean 'payload.<path>'?", "payload.<path>"),
        ("payload..x=7", 0, "no field 'payload..x'; did you mean 'payload.<path>'?", "payload.<path>"),
        ("payload.=1", 0, "no field 'payload.'; did you mean 'payload.<path>'?", "payload.<path>"),
        ("payload.a.:1", 0, "no field 'payload.a.'; did you mean 'payload.<path>'?", "payload.<path>"),
        ("status.:dead", 0, "no field 'status.'; did you mean 'status'?", "status"),
        ("trash.:yes", 0, "no field 'trash.'; did you mean 'trash'?", "trash"),
        (":", 0, "no field before ':'; put quotes around words to search for them", None),
        ("type:x  !=1", 9, "no field before '='; put quotes around words to search for them", None),
        ("type:x !!queue:mail", 8, "'!' behind '!'; put quotes around words to search for them", None),
        ("--force", 1, "'-' behind '-'; put quotes around words to search for them", None),
        ("<1h", 0, "no field before '<'; put quotes around words to search for them", None),
        ("https://x", 0, "no field 'https'; put quotes around words to search for them", None),
        ("type:", 5, "'type' has no value", None),
        ('a "b', 2, "a quote is not closed, or something stands right behind it", None),
        ('"a"b', 0, "a quote is not closed, or something stands right behind it", None),
        ("!", 0, "a word is missing", None),
        ("age:1h", 3, "'age' does not take ':'; write age:<… age:>…", None),
        ("age=1h", 3, "'age' does not take '='; write age:<… age:>…", None),
        ("status:~dead", 6, "'status' does not take '~'; write status:…", None),
        ("priority:>=5", 8, "'priority' does not take '>='; write priority:… priority:<… priority:>…", None),
        ("status:deed", 7, "no status 'deed'; one of: scheduled, queued, running, retrying, completed, cancelled, dead,"
         " pending, processing, failed, dlq", None),
        ("priority:200", 9, "priority must be a whole number from -128 to 127, or low, normal, high or urgent", None),
        ("retries:>two", 9, "'two' is no whole number", None),
        ("age:<soon", 5, "'soon' is no duration; write seconds, or for example 500ms, 5s, 5m, 1h, 7d", None),
        ("sig:xyz", 4, "'xyz' is no beginning of a signature: up to 12 hexadecimal digits", None),
        ("id:xyz", 3, "'xyz' is no beginning of an id: up to 32 hexadecimal digits", None),
        ("trash:maybe", 6, "'maybe' is neither yes nor no", None),
    ],
)  # fmt: skip
def test_mistakes_are_named_where_they_are(text: str, position: int, reason: str, nearest: str | None) -> None:
    with pytest.raises(FilterError) as caught:
        parse(text)
    assert (caught.value.position, caught.value.reason, caught.value.nearest) == (position, reason, nearest)


def test_filters_are_bounded() -> None:
    with pytest.raises(FilterError, match="at most 4,000 characters"):
        parse("x" * 4_001)
    with pytest.raises(FilterError, match="at most 50 terms"):
        parse("x " * 51)


NOW = datetime(2026, 1, 30, 3, 7, 41, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("02:00..02:30", "2026-01-30T02:00:00Z..2026-01-30T02:30:00Z"),
        ("2:00..", "2026-01-30T02:00:00Z.."),
        ("..02:30:05", "..2026-01-30T02:30:05Z"),
        ("23:50..00:10", "2026-01-29T23:50:00Z..2026-01-30T00:10:00Z"),
        ("..23:50", "..2026-01-29T23:50:00Z"),
        ("02:00", "2026-01-30T02:00:00Z..2026-01-30T02:01:00Z"),
        ("02:00:07", "2026-01-30T02:00:07Z..2026-01-30T02:00:08Z"),
        ("2026-01-29", "2026-01-29T00:00:00Z..2026-01-30T00:00:00Z"),
        ("2026-01-28..2026-01-29", "2026-01-28T00:00:00Z..2026-01-30T00:00:00Z"),
        ("2026-01-29T22:00..23:00", "2026-01-29T22:00:00Z..2026-01-29T23:00:00Z"),
        ("2026-01-29 22:00..1h", "2026-01-29T22:00:00Z..2026-01-30T02:07:41Z"),
        ("2026-01-29T22:00+02:00..", "2026-01-29T20:00:00Z.."),
        ("15m", "2026-01-30T02:52:41Z.."),
        ("2h..1h", "2026-01-30T01:07:41Z..2026-01-30T02:07:41Z"),
    ],
)
def test_ranges_of_time(text: str, span: str) -> None:
    assert read_span(text, NOW) == span
    assert read_span(span, NOW) == span
    where = Filter((Term("died", "=", span),))
    assert parse(render(where)) == where


def test_a_range_has_its_beginning_and_not_its_end() -> None:
    span = span_of("2026-01-30T02:00:00Z..2026-01-30T02:30:00Z")
    moments = [NOW.replace(hour=2, minute=minute, second=0) for minute in (0, 29, 30)]
    assert [span.has(moment) for moment in moments] == [True, True, False]
    assert not span.has(moments[0] - timedelta(microseconds=1))
    assert not span.has(None)


def test_of_several_ranges_the_time_in_all_of_them_counts() -> None:
    one, other = (Term("died", "=", read_span(text, NOW)) for text in ("00:30..02:30", "01:30..03:00"))
    both = span_of(read_span("01:30..02:30", NOW))
    assert Filter((one, other)).died == Filter((other, one)).died == both


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("..", "'..' is no time; write 02:00..02:30 (UTC), 2026-01-30, 2026-01-30T02:00..2h or 15m"),
        ("25:00..26:00", "'25:00' is no time; write"),
        ("2026-02-30", "'2026-02-30' is no time; write"),
        ("1h..2h", "'1h..2h' ends before it begins"),
        ("99999999d", "'99999999d' is longer ago than any job"),
        ("yesterday", "'yesterday' is no time; write"),
    ],
)
def test_what_is_no_range_of_time(text: str, reason: str) -> None:
    with pytest.raises(FilterError, match=re.escape(reason)):
        parse(f'died:"{text}"')


@pytest.mark.parametrize(
    ("text", "term"),
    [
        ("owner:me", Term("owner", "=", "me")),
        ('!owner:~"team c"', Term("owner", "~", "team c", True)),
        ("state:NEW", Term("state", "=", "new")),
        ("state:dead", Term("status", "=", "dead")),
        ("state:failed", Term("status", "=", "dead")),
        ("text:abc", Term("text", "~", "abc")),
        ('text="100% a"', Term("text", "~", "100% a")),
        ("text:~x", Term("text", "~", "x")),
    ],
)
def test_terms_about_signatures_and_texts(text: str, term: Term) -> None:
    assert parse(text) == Filter((term,))
    assert parse(render(parse(text))) == parse(text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("state:nothing", "'nothing' is neither a state of a job nor of an error signature"),
        ("!text:x", "cannot be searched for"),
        ("text:" + "x" * 201, "at most 200 characters"),
        ("text:", "has no value"),
        ("text:<x", "does not take '<'"),
        ('text:"a\0b"', "NUL"),
        ("state:~ne", "does not take '~'"),
    ],
)
def test_what_cannot_be_looked_for(text: str, reason: str) -> None:
    with pytest.raises(FilterError, match=reason):
        parse(text)


@pytest.mark.parametrize("text", ["@keep", "!@keep", "-@keep", "!!@keep", "queue:mail @keep", "@", '@a"b', "@keep:x"])
def test_the_name_of_a_saved_filter_is_no_word_to_search_for(text: str) -> None:
    with pytest.raises(FilterError, match="saved"):
        filter_of(text)


def test_in_quotes_or_within_a_word_or_a_value_an_at_sign_is_text() -> None:
    for text, term in (
        ('"@keep"', Term("word", "~", "@keep")),
        ('!"@keep"', Term("word", "~", "@keep", True)),
        ("ana@example.org", Term("word", "~", "ana@example.org")),
        ("queue:@keep", Term("queue", "=", "@keep")),
        ("text:@keep", Term("text", "~", "@keep")),
    ):
        assert parse(text).terms == (term,)
        assert with_saved(text, {}) == text


def test_saved_filters_stand_for_their_terms() -> None:
    saved = {"mail": "queue:mail", "new": 'state:new "@mail"', 'a"b': "tag:x"}
    assert with_saved("@mail", saved) == "queue:mail"
    assert with_saved(' type:x  @mail @new "@new"', saved) == ' type:x  queue:mail state:new "@mail" "@new"'
    assert with_saved('@a"b', saved) == "tag:x"
    with pytest.raises(KeyError, match="other"):
        with_saved("@other", saved)


@pytest.mark.parametrize("stored", ["!@mail", "@mail queue:images", "@loop", "nofield:x", '"open'])
def test_a_saved_filter_that_names_another_cannot_be_used(stored: str) -> None:
    with pytest.raises(FilterError, match="the filter that is saved as 'loop' cannot be used: "):
        with_saved("type:x @loop", {"loop": stored, "mail": "queue:mail"})
