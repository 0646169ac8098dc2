"""A producer that a test freezes: `python -m tests.faults.freezing_producer` enqueues until a file says stop."""

from __future__ import annotations

import asyncio
import os
import random
from contextlib import suppress

from queue_core.errors import QueueFull, StoreUnavailable
from tests.faults.freezing_target import NARROW, ORDERED, STOP, jobs, pen

KEYS = 200
"""So many that what a frozen worker runs holds few of them."""


async def produce() -> None:
    number = 0
    async with jobs:
        while not STOP.exists():
            number += 1
            for queue, key in ((ORDERED, f"key-{random.randrange(KEYS)}"), (NARROW, None)):
                tag = f"{queue}-{os.getpid()}-{number}"
                pen.batch(tag, 4)
                # What the store did not answer stays open: it was written as a whole, or not at all.
                with suppress(QueueFull, StoreUnavailable):
                    handles = await jobs.enqueue_many("work", [{}] * 4, queue=queue, ordering_key=key, tags=[tag])
                    pen.write("enqueued", tag, *(handle.id for handle in handles))
                    continue
                await asyncio.sleep(0.02)


if __name__ == "__main__":
    asyncio.run(produce())
