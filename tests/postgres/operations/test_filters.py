"""Filters become parameters: whatever a person types is compared, and never read as SQL or as a pattern."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from queue_core.errors import FilterError, QueueCoreError
from queue_core.model.filters import Filter, Operator, Term, parse
from queue_core.model.settings import SCHEMA
from queue_core.stores.postgres.dialect import conditions, pieces_of
from queue_core.stores.postgres.read import PostgresInspector
from tests.postgres.operations.filling import Database

FIELDS = (
    "type",
    "queue",
    "error",
    "tag",
    "worker",
    "text",
    "payload.a",
    "payload.'); drop table jobs; --",
    "payload.%s{}",
)
HOSTILE = [
    "'",
    "\\",
    "%",
    "_",
    "%s",
    "%(p0_value)s",
    "{}",
    "{value}",
    "'; drop table jobs; --",
    "\0",
    "a\\'b",
    '"',
    "$1",
]


async def found(inspector: PostgresInspector, *terms: Term) -> list[str]:
    return [job.id for job in (await inspector.jobs(Filter(terms), 100)).jobs]


@pytest.mark.parametrize("text", HOSTILE)
async def test_hostile_text_finds_itself_and_nothing_else(
    inspector: PostgresInspector, database: Database, text: str
) -> None:
    await database.queues()
    stored = text.replace("\0", "␀")
    wanted = await database.dead(type=f"x{stored}y", error=stored, payload=json.dumps({"a": stored}), tags=[stored])
    await database.dead(type="plain", error="plain", payload='{"a": "plain"}', tags=["plain"])
    for field in ("error", "tag", "payload.a"):
        assert await found(inspector, Term(field, "=", text)) == [wanted], field
    # Every payload has quotation marks in its text.
    for field in ("type", "error", "tag", "payload.a", *(["text"] if text != '"' else [])):
        assert await found(inspector, Term(field, "~", text)) == [wanted], field
    assert await found(inspector, Term("queue", "=", text)) == []


async def test_a_dash_is_searched_for_and_begins_no_id(inspector: PostgresInspector, database: Database) -> None:
    await database.queues()
    wanted = await database.dead(type="a-b")
    await database.dead(type="ab")
    assert await found(inspector, Term("word", "~", "-")) == [wanted]


@given(field=st.sampled_from(FIELDS), operator=st.sampled_from(["=", "~"]), value=st.text(min_size=1, max_size=40))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_value_gets_into_the_statement(field: str, operator: Operator, value: str) -> None:
    if f"{field.partition('.')[0]} {operator}" not in pieces_of(SCHEMA).fragments:
        return
    places = [conditions(Filter((Term(field, operator, other),)), SCHEMA) for other in (value, "another value")]
    assert places[0] is not None
    assert places[1] is not None
    assert places[0].text() == places[1].text()


@pytest.mark.parametrize(
    "term", [Term("nothing", "=", "x"), Term("type", "<", "x"), Term("payload", "=", "x"), Term("type.x", "=", "x")]
)
async def test_terms_that_no_parser_makes_are_refused(inspector: PostgresInspector, term: Term) -> None:
    with pytest.raises(QueueCoreError, match="a filter has no term"):
        await inspector.jobs(Filter((term,)), 10)


async def test_an_age_beyond_all_times_is_an_age(inspector: PostgresInspector, database: Database) -> None:
    await database.queues()
    job_id = await database.dead()
    assert [job.id for job in (await inspector.jobs(parse("age:<99999999999999w"), 10)).jobs] == [job_id]
    assert (await inspector.jobs(parse("age:>99999999999999w"), 10)).jobs == ()


@pytest.mark.parametrize(
    "cursor", ["", "x", "1", "1.x", "x.0197f3c2-1111-7abc-8def-0123456789ab", "9" * 40 + "." + "0" * 32]
)
async def test_a_cursor_that_no_page_gave(inspector: PostgresInspector, cursor: str) -> None:
    with pytest.raises(FilterError, match="no cursor that a page gave"):
        await inspector.jobs(Filter(), 10, cursor)


async def test_payloads_that_are_no_json_match_nothing_and_break_nothing(
    inspector: PostgresInspector, database: Database
) -> None:
    await database.queues()
    for payload in ("{not json", "", "[" * 5_000, '{"a": "\\u0000"}', '{"a": NaN}', "[" * 200_000, '{"a": {"b": 1}}'):
        await database.dead(payload=payload)
    wanted = await database.dead(payload='{"a": 7.0}')
    for text in ("payload.a=7", "payload.a:>6.5", "payload.a:<7e1"):
        assert [job.id for job in (await inspector.jobs(parse(text), 100)).jobs] == [wanted], text
    assert await inspector.count(parse("!payload.a=7")) == 7


async def test_a_page_carries_no_long_payload_and_one_job_carries_all(
    inspector: PostgresInspector, database: Database
) -> None:
    await database.queues()
    payload = json.dumps({"text": "x" * 1_000_000})
    job_id = await database.dead(payload=payload)
    (listed,) = (await inspector.jobs(Filter(), 10)).jobs
    assert listed.payload is None
    assert len(listed.payload_text) < 5_000
    assert (await inspector.get(job_id)).payload_text == payload
