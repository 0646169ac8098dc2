"""docs/logs.md: each of its blocks, with a worker whose job fails and whose handler logs."""

from __future__ import annotations

import json
import logging
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from jobconsole.cli.root import parser_of
from jobconsole.cli.session import start_log
from queue_core import JobFailed, JobQueue, Retry
from queue_core.errors import ConfigurationError
from tests.conformance.working import PATIENCE, working

PAGE = (Path(__file__).parents[2] / "docs" / "logs.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


@pytest.fixture(autouse=True)
def _root(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])  # pytest's own would be closed
    level, driver = root.level, logging.getLogger("psycopg").level
    yield
    root.setLevel(level)
    logging.getLogger("psycopg").setLevel(driver)
    structlog.reset_defaults()


async def run_jobs() -> str:
    """Run a job that logs and fails, and return its id."""
    async with JobQueue(memory=True) as jobs:

        @jobs.task(queue="images", retry=Retry(max_retries=0))
        def thumbnail() -> None:
            logging.getLogger("app").warning("decoded")
            structlog.get_logger("app").warning("resized", width=200)
            raise ValueError("no image")

        async with working(jobs):
            handle = await thumbnail.enqueue()
            with pytest.raises(JobFailed):
                await handle.result(PATIENCE)
        return handle.id


async def test_ids_in_a_format(capsys: pytest.CaptureFixture[str]) -> None:
    exec(blocks("python")[0], {})
    job_id = await run_jobs()
    logging.getLogger("app").warning("elsewhere")
    lines = capsys.readouterr().err.splitlines()
    assert f"WARNING decoded job={job_id}" in lines
    assert "WARNING elsewhere job=-" in lines
    death = f"ERROR job {job_id}: attempt 1 of thumbnail on queue images failed, dead: ValueError: no image"
    assert f"{death} job={job_id}" in lines


async def test_structlog(capsys: pytest.CaptureFixture[str]) -> None:
    exec(blocks("python")[1], {})
    job_id = await run_jobs()
    entries = {entry["event"].split(":")[0]: entry for entry in map(json.loads, capsys.readouterr().err.splitlines())}
    for event in ("decoded", "resized", f"job {job_id}"):
        entry = entries[event]
        assert (entry["job_id"], entry["job_type"], entry["queue"]) == (job_id, "thumbnail", "images")
        assert (entry["attempt"], bool(entry["worker"])) == (1, True)
    assert entries["resized"]["width"] == 200
    assert entries[f"job {job_id}"]["traceback"].endswith("ValueError: no image")


def test_structlog_keeps_tracebacks_of_handlers(capsys: pytest.CaptureFixture[str]) -> None:
    exec(blocks("python")[1], {})
    for log in (structlog.get_logger("app"), logging.getLogger("app")):
        try:
            raise ValueError("no image")
        except ValueError:
            log.exception("caught")
        entry = json.loads(capsys.readouterr().err)
        assert entry["exception"].startswith("Traceback")
        assert entry["exception"].endswith("ValueError: no image")


def test_in_worker_run_each_line_is_there_once(capsys: pytest.CaptureFixture[str]) -> None:
    start_log(parser_of().parse_args(["exporter"]))
    for block in blocks("python"):
        exec(block, {})
        logging.getLogger("app").info("once")
        assert capsys.readouterr().err.count("once") == 1


async def test_json_entries(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    (line,) = blocks("sh")
    options = parser_of().parse_args(shlex.split(line)[1:])
    assert start_log(options) == ("json", "warning")
    job_id = await run_jobs()
    written = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    (shown,) = (json.loads(block) for block in blocks("json"))
    (entry,) = (entry for entry in written if entry["message"] == "decoded")
    assert entry.keys() == shown.keys()
    assert entry["job_id"] == job_id


def test_variables_give_the_form(monkeypatch: pytest.MonkeyPatch) -> None:
    options = parser_of().parse_args(["exporter", "--log-format", "text"])
    monkeypatch.setenv("JOBCONSOLE_LOG_FORMAT", "json")
    monkeypatch.setenv("JOBCONSOLE_LOG_LEVEL", "ERROR")
    assert start_log(options) == ("text", "error")
    monkeypatch.setenv("JOBCONSOLE_LOG_LEVEL", "loud")
    with pytest.raises(ConfigurationError, match=r"^JOBCONSOLE_LOG_LEVEL cannot be 'loud'; one of: debug, info, "):
        start_log(options)
