"""One role of one peer in a process of its own: prepare, single, fill, latency, watch or work; answers are JSON.

Every peer's module has CONFIGS (settings of its worker worth trying), `prepare` (make the tables), `Client` (open, one,
many, left, close) and `work` (run a worker until SIGTERM), and notes each run in `recorder`.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import json
import logging
import os
import time
from pathlib import Path
from typing import Any

import uvloop

from jobconsole.bench.record import payload

BULK = 1000
GAP_SECONDS = 0.02
WARM_SECONDS = 1.0
STEP_SECONDS = 0.01

Answer = dict[str, Any]


async def prepare(peer: Any, options: argparse.Namespace) -> Answer:
    """Make the tables and return the settings worth trying."""
    await peer.prepare()
    return {"configs": peer.CONFIGS}


async def single(client: Any, options: argparse.Namespace) -> Answer:
    """Enqueue one by one for some seconds; the first one only warms up."""
    payloads = [payload(number) for number in range(options.jobs)]
    await client.one(payloads[0])
    start, done = time.perf_counter(), 0
    while done < options.jobs and time.perf_counter() - start < options.seconds:
        await client.one(payloads[done])
        done += 1
    return {"single": done / (time.perf_counter() - start)}


async def fill(client: Any, options: argparse.Namespace) -> Answer:
    """Enqueue in lists; the first list has one job and only warms up."""
    payloads = [payload(number) for number in range(options.jobs)]
    await client.many(payloads[:1])
    lists = [payloads[first : first + BULK] for first in range(1, len(payloads), BULK)]
    start = time.perf_counter()
    for each in lists:
        await client.many(each)
    return {"bulk": (len(payloads) - 1) / (time.perf_counter() - start)}


async def latency(client: Any, options: argparse.Namespace) -> Answer:
    """Enqueue jobs that report when; the first one only warms up."""
    await client.one(payload(0))
    await asyncio.sleep(WARM_SECONDS)
    for number in range(1, options.jobs):
        await asyncio.sleep(GAP_SECONDS)
        await client.one(payload(number, time.time()))
    return {}


async def watch(client: Any, options: argparse.Namespace) -> Answer:
    """Return when the store first showed every job as finished, in seconds since the epoch."""
    (options.folder / "watching").touch()
    seen = options.folder / "seen"
    while b"\0" in seen.read_bytes():  # noqa: ASYNC110 - workers in other processes write it
        await asyncio.sleep(STEP_SECONDS)
    while await client.left():  # noqa: ASYNC110 - the store is asked
        await asyncio.sleep(STEP_SECONDS)
    return {"ended": time.time()}


async def play(peer: Any, role: Any, options: argparse.Namespace) -> Answer:
    """Play one of the roles that a connected client has."""
    client = peer.Client()
    await client.open()
    try:
        answer: Answer = await role(client, options)
    finally:
        await client.close()
    return answer


def work(peer: Any, options: argparse.Namespace) -> None:
    """Run a worker; it begins with all others, when the file "go" is there."""
    peer.recorder.open(options.folder)
    (options.folder / f"{os.getpid()}.ready").touch()
    while not (options.folder / "go").exists():
        time.sleep(0.002)
    peer.work(options.config)


CONNECTED = {"single": single, "fill": fill, "latency": latency, "watch": watch}


def main() -> None:
    """Play the role."""
    parser = argparse.ArgumentParser()
    parser.add_argument("peer")
    parser.add_argument("role", choices=("prepare", "work", *CONNECTED))
    parser.add_argument("--jobs", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=0.0)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--config", type=json.loads, default={})
    options = parser.parse_args()
    logging.basicConfig(level=logging.ERROR)
    peer = importlib.import_module(f"{options.peer}_peer")
    if options.role == "work":
        work(peer, options)
        return
    if options.role == "prepare":
        answer = uvloop.run(prepare(peer, options))
    else:
        answer = uvloop.run(play(peer, CONNECTED[options.role], options))
    print(json.dumps(answer), flush=True)
    # Not by way of the interpreter's end: a peer's threads may hold it up.
    os._exit(0)


if __name__ == "__main__":
    main()
