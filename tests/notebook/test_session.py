"""A notebook's connection: reads and previews of changes without `await`, also where a loop runs."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest

from jobconsole.actions.plan import Plan, Report, apply
from jobconsole.notebook import NotebookConsole, as_html, as_text, change, connect
from queue_core import (
    ConfigurationError,
    FilterError,
    InvalidArgument,
    JobNotFound,
    JobQueue,
    NotFound,
    QueueCoreError,
    ReadOnly,
    Status,
    StoreUnavailable,
)
from queue_core.client.operations import Operations
from queue_core.model.operation import Author


async def test_it_works_where_a_loop_runs(console: NotebookConsole, path: Path) -> None:
    """As in Jupyter, whose cells run within a loop; the blocking client does, too."""
    assert asyncio.get_running_loop().is_running()
    assert console.stats().dlq == 2
    with JobQueue(sqlite=path).blocking() as queue:
        handle = queue.enqueue("mail", {"to": "a"})
        assert handle.status() == Status.QUEUED
    assert console.stats().total_pending == 4


def test_reads(console: NotebookConsole, ids: dict[str, str]) -> None:
    assert [queue.name for queue in console.queues()] == ["work"]
    assert {job.id for job in console.dlq()} == {ids["dead"], ids["hostile"]}
    assert [job.id for job in console.dlq("type:mail").head()] == [ids["hostile"]]
    assert [job.id for job in console.dlq("trash:yes")] == [ids["trashed"]]
    assert [job.id for job in console.jobs("status:running")] == [ids["running"]]
    assert console.jobs().count() == 8
    assert console.job(ids["completed"]).status == Status.COMPLETED
    assert console.health().healthy
    assert len(console.workers()) == 0
    assert {one.signature for one in console.signatures()} == {"0123456789ab", "ab12cd34ef56"}
    group = console.signature("ab12")
    assert group.sample.id == ids["hostile"]
    assert [job.id for job in group.jobs] == [ids["hostile"]]


@pytest.mark.parametrize("text", ["@mail", "!@mail"])
def test_the_name_of_a_saved_filter_is_no_word_to_search_for(console: NotebookConsole, text: str) -> None:
    for read in (console.delete, console.retry, console.dlq, console.jobs):
        with pytest.raises(FilterError, match="saved filter"):
            read(text)


def test_a_retry_is_previewed_and_recorded(console: NotebookConsole, ids: dict[str, str]) -> None:
    preview = console.retry(console.dlq("type:mail"))
    assert len(preview) == 1
    assert preview.plan.label == "type=mail status=dead"
    assert "nothing is changed yet" in as_text(preview)
    assert console.job(ids["hostile"]).status == Status.DEAD
    result = preview.run(why="smtp is back")
    assert result.sentence == "retried 1 job (operation #1)"
    assert console.job(ids["hostile"]).status == Status.QUEUED
    (operation,) = console.operations()
    assert operation.request.why == "smtp is back"
    assert operation.request.author.user
    with pytest.raises(InvalidArgument, match="carried out already"):
        preview.run()


def test_the_jobs_of_a_preview_are_frozen(console: NotebookConsole, ids: dict[str, str]) -> None:
    first, second = console.retry("type:mail"), console.retry(console.job(ids["hostile"]))
    first.run()
    assert second.run().sentence == "retried 0 jobs, skipped 1 that had changed meanwhile (operation #2)"


def test_a_delete_can_be_undone(console: NotebookConsole, ids: dict[str, str]) -> None:
    result = console.signature("ab12").delete().run("spam")
    assert console.dlq("type:mail").count() == 0
    (operation,) = console.operations()
    assert operation.request.signatures == ("ab12cd34ef56",)
    (undone,) = result.undo()
    assert undone.sentence == "restored 1 job (operation #2)"
    assert console.dlq("type:mail").count() == 1
    with pytest.raises(InvalidArgument, match="cannot be undone"):
        console.retry(ids["dead"]).run().undo()


def test_the_user_is_the_hub_s(console: NotebookConsole, ids: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUPYTERHUB_USER", "ada")
    console.retry([ids["dead"]]).run()
    assert console.operations()[0].request.author.user == "ada"


def test_options_of_a_retry(console: NotebookConsole) -> None:
    plan = console.retry("type:mail", queue="slow", priority="high", delay=60, rate=5).plan
    assert (plan.options.queue, plan.options.priority, plan.options.delay) == ("slow", 10, 60)
    assert plan.rollout.rate == 5


@pytest.mark.parametrize(
    "given", [{"cannary": 5}, {"stop_precent": 20}, {"dry_run": True}, {"Canary": 3}, {"canary": 1, "bogus": 1}]
)
def test_an_option_that_does_not_exist_is_refused(console: NotebookConsole, given: dict[str, object]) -> None:
    *_, name = given
    for retry in (partial(console.retry, "type:mail"), console.signature("ab12").retry):
        with pytest.raises(TypeError, match=rf"retry\(\) takes no {name}; it takes queue, priority, delay, .*canary"):
            retry(**given)
    with pytest.raises(TypeError, match="bogus"):
        console.delete("type:mail", bogus=3)  # type: ignore[call-arg]
    assert len(console.operations()) == 0


def test_a_rate_and_a_time_are_given_as_on_the_command_line(console: NotebookConsole) -> None:
    preview = console.retry("type:mail", rate="90/m", begin_at="2090-01-31T09:00:00+01:00", canary=5, stop_percent=20)
    rollout = preview.plan.rollout
    assert (rollout.rate, rollout.begin_at) == (1.5, datetime(2090, 1, 31, 8, tzinfo=UTC))
    text = " ".join(as_text(preview).split())
    for words in ("begins at", "a canary of 5 jobs first", "1.5 a second", "stopped when more than 20% die again"):
        assert words in text


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"rate": "fast"}, "'fast' is no rate; write for example 100/s, 90/m or 1000/h"),
        ({"rate": 0}, "a rate is more than 0: 0"),
        ({"begin_at": "soon"}, "'soon' is no time; write it as in 2030-01-31T09:00:00+01:00"),
        ({"begin_at": "2090-01-31T09:00"}, "'2090-01-31T09:00' has no time zone; add one, as in 2090-01-31T09:00:00Z"),
        ({"begin_at": 5}, "an operation begins at a time with its time zone, not 5"),
        ({"stop_percent": "20"}, "a threshold is 0 to 100 percent, not '20'"),
        ({"ramp": 5}, "a ramp is the jobs of each step, as in (1, 10, 100), not 5"),
    ],
)
def test_an_option_that_cannot_be_is_a_sentence(
    console: NotebookConsole, given: dict[str, object], sentence: str
) -> None:
    with pytest.raises(InvalidArgument, match=f"^{re.escape(sentence)}$"):
        console.retry("type:mail", **given)  # type: ignore[arg-type]


def test_a_retry_that_waits_for_a_release_is_left_to_the_workers(console: NotebookConsole) -> None:
    preview = console.retry("type:mail", when_release="r125", ramp=(1, 10), stop_percent=20, canary_first_failure=True)
    assert preview.plan.rollout.ramp == (1, 10)
    assert "begins when release r125 is live" in as_text(preview)
    result = preview.run(why="r125 raises the pool")
    assert result.sentence.startswith("operation #1 is written down for 1 job: begins when release r125 is live")
    (operation,) = console.operations()
    assert (operation.state, operation.processed, operation.request.rollout.first_failure) == ("running", 0, True)
    with pytest.raises(InvalidArgument, match="a ramp begins with a canary of its own"):
        console.retry("type:mail", ramp=(1,), canary=1)


def test_a_group_shows_its_state_and_what_its_jobs_have_in_common(console: NotebookConsole) -> None:
    signatures = console.connection.jobs.signatures
    console.connection.run(signatures.own("ab12cd34ef56", "ana"))
    console.connection.run(signatures.note("ab12cd34ef56", "<b>throttled</b>"))
    group = console.signature("ab12")
    assert (group.state.word, group.state.facts.owner) == ("known", "ana")
    text = as_text(group)
    for words in ("state", "ana", "<b>throttled</b>", "PROPERTY", "Shares are of all 1 dead"):
        assert words in text
    assert "<b>" not in as_html(group)
    assert "&lt;b&gt;throttled" in as_html(group)


def test_what_cannot_be_chosen(console: NotebookConsole) -> None:
    with pytest.raises(FilterError):
        console.dlq("nothing:x")
    with pytest.raises(InvalidArgument, match="which jobs"):
        console.retry([])
    with pytest.raises(InvalidArgument, match="is no job and no job's id"):
        console.delete(["x"])
    with pytest.raises(InvalidArgument, match="no job is in a state for retry"):
        console.retry("type:nothing").run()
    with pytest.raises(NotFound):
        console.signature("ffff")


def test_a_read_only_connection_looks_and_changes_nothing(path: Path, ids: dict[str, str]) -> None:
    with connect(sqlite=path, read_only=True) as console:
        preview = console.retry(ids["dead"])
        with pytest.raises(ReadOnly):
            preview.run()
        assert console.job(ids["dead"]).status == Status.DEAD
        assert "read-only" in as_text(console)


def test_a_closed_connection_is_refused(console: NotebookConsole) -> None:
    console.close()
    console.close()
    with pytest.raises(QueueCoreError, match="connect\\(\\) makes another one"):
        console.stats()


def test_settings_are_found_as_the_console_finds_them(
    path: Path, ids: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "jobconsole.yaml"
    config.write_text(f"""
contexts:
  prod:
    read_only: true
    jobs: {{queue_backend: sqlite, sqlite: {{path: {path}}}}}
""")
    with connect(config=config, context="prod") as console:
        assert console.settings.read_only
        assert console.settings.word == "PROD"
        assert console.stats().dlq == 2
    monkeypatch.setenv("JOBS__QUEUE_BACKEND", "sqlite")
    monkeypatch.setenv("JOBS__SQLITE__PATH", str(path))
    with connect() as console:
        assert console.stats().dlq == 2
    with connect(JobQueue(sqlite=path)) as console:
        assert console.stats().dlq == 2


def test_without_servers() -> None:
    with pytest.raises(ConfigurationError, match=r"call connect\(postgres_url=…, redis_url=…\), set JOBS__POSTGRES"):
        connect()
    with pytest.raises(ConfigurationError, match="lives inside one process"):
        connect(JobQueue(memory=True))
    with pytest.raises(InvalidArgument, match="takes no url"):
        connect(url="x")  # type: ignore[call-arg]
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(StoreUnavailable):
        connect(redis_url=f"redis://127.0.0.1:{port}/0")


def test_an_unknown_job(console: NotebookConsole) -> None:
    with pytest.raises(JobNotFound):
        console.job("00000000-0000-7000-8000-000000000000")


def interrupt_when(event: threading.Event) -> None:
    """Press Ctrl+C once something has happened."""

    def wait() -> None:
        assert event.wait(30)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=wait, daemon=True).start()


def test_an_interrupted_call_ends_in_order(console: NotebookConsole) -> None:
    """What Ctrl+C raises in the thread that waits cancels the call in the other one, whose end is waited for."""
    began, ended = threading.Event(), []

    async def call() -> None:
        try:
            began.set()
            await asyncio.sleep(3600)
        finally:
            await asyncio.sleep(0.01)
            ended.append(True)

    interrupt_when(began)
    with pytest.raises(KeyboardInterrupt):
        console.connection.run(call())
    assert ended == [True]


def test_an_interrupted_change_is_cancelled_in_the_store(
    console: NotebookConsole, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    preview, began = console.retry("status:dead", rate=0.001), threading.Event()
    monkeypatch.setattr(change, "apply", partial(apply_and_report, began=began))
    interrupt_when(began)
    with pytest.raises(KeyboardInterrupt):
        preview.run()
    assert console.operations()[0].state == "cancelled"
    assert "operation #1 is cancelled, after " in capsys.readouterr().err


async def apply_and_report(
    operations: Operations, plan: Plan, author: Author, progress: Callable[[Report], None], began: threading.Event
) -> Report:
    def note(report: Report) -> None:
        progress(report)
        if report.operation is not None and report.operation.state == "running":
            began.set()

    return await apply(operations, plan, author, note)
