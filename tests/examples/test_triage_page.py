"""docs/triage.md: each of its blocks."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest

from jobconsole.cli.root import parser_of
from queue_core import JobContext, JobQueue, Retry
from queue_core.configuration import load
from queue_core.model.filters import parse, with_saved
from queue_core.model.triage.rules import runbook_in
from tests.examples.blocks import blocks, run

PAGE = "triage.md"
RULES = "## Runbooks, and rules for owners and links"
COMMON = "## What the jobs of a signature have in common"
BESIDE = "## A failing payload beside one that succeeded"
NAMED = "## Filters by name"
WHOSE = "## Whose, in which state, and with which text"


@pytest.mark.parametrize("line", [line for block in blocks(PAGE, language="sh") for line in block.splitlines()])
def test_a_command_is_understood(line: str) -> None:
    options = parser_of().parse_args(shlex.split(line, comments=True)[1:])
    assert callable(options.run)
    parse(with_saved(getattr(options, "filter", None) or "", {"mine": "owner:me state:new"}))


async def test_the_blocks_of_python(capsys: pytest.CaptureFixture[str]) -> None:
    queue = JobQueue(memory=True)

    @queue.task(retry=Retry(max_retries=0))
    async def send_email(ctx: JobContext, region: str) -> None:
        if region == "eu":
            raise TimeoutError("smtp: timeout")

    async with queue.testing() as inside:
        for region in ("eu", "us") * 8:
            await send_email.enqueue(region=region)
        await inside.run_due()
        (group,) = await queue.inspector.signatures(parse("status:dead"), 900, 1, 1)
        names: dict[str, Any] = {"jobs": queue, "job_id": group.sample_id}
        shown = []
        for block in (*blocks(PAGE, COMMON), *blocks(PAGE, BESIDE), *blocks(PAGE, WHOSE), *blocks(PAGE, NAMED)):
            await run(block.replace("9f31c2aa04d1", group.signature), names)
            shown.append(capsys.readouterr().out)
    assert shown == [
        "payload.region eu 1.0 0.0 payload.region=eu\n",
        '~ region "eu" "us"\n',
        f"{['send_email'] * 8}\n",
        "[('mine', 'owner:me state:new')]\n",
    ]


async def test_the_blocks_about_rules(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (rules,) = blocks(PAGE, RULES, "yaml")
    path = tmp_path / "jobs.yaml"
    path.write_text(rules + "  queue_backend: memory\n")
    queue = JobQueue(settings=load(path=path, environ={}).settings)
    names: dict[str, Any] = {"jobs": queue}
    define, read = blocks(PAGE, RULES)
    await run(define, names)
    async with queue:
        await queue.store.register_types(queue.tasks.schemas())
        assert runbook_in((await queue.inspector.types())["send_email"].schema) == "https://run.example.org/smtp"
        await names["send_email"].enqueue("eu")
        job = await queue.claim_next(wait=10.0)
        assert job is not None
        await job.fail(TimeoutError("smtp"), retry=False)
        (group,) = await queue.inspector.signatures(parse("status:dead"), 900, 1, 1)
        await run(read.replace("9f31c2aa04d1", group.signature), names)
    assert capsys.readouterr().out == (
        "team mail https://run.example.org/mail Ruled(value='https://run.example.org/mail', by='type send_email')\n"
    )
