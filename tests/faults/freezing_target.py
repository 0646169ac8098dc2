"""What runs in the processes that a test freezes: jobs in a queue with ordering keys and in one with a concurrency."""

from __future__ import annotations

import json
import os
from pathlib import Path

from queue_core import JobContext, JobQueue, Retry
from queue_core.model.settings import JobsSettings
from tests.faults.ledger import Pen

FOLDER = Path(os.environ["FREEZING_FOLDER"])
STOP = FOLDER / "stop"
ORDERED, NARROW = "ordered", "narrow"
QUEUES = {
    ORDERED: {"limit": 400},
    # more than one worker can hold, so that what a frozen one holds leaves room
    NARROW: {"limit": 400, "concurrency": 40, "rate": "2000/s"},
}

pen = Pen(FOLDER)
jobs = JobQueue(settings=JobsSettings.model_validate(json.loads(os.environ["FREEZING_SETTINGS"]) | {"queues": QUEUES}))


@jobs.task(retry=Retry(max_retries=10, delay=0.2), timeout=60)
async def work(ctx: JobContext) -> dict[str, int]:
    pen.start(ctx.job_id, ctx.token)
    pen.end(ctx.job_id, ctx.token)
    return {"token": ctx.token}
