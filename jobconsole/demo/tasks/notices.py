"""Work on the network: a notice to a web server on this machine, which may not be there."""

from __future__ import annotations

import asyncio

from jobconsole.demo.tasks.app import jobs, recorded
from queue_core import JobContext, Priority, Retry


@jobs.task(queue="notices", priority=Priority.URGENT, timeout=10, retry=Retry(max_retries=2, delay=1, backoff=2.0))
@recorded
async def notify(ctx: JobContext, port: int, subject: str) -> dict[str, str]:
    """Tell the web server on 127.0.0.1 about something; any answer of it will do."""
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
