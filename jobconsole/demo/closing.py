"""The end of a run: the producer stops, the workers drain, and everything is added up."""

from __future__ import annotations

import asyncio
import time
from collections import Counter

from jobconsole.demo.audit import compare
from jobconsole.demo.ledger import read_ledger
from jobconsole.demo.metrics import agree, expected, scraped
from jobconsole.demo.producer import TAG
from jobconsole.demo.stage import Stage
from jobconsole.demo.summary import Summary, Tail, summarise
from jobconsole.demo.voice import Voice
from queue_core import JobQueue
from queue_core.filters import Filter, Term
from queue_core.inspection import Inspector

PRODUCER_SECONDS = 10.0
DRAIN_SECONDS = 20.0
"""How long the workers may take to end what they run; what is left then goes on counting as unfinished."""
MOST_FAILURES = 50


async def sum_up(stage: Stage, jobs: JobQueue, voice: Voice, started: float) -> Summary:
    """End producer and workers, then compare ledger, SQL and metrics."""
    await stage.fleet.end(stage.producer, PRODUCER_SECONDS)
    seconds = time.monotonic() - started
    voice.say("the producer has stopped; the workers end what they run")
    if not await stage.fleet.end(stage.workers, DRAIN_SECONDS):
        voice.say(f"the workers did not end within {DRAIN_SECONDS:g} s and were killed")
    ledger = await asyncio.to_thread(read_ledger, stage.folder.ledger)
    findings = await compare(ledger, jobs.store, jobs.inspector, TAG)
    counts = await jobs.inspector.conservation()
    metrics = await asyncio.to_thread(scraped, stage.exporter.url)
    sums = await expected(jobs.inspector)
    tail = Tail(
        crashed=int(sums["job_leases_expired_total"]),
        failures=await _failures(jobs.inspector),
        metrics_agree=None if metrics is None else agree(metrics, sums),
        seconds=seconds,
    )
    return summarise(findings, counts, tail)


async def _failures(inspector: Inspector) -> dict[str, int]:
    """Return dead jobs by the name of their exception, most first."""
    dead = Filter((Term("status", "=", "dead"),))
    counts: Counter[str] = Counter()
    for group in await inspector.signatures(dead, 3600.0, 1, MOST_FAILURES):
        counts[group.title.partition(":")[0]] += group.count
    return dict(counts.most_common())
