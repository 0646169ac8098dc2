"""docs/triage.md: each of its blocks."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from jobconsole.cli.root import parser_of
from queue_core import JobContext, JobQueue, Retry
from queue_core.model.filters import parse
from tests.examples.blocks import blocks, run

PAGE = "triage.md"
COMMON = "## What the jobs of a signature have in common"
BESIDE = "## A failing payload beside one that succeeded"


@pytest.mark.parametrize("line", [line for block in blocks(PAGE, language="sh") for line in block.splitlines()])
def test_a_command_is_understood(line: str) -> None:
    options = parser_of().parse_args(shlex.split(line, comments=True)[1:])
    assert callable(options.run)
    parse(getattr(options, "filter", None) or "")


async def test_the_blocks_of_python(capsys: pytest.CaptureFixture[str]) -> None:
    queue = JobQueue(memory=True)

    @queue.task(retry=Retry(max_retries=0))
    async def send_email(ctx: JobContext, region: str) -> None:
        if region == "eu":
            raise TimeoutError("smtp")

    async with queue.testing() as inside:
        for region in ("eu", "us") * 8:
            await send_email.enqueue(region=region)
        await inside.run_due()
        (group,) = await queue.inspector.signatures(parse("status:dead"), 900, 1, 1)
        names: dict[str, Any] = {"jobs": queue, "job_id": group.sample_id}
        shown = []
        for block in (*blocks(PAGE, COMMON), *blocks(PAGE, BESIDE)):
            await run(block.replace("9f31c2aa04d1", group.signature), names)
            shown.append(capsys.readouterr().out)
    assert shown == ["payload.region eu 1.0 0.0 payload.region=eu\n", '~ region "eu" "us"\n']
