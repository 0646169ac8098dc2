"""Every failing kind of the demo really fails, and the others really work."""

import asyncio
import gc
import os
import threading
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from jobconsole.demo.ledger import read_ledger
from jobconsole.demo.material import FOLDER_VARIABLE, Folder, closed_port, find_material, prepare
from jobconsole.demo.producer import RECEIPTS, LoadPlan
from queue_core import JobQueue, Worker


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Folder]:
    """The demo's folder, with its tasks on a queue in memory."""
    folder = prepare(tmp_path)
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    monkeypatch.setenv("JOBS_CONFIG", os.devnull)
    monkeypatch.setenv("JOBS__QUEUE_BACKEND", "memory")
    yield folder
    import_module("jobconsole.demo.tasks").ledger.cache_clear()


async def drained(jobs: JobQueue, worker: Worker) -> None:
    """Run the worker until nothing is left to do."""
    running = asyncio.create_task(worker.run())
    async for batch in jobs.bus.subscribe():
        ended = batch.gap or any(event.event in {"completed", "dead"} for event in batch.events)
        if ended and not (await jobs.inspector.conservation()).unfinished:
            break
    worker.stop()
    await running


async def test_a_wave_works_and_fails_as_it_should(folder: Folder) -> None:
    jobs: JobQueue = import_module("jobconsole.demo.tasks").jobs
    plan = LoadPlan(find_material(folder.good / folder.document.name), folder, closed_port())
    worker = Worker(jobs, concurrency=8)
    async with jobs:
        for order in (*plan.wave(60), *plan.trickle()):
            await jobs.enqueue_many(order.type, order.payloads)
        await drained(jobs, worker)

        counts = await jobs.inspector.conservation()
        tallies = Counter({(tally.type, tally.outcome): tally.count for tally in await jobs.inspector.tallies()})
    dead = {type_ for type_, outcome in tallies if outcome == "dead"}
    assert dead == {
        "parse_module",
        "read_document",
        "count_words",
        "thumbnail",
        "notify",
        "pack_folder",
        "archive_quickly",
    }
    assert counts.dead == 8
    assert tallies["archive_quickly", "timed_out"] == 1
    assert tallies["pack_folder", "completed"] == 1
    assert tallies["write_receipt", "completed"] == RECEIPTS
    assert counts.completed > 60

    ledger = read_ledger(folder.ledger)
    assert len(ledger.starts) == counts.completed + counts.dead
    assert len(ledger.ends) == counts.completed
    assert {"SyntaxError", "JSONDecodeError", "UnicodeDecodeError", "ConnectionRefusedError", "PackerDied"} <= set(
        ledger.failures
    )


def test_modules_are_parsed_at_once(folder: Folder) -> None:
    """The collector lets another thread go on in the midst of a conversion, which the interpreter then refused."""
    tasks = import_module("jobconsole.demo.tasks")
    turns = [(threading.Event(), threading.Event()) for _ in range(20)]
    waiting = list(turns)

    def parse_too(turn: threading.Event, parsed: threading.Event) -> None:
        turn.wait()
        tasks.parsed(__file__)
        parsed.set()

    def give_turn(phase: str, info: dict[str, int]) -> None:
        if phase == "start" and waiting:
            turn, parsed = waiting.pop()
            turn.set()
            parsed.wait(0.05)

    # Running before: a collection may come while a lock is held that the start of a thread needs.
    others = [threading.Thread(target=parse_too, args=turn) for turn in turns]
    for other in others:
        other.start()
    enabled, kept = gc.isenabled(), gc.get_threshold()
    gc.enable()  # a command that ran in this process turns it off
    gc.freeze()  # what other tests have left is not collected each time
    gc.callbacks.append(give_turn)
    gc.set_threshold(500, 5, 5)
    try:
        while waiting:
            assert tasks.parsed(tasks.__file__).body
    finally:
        gc.callbacks.remove(give_turn)
        gc.set_threshold(*kept)
        gc.unfreeze()
        if not enabled:
            gc.disable()
        for turn, _ in turns:
            turn.set()
    for other in others:
        other.join()
