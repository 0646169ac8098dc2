"""What a worker logs: failed attempts and deaths, its start and end, and the ids on the lines of handlers."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import logging
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from queue_core import JobContext, JobFailed, JobLogFilter, JobQueue, Retry, job_log_fields
from queue_core.client.logs import StderrLog, log_death, setup_logging
from queue_core.model.job import Reclaimed
from queue_core.model.outcome import failure_of_loss
from tests.architecture.sources import ROOT
from tests.conformance.working import PATIENCE, working
from tests.hostile import Nameless
from tests.worker import process_tasks

ONCE = Retry(max_retries=1, delay=0.01)
HOSTILE = "two\nlines \x1b[2J of postgresql://app:secret@db/app"


def ends(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.name == "queue_core.jobs"]


async def fail(jobs: JobQueue, name: str, **options: Any) -> str:
    handle = await jobs.enqueue(name, **options)
    with pytest.raises(JobFailed):
        await handle.result(PATIENCE)
    return handle.id


async def test_a_failed_attempt_is_a_warning_and_a_death_an_error(
    jobs: JobQueue, caplog: pytest.LogCaptureFixture
) -> None:
    @jobs.task(queue="mail", retry=ONCE)
    async def bad() -> None:
        raise ValueError(HOSTILE)

    @jobs.task
    async def good() -> int:
        return 1

    with caplog.at_level(logging.INFO):
        async with working(jobs) as worker:
            job_id = await fail(jobs, "bad")
            assert await (await good.enqueue()).result(PATIENCE) == 1
    first, death = ends(caplog)
    error = "ValueError: two"
    assert first.getMessage() == f"job {job_id}: attempt 1 of bad on queue mail failed, retried in 0.01 s: {error}"
    assert death.getMessage() == f"job {job_id}: attempt 2 of bad on queue mail failed, dead: {error}"
    for record, level, attempt in ((first, "WARNING", 1), (death, "ERROR", 2)):
        fields = vars(record)
        assert record.levelname == level
        assert (fields["job_id"], fields["job_type"], fields["queue"]) == (job_id, "bad", "mail")
        assert (fields["attempt"], fields["worker"], fields["error"]) == (attempt, worker.id, error)
        assert len(fields["signature"]) == 12
    assert first.exc_text is None
    assert death.exc_text is not None
    shown = logging.Formatter("%(message)s").format(death)
    assert shown.splitlines()[1] == "Traceback (most recent call last):"
    assert "lines ␛[2J of postgresql://app:***@db/app" in shown
    others = [record.getMessage() for record in caplog.records if record.name == "queue_core.worker"]
    assert others == [
        f"worker {worker.id} runs bad, good on mail, default",
        f"worker {worker.id} drains; jobs running: 0",
        f"worker {worker.id} has stopped",
    ]


async def test_an_attempt_that_a_program_ends_is_logged_too(jobs: JobQueue, caplog: pytest.LogCaptureFixture) -> None:
    handle = await jobs.enqueue("mail")
    job = await jobs.claim_next("default")
    assert job is not None
    await job.fail("no such address", retry=False)
    (record,) = ends(caplog)
    assert record.getMessage().startswith(f"job {handle.id}: attempt 1 of mail on queue default failed, dead: ")


async def test_in_process_tests_log_the_same(jobs: JobQueue, caplog: pytest.LogCaptureFixture) -> None:
    @jobs.task(retry=Retry(max_retries=0))
    async def bad() -> None:
        seen.append(job_log_fields())
        raise ValueError

    seen: list[dict[str, Any]] = []
    async with jobs.testing() as t:
        handle = await bad.enqueue()
        assert await t.run_due() == 1
    assert [record.levelname for record in ends(caplog)] == ["ERROR"]
    assert seen == [{"job_id": handle.id, "job_type": "bad", "queue": "default", "attempt": 1}]


def test_a_death_by_lost_workers_is_an_error(caplog: pytest.LogCaptureFixture) -> None:
    log_death(Reclaimed("j", "mail", "send", 3, "host:1:a", 20, None), failure_of_loss("host:1:a", 20, 20))
    (record,) = ends(caplog)
    assert record.getMessage().startswith(
        "job j: an attempt of send on queue mail failed, dead: WorkerLost: 20 workers"
    )
    assert vars(record)["worker"] == "host:1:a"


async def test_lines_of_a_handler_carry_its_job(jobs: JobQueue, caplog: pytest.LogCaptureFixture) -> None:
    """In a coroutine and in a thread; outside of handlers there is no job."""
    log = logging.getLogger("tests.handlers")
    for name in ("coroutine", "thread"):

        async def coroutine(ctx: JobContext) -> None:
            log.warning("line of %s", ctx.job_id)

        def thread(ctx: JobContext) -> None:
            log.warning("line of %s", ctx.job_id, extra={"queue": "its own"})

        jobs.task({"coroutine": coroutine, "thread": thread}[name])
    caplog.handler.addFilter(JobLogFilter())
    assert job_log_fields() == {}
    async with working(jobs) as worker:
        ids = {name: (await jobs.enqueue(name)).id for name in ("coroutine", "thread")}
        for job_id in ids.values():
            await jobs.result(job_id, PATIENCE)
    lines = {record.getMessage(): vars(record) for record in caplog.records if record.name == "tests.handlers"}
    for name, job_id in ids.items():
        fields = lines[f"line of {job_id}"]
        assert (fields["job_id"], fields["job_type"], fields["attempt"]) == (job_id, name, 1)
        assert (fields["worker"], fields["queue"]) == (worker.id, {"coroutine": "default", "thread": "its own"}[name])


async def test_a_log_handler_that_fails_costs_no_job(jobs: JobQueue) -> None:
    class Broken(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise OSError("no space left on device")

    @jobs.task(retry=ONCE)
    async def bad() -> None:
        raise ValueError

    logger, broken = logging.getLogger("queue_core.jobs"), Broken()
    logger.addHandler(broken)
    try:
        async with working(jobs):
            await fail(jobs, "bad")
    finally:
        logger.removeHandler(broken)


async def test_a_paused_queue_is_logged(jobs: JobQueue, caplog: pytest.LogCaptureFixture) -> None:
    await jobs.enqueue("mail")
    with caplog.at_level(logging.INFO, "queue_core.operations"):
        await jobs.operations.pause_queue("default")
        await jobs.operations.resume_queue("default")
    assert [record.getMessage() for record in caplog.records] == ["queue default is paused", "queue default is resumed"]


# -- the form on stderr


@pytest.fixture
def configure(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Sets logging up as `worker run` does."""
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    level, driver = root.level, logging.getLogger("psycopg").level
    yield setup_logging
    root.setLevel(level)
    logging.getLogger("psycopg").setLevel(driver)


def test_entries_in_json_have_the_fields_of_their_records(
    configure: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    configure("json", "debug")
    extra = {"order": 7, "what": Path("/x\x1b"), "level": "not the level"}
    logging.getLogger("app").debug("line", extra=extra)
    try:
        raise ValueError(HOSTILE)
    except ValueError:
        logging.getLogger("app").exception("it failed")
    line, failure = map(json.loads, capsys.readouterr().err.splitlines())
    assert (line["level"], line["message"], line["order"], line["what"]) == ("debug", "line", 7, "/x␛")
    assert "app:***@db" in failure["traceback"]


class Textless:
    """A value that has no text."""

    def __str__(self) -> str:
        raise SystemExit("not now")


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_an_entry_whose_values_raise_is_written_all_the_same(
    log_format: str, configure: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    configure(log_format, "debug")
    try:
        raise Nameless("no picture")
    except Nameless:
        logging.getLogger("app").exception("it failed")
    logging.getLogger("app").warning("with %s", Textless())
    logging.getLogger("app").warning("then")
    shown = capsys.readouterr().err
    assert "it failed" in shown
    assert "Nameless: no picture" in shown
    assert re.search(r"the entry of \S+test_logs.py:\d+ cannot be formatted: SystemExit: not now", shown)
    assert "could not be written" not in shown


def test_levels_below_the_one_that_was_given_are_left_out(
    configure: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    configure("text", "error")
    logging.getLogger("queue_core.jobs").warning("a failed attempt")
    assert capsys.readouterr().err == ""


def test_entries_that_cannot_be_written_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk, or a stderr that was closed: the next entry that can be written comes with their number."""

    class Full(io.StringIO):
        full = True

        def write(self, text: str) -> int:
            if self.full:
                raise OSError(28, "No space left on device")
            return super().write(text)

    disk = Full()
    monkeypatch.setattr(sys, "stderr", disk)
    handler = StderrLog("text", "info")
    record = logging.makeLogRecord({"msg": "line", "levelname": "INFO", "levelno": logging.INFO})
    for dropped in (3, 1):
        disk.full = True
        for _ in range(dropped):
            handler.handle(record)
        disk.full = False
        handler.handle(record)
    handler.handle(record)
    lines = [line.split(maxsplit=3)[3] for line in disk.getvalue().splitlines()]
    three, one = "WARNING 3 log entries could not be written", "WARNING 1 log entry could not be written"
    assert lines == ["INFO line", three, "INFO line", one, "INFO line"]
    disk.close()
    handler.handle(record)


async def test_a_child_process_logs_as_its_worker_does(
    jobs: JobQueue, configure: Callable[..., None], capfd: pytest.CaptureFixture[str]
) -> None:
    configure("json", "info")
    jobs.tasks.add(process_tasks.jobs.tasks.get("writes_a_line"))
    async with working(jobs, target="tests.worker.process_tasks:jobs") as worker:
        handle = await jobs.enqueue("writes_a_line")
        await handle.result(PATIENCE)
    (line,) = (json.loads(line) for line in capfd.readouterr().err.splitlines() if "from a child" in line)
    assert (line["job_id"], line["worker"], line["level"]) == (handle.id, worker.id, "info")


@pytest.mark.parametrize("stderr", ["2>/dev/full", "2>&-"])
async def test_a_service_whose_logs_cannot_be_written_works(tmp_path: Path, stderr: str) -> None:
    """And its exit code is none of an error."""
    (tmp_path / "app.py").write_text(
        "from queue_core import JobQueue, Retry\n"
        "jobs = JobQueue(sqlite='jobs.db')\n"
        "@jobs.task(retry=Retry(max_retries=0))\n"
        "def bad() -> None:\n"
        "    raise ValueError\n"
        "@jobs.task(process=True)\n"
        "def good() -> int:\n"
        "    return 1\n"
    )
    command = f"exec {sys.executable} -m jobconsole worker run app:jobs {stderr}"
    async with JobQueue(sqlite=tmp_path / "jobs.db") as jobs:
        service = await asyncio.create_subprocess_exec(
            *("/bin/sh", "-c", command), cwd=tmp_path, stdin=subprocess.DEVNULL, env={"PYTHONPATH": str(ROOT)}
        )
        try:
            await fail(jobs, "bad", max_retries=0)
            good = await jobs.enqueue("good")
            assert await good.result(PATIENCE) == 1
            service.send_signal(signal.SIGTERM)
            assert await asyncio.wait_for(service.wait(), PATIENCE) == 0
        finally:
            with contextlib.suppress(ProcessLookupError):
                service.kill()
            await service.wait()
