"""An application of any version: what it uses is public, and has been there since the first schema that is migrated.

`python fleet_app.py` enqueues until a file says stop; workers run `fleet_app:jobs`.
"""

from __future__ import annotations

import asyncio
import json
import os
from contextlib import suppress
from pathlib import Path

from queue_core import JobContext, JobQueue, StoreUnavailable
from queue_core.model.settings import JobsSettings

FOLDER = Path(os.environ["FLEET_FOLDER"])
VERSION = os.environ["FLEET_VERSION"]
jobs = JobQueue(settings=JobsSettings.model_validate(json.loads(os.environ["FLEET_SETTINGS"])))
ledger = os.open(FOLDER / f"{VERSION}-{os.getpid()}.ledger", os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC)


def write(*words: object) -> None:
    """Write a line."""
    os.write(ledger, (" ".join(map(str, words)) + "\n").encode())


@jobs.task(timeout=60)
async def work(ctx: JobContext, ms: float = 0) -> dict[str, object]:
    write("ran", ctx.job_id, ctx.token, VERSION)
    await asyncio.sleep(ms / 1000)
    return {"token": ctx.token, "version": VERSION}


async def produce() -> None:
    number = 0
    async with jobs:
        write("began")
        while not (FOLDER / "stop").exists():
            number += 1
            keys = {"ordering_key": f"{VERSION}-{number % 5}"} if number % 3 == 0 else {}
            # What has no answer is not in the ledger, and may be in the store.
            with suppress(StoreUnavailable):
                handles = await jobs.enqueue_many("work", [{"ms": number % 20}] * 3, tags=[VERSION], **keys)
                write("enqueued", *(handle.id for handle in handles))
            await asyncio.sleep(0.02)


if __name__ == "__main__":
    asyncio.run(produce())
