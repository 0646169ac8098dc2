"""Work on files of any kind."""

from __future__ import annotations

import asyncio
import bz2
import hashlib
from pathlib import Path
from typing import Any

from jobconsole.demo.material import files_below
from jobconsole.demo.tasks.app import jobs, recorded
from queue_core import JobContext, Priority, Retry


@jobs.task(queue="files", priority=Priority.NORMAL)
@recorded
def compress_file(ctx: JobContext, path: str) -> dict[str, int]:
    """Measure how small a file becomes."""
    content = Path(path).read_bytes()
    return {"bytes": len(content), "packed": len(bz2.compress(content))}


@jobs.task(queue="files", priority=Priority.LOW, retry=Retry(max_retries=1, delay=1))
@recorded
def count_words(ctx: JobContext, path: str) -> dict[str, int]:
    """Count lines and words of a text; what is no UTF-8 is no text."""
    text = Path(path).read_text(encoding="utf-8")
    return {"lines": text.count("\n"), "words": len(text.split())}


@jobs.task(queue="files", priority=Priority.HIGH, timeout=120)
@recorded
async def hash_folder(ctx: JobContext, folder: str) -> dict[str, Any]:
    """Hash every file of a folder, one after the other, with progress."""
    digest = hashlib.sha256()
    paths = await asyncio.to_thread(files_below, Path(folder))
    for number, path in enumerate(paths):
        digest.update(await asyncio.to_thread(path.read_bytes))
        await ctx.progress(100 * number // len(paths), path.name)
    return {"files": len(paths), "sha256": digest.hexdigest()}
