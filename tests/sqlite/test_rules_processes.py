"""Rules of queues under several processes on one file: exact whoever is at it, and whoever is killed."""

from __future__ import annotations

import signal
import subprocess
from collections import Counter, defaultdict
from functools import partial
from pathlib import Path
from typing import Any

from queue_core.worker.options import ServiceOptions
from tests.sqlite.processes import PATIENCE, Spawn, entries, number, wait_until
from tests.sqlite.ruled_app import CONCURRENCY, HIGH_LIMIT, KEYS, LIMIT

PRODUCERS = 3
UNIQUE = 150
ORDERED = 30
BUSY = 60
OPTIONS = ServiceOptions(concurrency=6, lease=5.0, heartbeat=0.5, grace=10.0)


def produce(spawn: Spawn, work: str, count: int, producers: int = PRODUCERS) -> None:
    """Run producers at once to their end."""
    running = [producer(spawn, work, f"producer-{n}", count, producers) for n in range(producers)]
    assert [one.wait(PATIENCE) for one in running] == [0] * producers


def producer(spawn: Spawn, work: str, name: str, count: int, producers: int = 1) -> subprocess.Popen[bytes]:
    return spawn("tests.sqlite.ruled_app", work, name, str(count), str(producers))


def noted(path: Path) -> list[dict[str, Any]]:
    return [entry for entry in entries(path) if entry["event"] != "ready"]


def worker(spawn: Spawn) -> subprocess.Popen[bytes]:
    return spawn("queue_core.worker.process", "tests.sqlite.ruled_app:jobs", OPTIONS.to_json())


def at_hand(path: Path, spawn: Spawn, count: int) -> list[subprocess.Popen[bytes]]:
    """Start workers; on a busy machine the first of them could do all of the work before the last one is there."""
    workers = [worker(spawn) for _ in range(count)]
    query = "select count(*) from workers"
    wait_until(lambda: number(path, query) == count, "not all workers have announced themselves")
    return workers


def wait_for_end(path: Path, count: int) -> None:
    query = "select count(*) from job_list where status = 'completed'"
    wait_until(lambda: number(path, query) >= count, "not all jobs have completed")


def stop(*workers: subprocess.Popen[bytes]) -> None:
    for one in workers:
        one.send_signal(signal.SIGTERM)
    assert [one.wait(PATIENCE) for one in workers] == [0] * len(workers)


def test_a_limit_is_exact_under_producers_at_once(path: Path, spawn: Spawn) -> None:
    produce(spawn, "fill", 10_000)
    written: Counter[int] = Counter()
    for entry in noted(path):
        written[entry["priority"]] += entry["size"]
    # Each was refused single jobs of either band at its end, so there was room for none.
    assert written == {10: HIGH_LIMIT, 5: LIMIT - HIGH_LIMIT}
    assert number(path, "select count(*) from job_list where queue = 'narrow'") == LIMIT


def test_a_unique_job_is_written_once_whoever_enqueues_it(path: Path, spawn: Spawn) -> None:
    produce(spawn, "unique", UNIQUE)
    found = noted(path)
    ids: dict[int, set[str]] = defaultdict(set)
    for entry in found:
        ids[entry["n"]].add(entry["id"])
    assert len(found) == PRODUCERS * UNIQUE
    assert sum(entry["created"] for entry in found) == UNIQUE
    assert all(len(one) == 1 for one in ids.values())
    assert number(path, "select count(*) from job_list") == UNIQUE


def at_work(path: Path, workers: list[subprocess.Popen[bytes]], behind: int) -> list[subprocess.Popen[bytes]]:
    """Return those of these workers that have begun something behind so many notes."""
    pids = {entry.get("pid") for entry in noted(path)[behind:]}
    return [one for one in workers if one.pid in pids]


def in_turn(found: list[dict[str, Any]]) -> None:
    """Check what is noted of one key: in order, one at a time; who was killed in the middle starts anew."""
    wanted, open_ = 0, None
    for entry in found:
        assert entry["n"] in {wanted, wanted - 1}
        if entry["event"] == "start":
            # An earlier one can only have been left open by a worker that was killed.
            assert open_ in {None, entry["n"]}
            open_ = entry["n"]
        else:
            open_ = None
        if entry["event"] == "end":
            wanted = entry["n"] + 1
    assert (wanted, open_) == (ORDERED, None)


def by_key(path: Path) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for entry in noted(path):
        found[entry["key"]].append(entry)
    return found


def test_keys_are_worked_on_in_order_by_several_workers(path: Path, spawn: Spawn) -> None:
    workers = at_hand(path, spawn, 3)
    produce(spawn, "ordered", ORDERED, producers=1)
    wait_for_end(path, ORDERED * len(KEYS))
    stop(*workers)
    found = by_key(path)
    assert found.keys() == set(KEYS)
    for one in found.values():
        in_turn(one)
        assert sum(entry["event"] == "start" for entry in one) == ORDERED + ORDERED // 5
    pids = {entry["pid"] for one in found.values() for entry in one if entry["event"] == "start"}
    assert len(pids) > 1, "the workers did not share the work"


def test_the_order_outlives_workers_that_are_killed(path: Path, spawn: Spawn) -> None:
    workers = [worker(spawn) for _ in range(3)]
    producing = producer(spawn, "ordered", "producer", ORDERED)
    for _ in range(2):
        begun = partial(at_work, path, workers, len(noted(path)))
        wait_until(begun, "no worker has begun")
        # Whoever it is: one that is quick may leave nothing to another one.
        victim = begun()[0]
        victim.kill()
        victim.wait()
        workers.remove(victim)
    assert producing.wait(PATIENCE) == 0
    wait_for_end(path, ORDERED * len(KEYS))
    stop(*workers)
    found = by_key(path)
    assert found.keys() == set(KEYS)
    for one in found.values():
        in_turn(one)
    assert number(path, "select count(*) from jobs where admitted is not null") == 0


def test_a_queue_s_concurrency_over_processes(path: Path, spawn: Spawn) -> None:
    workers = at_hand(path, spawn, 2)
    produce(spawn, "crowd", BUSY, producers=1)
    wait_for_end(path, BUSY)
    stop(*workers)
    running = most = 0
    pids: set[int] = set()
    for entry in noted(path):
        running += 1 if entry["event"] == "start" else -1
        most = max(most, running)
        pids |= {entry["pid"]} if entry["event"] == "start" else set()
    assert (running, most) == (0, CONCURRENCY)
    assert len(pids) == 2
