"""A program that carries out an operation and notes what it changed: `python -m tests.sqlite.executor NUMBER MOST`."""

from __future__ import annotations

import asyncio
import os
import sys

from queue_core.model.settings import SqliteSettings
from queue_core.stores.sqlite.operations import SqliteOperations
from queue_core.stores.sqlite.session import SqliteFile
from tests.sqlite.app import FILE, note


async def execute(number: int, most: int) -> None:
    """Take steps until the operation has ended, leaving the lock to others in between."""
    file = SqliteFile(SqliteSettings(path=os.environ[FILE], timeout=60.0))
    operations = SqliteOperations(file)
    while not (step := await operations.step(number, most)).operation.ended:
        note(event="step", pid=os.getpid(), ids=step.changed.ids)
        await asyncio.sleep(0.002)
    note(event="step", pid=os.getpid(), ids=step.changed.ids)
    await file.close()


if __name__ == "__main__":
    asyncio.run(execute(int(sys.argv[1]), int(sys.argv[2])))
