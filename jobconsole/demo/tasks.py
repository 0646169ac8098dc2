"""The work of the demo, by kind: `jobconsole worker run jobconsole.demo.tasks:jobs` runs it.

Nothing here is simulated: every job reads files of this machine, and every failure is one of Python or the kernel.
"""

from __future__ import annotations

import ast
import asyncio
import bz2
import csv
import hashlib
import importlib.util
import inspect
import io
import json
import logging
import lzma
import marshal
import signal
import sys
import threading
import tokenize
from asyncio.subprocess import DEVNULL, PIPE
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email.parser import BytesParser
from functools import cache, wraps
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar, cast

from jobconsole.demo import packer
from jobconsole.demo.ledger import LedgerWriter
from jobconsole.demo.material import draw, files_below, here
from jobconsole.demo.orders import receipt
from queue_core import JobContext, JobQueue, Priority, Retry
from queue_core.errors import StaleLease

Handler = TypeVar("Handler", bound=Callable[..., Any])


jobs = JobQueue.from_settings()


@cache
def ledger() -> LedgerWriter:
    """Return this process's ledger."""
    return LedgerWriter(here().ledger)


def recorded(handler: Handler) -> Handler:
    """Write each start and each end of a handler into the ledger; its first argument is the context."""
    if inspect.iscoroutinefunction(handler):

        @wraps(handler)
        async def run_async(ctx: JobContext, *args: Any, **kwargs: Any) -> Any:
            with _attempt(ctx):
                return await handler(ctx, *args, **kwargs)

        return cast(Handler, run_async)

    @wraps(handler)
    def run(ctx: JobContext, *args: Any, **kwargs: Any) -> Any:
        with _attempt(ctx):
            return handler(ctx, *args, **kwargs)

    return cast(Handler, run)


class _Refusals(logging.Handler):
    """Notes the writes that the store has refused: the worker logs each with its error."""

    def emit(self, record: logging.LogRecord) -> None:
        """Take one record of the worker's log."""
        for argument in record.args if isinstance(record.args, tuple) else ():
            if isinstance(argument, StaleLease):
                ledger().refused(argument.job_id, argument.token)


logging.getLogger("queue_core.worker").addHandler(_Refusals())


@contextmanager
def _attempt(ctx: JobContext) -> Iterator[None]:
    ledger().start(ctx.job_id, ctx.token, ctx.worker)
    try:
        yield
    except BaseException as problem:
        ledger().fail(ctx.job_id, ctx.token, type(problem).__qualname__)
        raise
    ledger().end(ctx.job_id, ctx.token)


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


_parsing = threading.Lock()
"""Python counts the depth of what it converts for all threads together, and refuses what another one has counted in
(github.com/python/cpython/issues/106905)."""


def parsed(path: str) -> ast.Module:
    """Return a module's syntax tree."""
    text = Path(path).read_bytes()
    with _parsing:
        return ast.parse(text, filename=path)


@jobs.task(queue="code", priority=Priority.NORMAL, retry=Retry(max_retries=2, delay=1, never=(SyntaxError,)))
@recorded
def parse_module(ctx: JobContext, path: str) -> dict[str, Any]:
    """Count what a module defines; one that does not parse is not tried again."""
    kinds = Counter(type(node).__name__ for node in ast.walk(parsed(path)))
    return {"classes": kinds["ClassDef"], "functions": kinds["FunctionDef"] + kinds["AsyncFunctionDef"]}


@jobs.task(queue="code", priority=Priority.LOW)
@recorded
def tokenise_module(ctx: JobContext, path: str) -> dict[str, int]:
    """Count the tokens of a module by kind."""
    tokens = tokenize.tokenize(io.BytesIO(Path(path).read_bytes()).readline)
    return dict(Counter(tokenize.tok_name[token.type] for token in tokens))


@jobs.task(queue="code", priority=7)
@recorded
def compile_module(ctx: JobContext, path: str) -> dict[str, int]:
    """Compile a module to bytecode without running it."""
    source = Path(path).read_bytes()
    return {"source": len(source), "bytecode": len(marshal.dumps(compile(source, path, "exec", dont_inherit=True)))}


@jobs.task(queue="documents", priority=Priority.HIGH, retry=Retry(max_retries=1, delay=1))
@recorded
def read_document(ctx: JobContext, path: str) -> dict[str, Any]:
    """Read a JSON document and count what is in it."""
    document = json.loads(Path(path).read_text(encoding="utf-8"))
    return {"kind": type(document).__name__, "entries": len(document) if isinstance(document, dict | list) else 1}


@jobs.task(queue="documents", priority=Priority.NORMAL)
@recorded
def read_records(ctx: JobContext, path: str) -> dict[str, int]:
    """Read a table of comma-separated values and count its rows."""
    with Path(path).open(newline="", encoding="utf-8") as table:
        return {"rows": sum(1 for _ in csv.reader(table))}


@jobs.task(queue="documents", priority=Priority.LOW)
@recorded
def read_metadata(ctx: JobContext, path: str) -> dict[str, int]:
    """Read headers and text in the format of mail."""
    with Path(path).open("rb") as file:
        message = BytesParser().parse(file)
    return {"headers": len(message.keys()), "text": len(str(message.get_payload()))}


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


@jobs.task(queue="notices", priority=Priority.URGENT, timeout=10, retry=Retry(max_retries=2, delay=1, backoff=2.0))
@recorded
async def notify(ctx: JobContext, port: int, subject: str) -> dict[str, str]:
    """Notify the web server on 127.0.0.1 of a subject; any answer will do."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(f"HEAD / HTTP/1.0\r\nHost: 127.0.0.1\r\nX-Job: {ctx.job_id}\r\n\r\n".encode())
        await writer.drain()
        answer = (await reader.readline()).decode("latin-1").strip()
    finally:
        writer.close()
    if not answer.startswith("HTTP/"):
        raise ConnectionError(f"port {port} does not speak HTTP")
    return {"subject": subject, "answer": answer}


@jobs.task(queue="orders", priority=Priority.HIGH, retry=Retry(max_retries=1, delay=1))
@recorded
def write_receipt(
    ctx: JobContext,
    number: str,
    region: str,
    currency: str,
    language: str,
    customer: dict[str, str],
    address: dict[str, str],
    lines: list[dict[str, Any]],
) -> dict[str, str]:
    """Write the receipt of an order, with the tax of its address as this release knows it."""
    text, total = receipt(jobs.settings.release, number, currency, address, lines)
    # One of a hundred names, so that the folder stays bounded.
    (here().receipts / f"{number[-2:]}.txt").write_text(text, encoding="utf-8")
    return {"receipt": number, "total": f"{total} {currency}"}


if importlib.util.find_spec("PIL"):  # without the extra `demo` there is no Pillow, and no work on pictures

    @jobs.task(queue="pictures", priority=Priority.HIGH, retry=Retry(max_retries=1, delay=2))
    @recorded
    def thumbnail(ctx: JobContext, path: str, width: int = 96) -> dict[str, int]:
        """Make a small copy of a picture."""
        from PIL import Image

        with Image.open(path) as picture:
            small = picture.convert("RGB")
            small.thumbnail((width, width))
            small.save(_target("thumbnail", path, str(width)))
            return {"from": picture.width * picture.height, "to": small.width * small.height}

    @jobs.task(queue="pictures", priority=Priority.LOW)
    @recorded
    def draw_file(ctx: JobContext, path: str, width: int = 128) -> dict[str, int]:
        """Draw the bytes of a file as a picture."""
        content = Path(path).read_bytes()
        picture = draw(content, width)
        _target("drawing", path, str(width)).write_bytes(picture)
        return {"bytes": len(content), "picture": len(picture)}

    def _target(*words: str) -> Path:
        """Return one of some thousand names, so that the folder stays bounded."""
        return here().pictures / f"{words[0]}-{sha256(' '.join(words).encode()).hexdigest()[:3]}.png"
