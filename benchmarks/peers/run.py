"""One role of one peer in a process of its own: prepare, enqueue, latency or work. Answers are JSON on stdout."""

from __future__ import annotations

import argparse
import asyncio
import importlib
import json
import logging
import time
from pathlib import Path
from typing import Any

import uvloop

from jobconsole.bench.measure import payload

BULK = 500
GAP_SECONDS = 0.02
SINGLE_SECONDS = 3.0


async def enqueue(peer: Any, jobs: int) -> dict[str, float]:
    """Enqueue a tenth one by one and the rest in bulk, and return the rates."""
    producer = peer.Producer()
    await producer.open()
    payloads = [payload(number) for number in range(jobs)]
    start, done = time.perf_counter(), 0
    while done < max(1, jobs // 10) and time.perf_counter() - start < SINGLE_SECONDS:
        await producer.one(payloads[done])
        done += 1
    single = done / (time.perf_counter() - start)
    start = time.perf_counter()
    for first in range(done, jobs, BULK):
        await producer.many(payloads[first : first + BULK])
    bulk = (jobs - done) / (time.perf_counter() - start)
    await producer.close()
    return {"single": single, "bulk": bulk}


async def latency(peer: Any, jobs: int) -> dict[str, float]:
    """Enqueue jobs that report when; the first one only warms up."""
    producer = peer.Producer()
    await producer.open()
    await producer.one(payload(0))
    await asyncio.sleep(1.0)
    for number in range(1, jobs):
        await asyncio.sleep(GAP_SECONDS)
        await producer.one(payload(number, time.time()))
    await producer.close()
    return {}


def main() -> None:
    """Play the role."""
    parser = argparse.ArgumentParser()
    parser.add_argument("peer")
    parser.add_argument("role", choices=("prepare", "enqueue", "latency", "work"))
    parser.add_argument("--jobs", type=int, default=0)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--config", type=json.loads, default={})
    options = parser.parse_args()
    logging.basicConfig(level=logging.ERROR)
    peer = importlib.import_module(f"{options.peer}_peer")
    if options.role == "work":
        peer.recorder.open(options.folder)
        peer.work(options.config)
    elif options.role == "prepare":
        uvloop.run(peer.prepare())
        print(json.dumps(peer.CONFIGS))
    else:
        role = enqueue if options.role == "enqueue" else latency
        print(json.dumps(uvloop.run(role(peer, options.jobs))))


if __name__ == "__main__":
    main()
