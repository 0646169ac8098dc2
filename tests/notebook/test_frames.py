"""Jobs as data frames: typed by one schema, read page by page with one page ahead."""

from __future__ import annotations

import json
import sys
from typing import Any

import pandas
import polars
import pyarrow
import pytest

from jobconsole.notebook import NotebookConsole, rows
from queue_core import ConfigurationError, InvalidArgument
from queue_core.model.filters import Filter
from queue_core.model.report import Page

JOBS = 95


@pytest.fixture
def many(console: NotebookConsole, monkeypatch: pytest.MonkeyPatch) -> NotebookConsole:
    """A queue of some more jobs than there are in a page."""
    connection = console.connection
    connection.run(connection.jobs.enqueue_many("scan", [{"n": n} for n in range(JOBS)], queue="many", tags=["a", "b"]))
    monkeypatch.setattr(rows, "PAGE_JOBS", 10)
    return console


def test_batches_are_read_page_by_page(many: NotebookConsole, monkeypatch: pytest.MonkeyPatch) -> None:
    inspector = many.connection.jobs.inspector
    read, reads = inspector.jobs, []

    async def count(where: Filter, limit: int, cursor: str | None = None, order: Any = "newest") -> Page:
        reads.append(limit)
        return await read(where, limit, cursor, order)

    monkeypatch.setattr(inspector, "jobs", count)
    batches = many.jobs("queue:many").batches(rows=25)
    first = next(batches)
    assert isinstance(first, pyarrow.RecordBatch)
    assert len(reads) <= 4, "three pages, and the next one"
    assert [first.num_rows, *(batch.num_rows for batch in batches)] == [25, 25, 25, 20]
    assert set(reads) == {10}
    batches = many.jobs("queue:many").batches(rows=5)
    next(batches)
    batches.close()
    with pytest.raises(InvalidArgument, match="rows is a whole number from 1"):
        next(many.jobs().batches(rows=0))


def test_frames_have_the_same_columns_and_types(many: NotebookConsole, ids: dict[str, str]) -> None:
    found = many.jobs()
    table, frame, polar = found.to_arrow(), found.to_pandas(payload=True), found.to_polars()
    assert table.num_rows == len(frame) == len(polar) == JOBS + 8
    assert table.column_names == [*rows.COLUMNS] == polar.columns == [*frame.columns][:-1]
    assert str(table.schema.field("created_at").type) == "timestamp[us, tz=UTC]"
    assert str(table.schema.field("status").type) == "dictionary<values=string, indices=int32, ordered=0>"
    assert isinstance(frame["queue"].dtype, pandas.CategoricalDtype)
    assert str(frame["created_at"].dtype) == "datetime64[us, UTC]"
    assert polar.schema["updated_at"] == polars.Datetime("us", "UTC")
    assert polar.schema["retry_count"] == polars.Int32
    counts = frame.groupby("queue", observed=True).size().to_dict()
    assert counts == {"many": JOBS, "work": 8}
    assert {json.loads(text).get("n") for text in frame["payload"]} == {None, *range(JOBS)}
    assert polar.filter(queue="many")["tags"].to_list() == [["a", "b"]] * JOBS
    hostile = frame.set_index("id").loc[ids["hostile"]]
    assert "\x1b" not in hostile["error"]
    assert hostile["payload"] == '{"to": "<b>"}'
    assert many.jobs("type:nothing").to_pandas().empty
    assert many.jobs("type:nothing").to_polars().columns == [*rows.COLUMNS]


@pytest.mark.parametrize(
    ("missing", "call", "sentence"),
    [
        ("pyarrow", "to_arrow", "to_arrow() needs pyarrow: pip install pyarrow"),
        ("pandas", "to_pandas", "to_pandas() needs pandas and pyarrow: pip install pandas pyarrow"),
        ("polars", "to_polars", "to_polars() needs polars and pyarrow: pip install polars pyarrow"),
    ],
)
def test_what_is_not_installed_is_named(
    console: NotebookConsole, monkeypatch: pytest.MonkeyPatch, missing: str, call: str, sentence: str
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ConfigurationError) as error:
        getattr(console.dlq(), call)()
    assert str(error.value) == sentence
