"""What really happened, written by producers and handlers outside of any store.

    batch TAG COUNT TIME     a producer is about to enqueue so many jobs that carry the tag
    enqueued TAG ID ID …     enqueue has returned
    start ID TOKEN PID TIME  a handler starts
    end ID TOKEN PID TIME    it is about to return
    back ID TOKEN WHY        the store has given the job back: reclaimed, retried, released
    refused ID TOKEN         the store has refused the outcome of an attempt
    failed ID TOKEN          a handler is about to raise
    born PID UNIT            a process of this part of a fleet begins

Times are of the machine's monotonic clock, the same in every process. One write a line, appended, so that a kill can
cut at most the last one.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from queue_core.model.job import Reclaimed


class Pen:
    """Writes one process's lines."""

    def __init__(self, folder: Path) -> None:
        self._file = os.open(folder / f"{os.getpid()}.ledger", os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC)

    def write(self, *words: object) -> None:
        os.write(self._file, (" ".join(map(str, words)) + "\n").encode())

    def batch(self, tag: str, count: int) -> None:
        self.write("batch", tag, count, f"{time.monotonic():.6f}")

    def start(self, job_id: str, token: int) -> None:
        self.write("start", job_id, token, os.getpid(), f"{time.monotonic():.6f}")

    def end(self, job_id: str, token: int) -> None:
        self.write("end", job_id, token, os.getpid(), f"{time.monotonic():.6f}")

    def reclaimed(self, jobs: Iterable[Reclaimed]) -> None:
        """Note those that run again."""
        for job in jobs:
            if job.rank is not None:
                self.write("back", job.id, job.token, "reclaimed")


@dataclass(frozen=True)
class Run:
    """A handler that started, or that came to its end."""

    id: str
    token: int
    pid: int
    # seconds of the monotonic clock
    at: float


@dataclass
class Ledger:
    """The lines of all processes."""

    # by tag: how many were about to be enqueued, and when
    batches: dict[str, tuple[int, float]] = field(default_factory=dict)
    # ids that enqueue has returned, by tag
    enqueued: dict[str, list[str]] = field(default_factory=dict)
    starts: list[Run] = field(default_factory=list)
    ends: list[Run] = field(default_factory=list)
    # (id, token) → why the store gave the job back
    back: dict[tuple[str, int], str] = field(default_factory=dict)
    refused: set[tuple[str, int]] = field(default_factory=set)
    failed: set[tuple[str, int]] = field(default_factory=set)
    # pid → the part of a fleet that a process belongs to
    units: dict[int, str] = field(default_factory=dict)

    @property
    def ids(self) -> set[str]:
        """Every job that the store must know."""
        return {one for ids in self.enqueued.values() for one in ids}

    @property
    def open_batches(self) -> dict[str, int]:
        """Batches whose producer never learned what became of them."""
        return {tag: count for tag, (count, _) in self.batches.items() if tag not in self.enqueued}

    def last_end(self, since: float) -> float:
        """Return when the last of the jobs ended that were enqueued before this moment."""
        early = {one for tag, ids in self.enqueued.items() if self.batches[tag][1] <= since for one in ids}
        return max((run.at for run in self.ends if run.id in early), default=since)

    def starts_of(self, job_id: str) -> list[Run]:
        """Return the starts of one job in their order."""
        return sorted((run for run in self.starts if run.id == job_id), key=lambda run: run.at)

    def tokens(self) -> dict[str, list[int]]:
        """Return the tokens that each job was started with, in their order."""
        found: dict[str, set[int]] = defaultdict(set)
        for run in self.starts:
            found[run.id].add(run.token)
        return {job_id: sorted(tokens) for job_id, tokens in found.items()}

    def add(self, line: str) -> None:
        match line.split(" "):
            case ["batch", tag, count, at]:
                self.batches[tag] = int(count), float(at)
            case ["enqueued", tag, *ids]:
                self.enqueued[tag] = ids
            case ["start", job_id, token, pid, at]:
                self.starts.append(Run(job_id, int(token), int(pid), float(at)))
            case ["end", job_id, token, pid, at]:
                self.ends.append(Run(job_id, int(token), int(pid), float(at)))
            case ["back", job_id, token, why]:
                self.back[job_id, int(token)] = why
            case ["refused", job_id, token]:
                self.refused.add((job_id, int(token)))
            case ["failed", job_id, token]:
                self.failed.add((job_id, int(token)))
            case ["born", pid, unit]:
                self.units[int(pid)] = unit
            case _:
                raise AssertionError(f"no line of a ledger: {line!r}")


def read(folder: Path) -> Ledger:
    """Return what all processes have written so far; a line that is not finished is left out."""
    ledger = Ledger()
    for path in sorted(folder.glob("*.ledger")):
        *lines, _cut = path.read_text().split("\n")
        for line in lines:
            ledger.add(line)
    return ledger


class Reader:
    """Reads what is new in the lines of all processes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._places: dict[Path, int] = {}
        self.ledger = Ledger()

    def read(self) -> Ledger:
        """Add what was written since the last call, and return everything."""
        for path in self._folder.glob("*.ledger"):
            with path.open("rb") as file:
                file.seek(self._places.get(path, 0))
                new = file.read()
            whole = new.rfind(b"\n") + 1
            self._places[path] = self._places.get(path, 0) + whole
            for line in new[:whole].decode().splitlines():
                self.ledger.add(line)
        return self.ledger
