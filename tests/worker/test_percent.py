"""What a handler, or who claims by hand, may report as progress."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from queue_core import InvalidArgument, JobContext, JobQueue
from queue_core.model.validation import check_percent
from tests.waiting import PATIENCE

NO_PERCENT = [float("nan"), float("inf"), float("-inf"), Decimal("NaN"), Decimal("sNaN"), "5", b"5", True, [5], 5j]


@pytest.mark.parametrize("percent", NO_PERCENT, ids=repr)
async def test_what_is_no_number_is_one_error(percent: Any) -> None:
    """In handlers of both kinds, which may go on, and where a job is claimed without a worker."""
    jobs = JobQueue(memory=True)
    refused: list[str] = []

    @jobs.task
    async def report(ctx: JobContext) -> None:
        with pytest.raises(InvalidArgument) as caught:
            await ctx.progress(percent)
        refused.append(str(caught.value))

    @jobs.task
    def report_now(ctx: JobContext) -> None:
        with pytest.raises(InvalidArgument) as caught:
            ctx.progress_now(percent)
        refused.append(str(caught.value))

    async with jobs.testing() as t:
        handles = [await report.enqueue(), await report_now.enqueue()]
        assert await t.run_due() == 2
        assert [await handle.status() for handle in handles] == ["completed"] * 2
    async with jobs:
        await jobs.enqueue("a")
        claimed = await jobs.claim_next(wait=PATIENCE)
        assert claimed is not None
        with pytest.raises(InvalidArgument) as caught:
            await claimed.refresh(progress=percent)
        refused.append(str(caught.value))
    assert refused == [f"progress is a number from 0 to 100, not {percent!r}"] * 3


@pytest.mark.parametrize(
    ("percent", "whole"),
    [(0, 0), (99.9, 99), (-0.5, 0), (-7, 0), (1e9, 100), (10**400, 100), (Decimal("12.7"), 12), (Fraction(29, 2), 14)],
)
def test_the_whole_part_within_the_bounds(percent: Any, whole: int) -> None:
    assert check_percent(percent) == whole
