"""Long work: archives of whole folders, one with a time limit that is too short, one with a quota that is too small."""

from __future__ import annotations

import asyncio
import lzma
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE
from pathlib import Path

from jobconsole.demo import packer
from jobconsole.demo.folder import here
from jobconsole.demo.material import files_below
from jobconsole.demo.tasks.app import jobs, recorded
from queue_core import JobContext, Priority, Retry

PRESET = 4
"""Of xz: slow enough to watch, and no more than 50 MB of memory."""
PART = 256 * 1024
"""Bytes compressed at a time: some tens of milliseconds."""


class PackerDied(Exception):
    """The packer's process was ended by a signal."""


@jobs.task(queue="archives", priority=Priority.LOW, timeout=300)
@recorded
async def archive_folder(ctx: JobContext, folder: str) -> dict[str, int]:
    """Compress a folder strongly, with progress."""
    return await _archive(ctx, Path(folder))


@jobs.task(queue="archives", priority=Priority.NORMAL, timeout=2, retry=Retry(max_retries=0))
@recorded
async def archive_quickly(ctx: JobContext, folder: str) -> dict[str, int]:
    """Compress a folder within two seconds, or not at all."""
    return await _archive(ctx, Path(folder))


async def _archive(ctx: JobContext, folder: Path) -> dict[str, int]:
    compressor = lzma.LZMACompressor(preset=PRESET)
    paths = await asyncio.to_thread(files_below, folder)
    read = packed = 0
    for number, path in enumerate(paths):
        content = await asyncio.to_thread(path.read_bytes)
        # In parts: a thread cannot be stopped, so no step may take long.
        for start in range(0, len(content), PART):
            packed += len(await asyncio.to_thread(compressor.compress, content[start : start + PART]))
        read += len(content)
        await ctx.progress(100 * number // len(paths), f"{path.name}, {read // 1024:,} KiB")
    return {"files": len(paths), "bytes": read, "packed": packed + len(compressor.flush())}


@jobs.task(queue="archives", priority=Priority.HIGH, timeout=60, retry=Retry(max_retries=1, delay=1))
@recorded
async def pack_folder(ctx: JobContext, folder: str, quota: int) -> dict[str, int]:
    """Pack a folder into one file of at most `quota` bytes, in a process of its own that the kernel holds to it."""
    target = here().root / f"{ctx.job_id}-{ctx.token}.tar"
    command = (sys.executable, "-I", "-S", packer.__file__, folder, str(target), str(quota))
    process = await asyncio.create_subprocess_exec(*command, stdin=DEVNULL, stdout=DEVNULL, stderr=PIPE)
    try:
        _, words = await process.communicate()
        if process.returncode:
            raise PackerDied(_why(process.returncode, quota, words))
        return {"bytes": target.stat().st_size}
    finally:
        if process.returncode is None:
            process.kill()
        target.unlink(missing_ok=True)


def _why(code: int, quota: int, words: bytes) -> str:
    if code < 0:
        return f"the packer was killed by {signal.Signals(-code).name}: its quota is {quota:,} bytes"
    return f"the packer ended with {code}: {words.decode(errors='replace').strip()[-200:]}"
