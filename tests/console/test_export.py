"""Jobs written out: complete, harmless, page by page."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import fields, replace
from unittest.mock import AsyncMock

import pytest

from jobconsole.actions import export as exporting
from jobconsole.actions.export import COLUMNS, LEFT_OUT, PAGE_JOBS, ExportOptions, cell, export
from jobconsole.actions.plan import Target
from jobconsole.core.snapshot import DEAD
from queue_core import JobQueue
from queue_core.model.filters import parse
from queue_core.model.job import Job
from tests.conformance.making import failure
from tests.conformance.world import World

EVERYTHING = Target("everything", wheres=(DEAD,))


async def written(jobs: JobQueue, wish: ExportOptions) -> tuple[int, str]:
    stream = io.StringIO(newline="")
    return await export(jobs.inspector, wish, stream), stream.getvalue()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('=HYPERLINK("http://x")', '\'=HYPERLINK("http://x")'),
        ("+1", "'+1"),
        ("-1+cmd|'/C calc'!A0", "'-1+cmd|'/C calc'!A0"),
        ("@SUM(1)", "'@SUM(1)"),
        ("\t=1", "'    =1"),
        ("  =1", "'  =1"),
        ("\r=1", "'␍=1"),
        ("＝1", "'＝1"),
        ("plain - text", "plain - text"),
        ("\x1b]52;c;x\x07", "␛]52;c;x␇"),
        ("\u202eabc", "\\u202eabc"),
        (-5, "-5"),
        (None, ""),
    ],
)
def test_a_cell_is_no_formula_and_no_escape_sequence(text: object, shown: str) -> None:
    assert cell(text) == shown


def test_every_field_of_a_job_is_a_column_or_left_out_on_purpose() -> None:
    of_lines_only = {"ordering_key", "unique_key", "headers"}
    assert {field.name for field in fields(Job)} == {*COLUMNS, *LEFT_OUT, *of_lines_only}


async def test_a_table_for_spreadsheets(jobs: JobQueue, world: World) -> None:
    hostile = failure('=cmd|" /C calc"!A0\n\x1b[2J', exception="E")
    claim = await world.ended("dead", {"failure": hostile}, payload='{"x": "=1+1", "n": [1, 2]}', tags=("=a", "b"))
    number, text = await written(jobs, ExportOptions(EVERYTHING, "csv", tracebacks=True))
    assert number == 1
    (row,) = csv.DictReader(io.StringIO(text, newline=""))
    assert tuple(row) == COLUMNS
    assert (row["id"], row["status"], row["tags"]) == (claim.id, "dead", "'=a b")
    assert json.loads(row["payload"]) == {"x": "=1+1", "n": [1, 2]}
    assert row["traceback"]
    assert "\x1b" not in text


async def test_lines_for_programs_are_exact(jobs: JobQueue, world: World) -> None:
    claim = await world.ended("dead", {"failure": failure("a\x1b[2J\u202e")}, payload='{"to": "é"}')
    number, text = await written(jobs, ExportOptions(EVERYTHING, "jsonl"))
    assert number == 1
    assert text.isascii()
    assert text.count("\n") == 1
    body = json.loads(text)
    assert (body["id"], body["payload"], body["status"]) == (claim.id, {"to": "é"}, "dead")
    assert body["error"] == (await jobs.inspector.get(claim.id)).error


async def test_more_than_a_page_each_once_and_bounded(
    jobs: JobQueue, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exporting, "PAGE_JOBS", 3)
    dead = {(await world.ended("dead", {})).id for _ in range(10)}
    two = Target("two filters", wheres=(DEAD, parse("status:dead retries:<100")))
    told: list[int] = []
    stream = io.StringIO()
    assert await export(jobs.inspector, ExportOptions(two, "jsonl"), stream, told.append) == 10
    assert {json.loads(line)["id"] for line in stream.getvalue().splitlines()} == dead
    assert told[:4] == [3, 6, 9, 10]
    assert (await written(jobs, ExportOptions(EVERYTHING, "jsonl", limit=4)))[0] == 4
    assert PAGE_JOBS == 200


async def test_chosen_jobs_and_those_that_are_gone(jobs: JobQueue, world: World) -> None:
    one = (await world.ended("dead", {})).id
    target = Target("two", ids=(one, "0197b3c2-5a1e-7c88-9b3e-56e26719422c"))
    number, text = await written(jobs, ExportOptions(target, "jsonl"))
    assert (number, json.loads(text)["id"]) == (1, one)


@pytest.mark.parametrize("tracebacks", [False, True])
@pytest.mark.parametrize("chosen", ["by a filter", "by its id", "cut"])
async def test_tracebacks_are_written_where_they_were_asked_for(
    jobs: JobQueue, world: World, monkeypatch: pytest.MonkeyPatch, chosen: str, tracebacks: bool
) -> None:
    """Of jobs that are read one by one, too: chosen by their ids, or too large for a page."""
    claim = await world.ended("dead", {"failure": failure("no")}, payload='{"to": "a"}')
    target = Target("one", ids=(claim.id,)) if chosen == "by its id" else EVERYTHING
    if chosen == "cut":
        page = await jobs.inspector.jobs(DEAD, PAGE_JOBS, None)
        cut = replace(page, jobs=tuple(replace(job, payload=None, traceback=None) for job in page.jobs))
        monkeypatch.setattr(jobs.inspector, "jobs", AsyncMock(return_value=cut))
    number, text = await written(jobs, ExportOptions(target, "jsonl", tracebacks=tracebacks))
    body = json.loads(text)
    assert (number, body["payload"]) == (1, {"to": "a"})
    assert (body["traceback"] is not None) == tracebacks
