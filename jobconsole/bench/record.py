"""The benchmark's job as any queue can run it: its payload, and the record of its runs.

Only the standard library is imported, so that a program without this queue's dependencies can use it, too.
"""

from __future__ import annotations

import json
import mmap
import os
import struct
import time
from pathlib import Path
from typing import Any, NamedTuple

PAYLOAD_BYTES = 200


def payload(number: int, sent: float = 0.0) -> dict[str, Any]:
    """Return the payload of a job: some 200 bytes of JSON, as a small real one would have."""
    body = {"number": number, "sent": sent, "customer": f"customer-{number:08d}", "text": ""}
    body["text"] = "x" * (PAYLOAD_BYTES - len(json.dumps(body)))
    return body


_START = struct.Struct("dd")
_DELAY = struct.Struct("d")


class ProcessStart(NamedTuple):
    """The moment at which a process ran its first job."""

    # seconds since the epoch
    at: float
    # seconds of CPU time that the process had used until then
    cpu: float


class Recorder:
    """The handler's side: notes that a job ran."""

    def __init__(self, folder: Path | None = None) -> None:
        if folder is not None:
            self.open(folder)

    def open(self, folder: Path) -> None:
        """Note into this folder from now on; a `DeliveryRecord` has made it."""
        self._started = False
        self._folder = folder
        with (folder / "seen").open("r+b") as seen:
            self._seen = mmap.mmap(seen.fileno(), 0)
        self._delays = os.open(folder / "delays", os.O_WRONLY | os.O_APPEND)

    def note(self, number: int, sent: float) -> None:
        """Note one run of a job; `sent`: when its enqueue was called, in seconds since the epoch, 0 = no matter."""
        if not self._started:
            self._started = True
            (self._folder / f"{os.getpid()}.started").write_bytes(_START.pack(time.time(), time.process_time()))
        self._seen[number] = min(255, self._seen[number] + 1)
        if sent:
            os.write(self._delays, _DELAY.pack(time.time() - sent))


class DeliveryRecord:
    """The reader's side: one folder for one phase of a benchmark."""

    def __init__(self, folder: Path, size: int) -> None:
        """Make the folder for the jobs numbered from 0 to below `size`."""
        self.folder = folder
        self.size = size
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        (folder / "seen").write_bytes(bytes(size))
        (folder / "delays").touch()

    def missing(self) -> int:
        """Return how many jobs have not run."""
        return (self.folder / "seen").read_bytes().count(0)

    def repeated(self) -> int:
        """Return how many jobs ran more than once."""
        return sum(times > 1 for times in (self.folder / "seen").read_bytes())

    def delays(self) -> list[float]:
        """Return the seconds from enqueue to handler, shortest first."""
        return sorted(delay for (delay,) in _DELAY.iter_unpack((self.folder / "delays").read_bytes()))

    def starts(self) -> dict[int, ProcessStart]:
        """Return for each process that ran a job when it began."""
        found = {}
        for path in self.folder.glob("*.started"):
            packed = path.read_bytes()
            if len(packed) == _START.size:
                found[int(path.stem)] = ProcessStart(*_START.unpack(packed))
        return found
