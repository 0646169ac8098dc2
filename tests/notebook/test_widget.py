"""The widget's side in the kernel: what the page is given, and what it may ask for."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from jobconsole.notebook import NotebookConsole, connect
from jobconsole.notebook import widget as widget_module
from jobconsole.notebook.widget import JobsWidget
from queue_core import ConfigurationError, FilterError, Status

PATIENCE = 30.0


def ask(widget: JobsWidget, **content: Any) -> None:
    """Send what the page sends."""
    widget._handle_custom_msg(content, [])


def ids_of(widget: JobsWidget) -> list[str]:
    return [row["id"] for row in widget.table["rows"]]


def await_message(widget: JobsWidget, part: str) -> None:
    end = time.monotonic() + PATIENCE
    while part not in widget.message.get("text", ""):
        assert time.monotonic() < end, widget.message
        ask(widget, do="refresh")


def test_it_is_a_table_that_refreshes(console: NotebookConsole, ids: dict[str, str]) -> None:
    widget = console.widget()
    assert set(ids_of(widget)) == {ids["dead"], ids["hostile"]}
    assert widget.table["note"] == "2 dead jobs"
    json.dumps(widget.get_state())
    console.delete(ids["dead"]).run()
    ask(widget, do="refresh")
    assert ids_of(widget) == [ids["hostile"]]
    ask(widget, do="filter", text="type:nothing")
    assert ids_of(widget) == []
    ask(widget, do="filter", text="nothing:x")
    assert widget.message["text"].startswith("FilterError: filter, character 1")
    assert widget.filter == "type:nothing"
    ask(widget, do="filter", text="")
    assert widget.message == {}
    assert "\x1b" not in json.dumps(widget.table, ensure_ascii=False)


def test_a_retry_is_behind_a_preview(console: NotebookConsole, ids: dict[str, str]) -> None:
    widget = console.widget()
    ask(widget, do="run", number=0)
    assert "not open any more" in widget.message["text"]
    ask(widget, do="preview", verb="retry", ids=[ids["hostile"]])
    assert widget.preview["button"] == "Retry 1 job"
    assert ["jobs", "1"] in widget.preview["facts"]
    assert console.job(ids["hostile"]).status == Status.DEAD
    ask(widget, do="back")
    assert widget.preview == {}
    ask(widget, do="preview", verb="retry", ids=[ids["hostile"]])
    ask(widget, do="run", number=widget.preview["number"], why="smtp is back")
    await_message(widget, "retried 1 job (operation #1)")
    assert widget.preview == {}
    assert console.job(ids["hostile"]).status == Status.QUEUED
    assert console.operations()[0].request.why == "smtp is back"
    ask(widget, do="preview", verb="delete", ids=None)
    assert widget.preview["jobs"] == 1
    ask(widget, do="run", number=widget.preview["number"])
    await_message(widget, "deleted 1 job (operation #2)")
    # The refresh that brought the message has read the table before.
    ask(widget, do="refresh")
    assert ids_of(widget) == []


@pytest.mark.parametrize("content", [None, {}, {"do": "nothing"}, {"do": "preview", "ids": ["x"]}, {"do": "run"}])
def test_a_page_can_ask_for_nothing_else(console: NotebookConsole, content: Any) -> None:
    widget = console.widget()
    widget._handle_custom_msg(content, [])
    assert widget.preview == {}
    assert console.operations() is not None
    assert len(console.operations()) == 0


def test_a_read_only_connection_changes_nothing(path: Path, ids: dict[str, str]) -> None:
    with connect(sqlite=path, read_only=True) as console:
        widget = console.widget()
        assert widget.read_only
        ask(widget, do="preview", verb="delete", ids=None)
        ask(widget, do="run", number=widget.preview["number"])
        assert widget.message["text"].startswith("ReadOnly")
        assert console.dlq().count() == 2


def test_a_store_that_is_gone_is_shown(console: NotebookConsole) -> None:
    widget = console.widget()
    console.close()
    ask(widget, do="refresh")
    assert "this connection is closed" in widget.message["text"]
    assert len(ids_of(widget)) == 2


def test_what_it_cannot_be_made_of(console: NotebookConsole, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FilterError):
        console.widget("nothing:x")
    monkeypatch.delitem(sys.modules, "jobconsole.notebook.widget")
    monkeypatch.setitem(sys.modules, "anywidget", None)
    with pytest.raises(ConfigurationError, match=r"widget\(\) needs anywidget: pip install 'jobconsole\[notebook\]'"):
        console.widget()


def test_a_store_that_takes_its_time_does_not_hold_the_notebook_up(
    console: NotebookConsole, ids: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    widget, jobs, answered = console.widget(), console.connection.jobs, threading.Event()
    listed = jobs.list

    async def late(*given: Any, **options: Any) -> Any:
        await asyncio.to_thread(answered.wait, PATIENCE)
        return await listed(*given, **options)

    monkeypatch.setattr(widget_module, "ANSWER_SECONDS", 0.02)
    monkeypatch.setattr(jobs, "list", late)
    turn = widget.table["turn"]
    ask(widget, do="refresh")
    assert "no answer within 0.02 s" in widget.message["text"]
    ask(widget, do="filter", text="type:mail")
    assert widget.table["turn"] == turn + 2, "the page is answered each time"
    answered.set()
    monkeypatch.setattr(widget_module, "ANSWER_SECONDS", PATIENCE)
    ask(widget, do="refresh")
    assert widget.message == {}
    assert ids_of(widget) == [ids["hostile"]], "those of the filter as it is now"
