"""A producer under faults: `python -m tests.faults.chaos.producer` enqueues at a steady rate until a file says stop."""

from __future__ import annotations

import asyncio
import os
import random
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from queue_core.errors import QueueCoreError
from tests.faults.chaos.target import FOLDER, jobs, note_tasks, pen

STOP = FOLDER / "stop"
RATE = float(os.environ["CHAOS_RATE"])
"""Jobs a second."""
KEYS, UNIQUE = 20, 3
KINDS = ("lone", "lone", "bulk", "delayed", "ordered", "ordered", "narrow", "unique", "failing")


async def produce() -> None:
    """Enqueue what a real application does: alone and in bulk, delayed, ordered, limited, unique."""
    source = random.Random(f"{os.environ['CHAOS_SEED']} {os.environ['CHAOS_UNIT']}")
    number, due = 0, time.monotonic()
    async with opened():
        while not STOP.exists():
            number += 1
            note_tasks()
            kind = source.choice(KINDS)
            count = 10 if kind == "bulk" else 1
            # What could not be enqueued in time is not made up for.
            due = max(due + count / RATE, time.monotonic() - 1.0)
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            name, count, options, label = choose(kind, count, source)
            tag = f"{label}-{os.getpid()}-{number}"
            payload = {"ms": source.choice([0, 5, 20, 100, 300, 1500])}
            pen.batch(tag, count)
            try:
                if count == 1:
                    handles = [await jobs.enqueue(name, payload, tags=[tag], **options)]
                else:
                    handles = await jobs.enqueue_many(name, [payload] * count, tags=[tag], **options)
            except (QueueCoreError, OSError) as error:
                # Whether it was written is asked at the end.
                complain(error)
                await asyncio.sleep(0.05)
                continue
            pen.write("enqueued", tag, *(handle.id for handle in handles))


@asynccontextmanager
async def opened() -> AsyncIterator[None]:
    """Open the queue object, again while the store is away."""
    while not STOP.exists():
        try:
            await jobs.open()
            break
        except (QueueCoreError, OSError) as error:
            complain(error)
            await asyncio.sleep(0.2)
    try:
        yield
    finally:
        await jobs.close()


def complain(error: Exception) -> None:
    """Log why something was not enqueued."""
    sys.stderr.write(f"{os.getpid()} PRODUCER {type(error).__name__}: {error}\n")


def choose(kind: str, count: int, source: random.Random) -> tuple[str, int, dict[str, Any], str]:
    """Return the type, how many, the options, and what the tag says of them."""
    match kind:
        case "ordered":
            key = source.randrange(KEYS)
            return "work", 1, {"queue": "ordered", "ordering_key": f"{os.getpid()}-{key}"}, f"ordered.{key}"
        case "delayed":
            ms = source.choice([300, 1000, 3000])
            return "work", 1, {"queue": "default", "delay": ms / 1000}, f"delayed.{ms}"
        case "narrow":
            return "work", 1, {"queue": "narrow"}, "narrow"
        case "unique":
            key = source.randrange(UNIQUE)
            return "work", 1, {"queue": "default", "unique": f"{os.getpid()}-{key}"}, f"unique.{key}"
        case "failing":
            return source.choice(["fails_first", "fails_first", "always_fails"]), 1, {"queue": "default"}, "failing"
        case _:
            name = source.choice(["work", "work", "work_in_thread"])
            return name, count, {"queue": "default", "priority": source.randint(0, 9)}, kind


if __name__ == "__main__":
    asyncio.run(produce())
