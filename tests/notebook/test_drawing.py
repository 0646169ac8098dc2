"""How the queue's records are shown: escaped, in HTML and as text, by IPython's formatters without drawing code of
their own; errors as one sentence."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell

from jobconsole.notebook import NotebookConsole, as_html, as_text, load_ipython_extension, records
from queue_core import InvalidArgument, Job, JobHandle
from tests.notebook.conftest import HOSTILE

UNSEEN = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
TAGS = {"style", "div", "span", "table", "thead", "tbody", "tr", "th", "td", "details", "summary", "pre"}


class Page(HTMLParser):
    """The tags and attributes of a page, and its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.text = ""
        self.open: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data if self.open[-1:] != ["style"] else ""


def check_harmless(shown: object) -> tuple[str, str]:
    """Return HTML and text of a record, which no browser and no terminal obeys."""
    html, text = as_html(shown), as_text(shown)
    page = Page(html)
    assert page.tags <= TAGS
    assert page.attributes <= {"class", "open"}
    assert not page.open
    assert not UNSEEN.search(html)
    assert not UNSEEN.search(text)
    return page.text, text


def test_texts_of_jobs_are_harmless(console: NotebookConsole, ids: dict[str, str]) -> None:
    jobs, hostile = console.connection.jobs, ids["hostile"]
    shown: tuple[Callable[[], object], ...] = (
        lambda: console.job(hostile),
        console.dlq,
        console.signatures,
        lambda: console.signature("ab12"),
        lambda: console.retry(hostile),
        lambda: console.connection.run(jobs.list()),
        lambda: JobHandle[object](jobs, hostile, HOSTILE, HOSTILE, created=False),
        lambda: console.retry("type:mail").run(HOSTILE),
        console.operations,
        lambda: console.operations()[0],
    )
    for show in shown:
        html, text = check_harmless(show())
        assert "script>" in html, "its text is shown"
        assert "script>" in text


def test_each_kind_is_shown(console: NotebookConsole, ids: dict[str, str]) -> None:
    for shown, part in (
        (console, "sqlite"),
        (console.stats(), "pending"),
        (console.queues(), "DEPTH"),
        (console.workers(), "no workers"),
        (console.health(), "healthy"),
        (console.dlq("type:nothing"), "no jobs"),
        (console.job(ids["completed"]), "completed"),
    ):
        html, text = check_harmless(shown)
        assert part in html
        assert part in text
    with pytest.raises(InvalidArgument, match="a int is none of the records"):
        as_html(3)


def test_a_store_that_is_gone_is_one_sentence(console: NotebookConsole) -> None:
    rows = console.dlq()
    console.close()
    assert as_text(rows) == "QueueCoreError: this connection is closed; connect() makes another one"


@pytest.mark.parametrize(("module", "name"), records._DRAWN)
def test_what_is_registered_by_name_is_there(module: str, name: str) -> None:
    assert getattr(importlib.import_module(module), name).__module__ == module


def test_records_have_no_drawing_code() -> None:
    for record in (Job, JobHandle):
        assert not [name for name in dir(record) if name.startswith(("_repr_", "_ipython"))]


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InteractiveShell]:
    """IPython in this process, without the user's profile."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("IPYTHONDIR", str(tmp_path_factory.mktemp("ipython")))
        yield InteractiveShell.instance()
        InteractiveShell.clear_instance()


def test_ipython_shows_them(shell: InteractiveShell, console: NotebookConsole, ids: dict[str, str]) -> None:
    load_ipython_extension(shell)
    connection = console.connection
    handle: JobHandle[Any] = connection.run(connection.jobs.enqueue("mail", {}))
    for record, part in (
        (console.job(ids["hostile"]), "OSError"),
        (console.stats(), "pending"),
        (connection.run(connection.jobs.list()), "running"),
        (handle, handle.id),
        (console.dlq(), ids["dead"]),
    ):
        data, _ = shell.display_formatter.format(record)
        assert set(data) == {"text/html", "text/plain"}
        assert part in data["text/html"]
        assert part in data["text/plain"]


@pytest.mark.parametrize(
    ("cell", "sentence"),
    [
        ("connect()", "ConfigurationError: no servers are configured"),
        ("connect(redis_url='redis://:secret@127.0.0.1:1/0')", "StoreUnavailable: redis"),
        ("console.job('x')", "JobNotFound: no job with id x"),
        ("console.dlq('nothing:x')", "FilterError: filter, character 1"),
    ],
)
def test_an_error_is_one_sentence(
    shell: InteractiveShell,
    console: NotebookConsole,
    capsys: pytest.CaptureFixture[str],
    cell: str,
    sentence: str,
) -> None:
    shell.user_ns["console"] = console
    result = shell.run_cell(f"from jobconsole.notebook import connect\n{cell}")
    lines = capsys.readouterr().out.strip().splitlines()
    assert len(lines) == 1
    assert sentence in lines[0]
    assert "secret" not in lines[0]
    assert result.error_in_exec is not None
    assert result.error_in_exec.__traceback__ is not None, "it can still be looked into"
