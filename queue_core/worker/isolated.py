"""The child of queue_core.worker.isolation: runs one job and writes its outcome.

Started as `python -m queue_core.worker.isolated TARGET WORKER FD`, the claim being JSON on standard input.
"""

from __future__ import annotations

import json
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TextIO

from queue_core.job import Claim, Outcome
from queue_core.worker.attempt import Attempt
from queue_core.worker.execution import execute
from queue_core.worker.process import load_target, run_loop


class ReportingAttempt(Attempt):
    """Writes progress to the worker as it comes."""

    __slots__ = ("_output",)

    def __init__(self, claim: Claim, output: TextIO) -> None:
        super().__init__(claim, time.monotonic())
        self._output = output

    def report(self, percent: int, message: str) -> None:
        """Send the newest progress."""
        print(json.dumps({"progress": percent, "message": message}), file=self._output, flush=True)


async def run(target: str, worker: str, output: TextIO) -> None:
    """Run the job on standard input."""
    fields = json.load(sys.stdin)
    claim = Claim(*fields)
    claim = claim._replace(tags=tuple(claim.tags))
    jobs = load_target(target)
    attempt = ReportingAttempt(claim, output)
    attempt.started = time.perf_counter()
    definition = jobs.tasks.get(claim.type)
    with ThreadPoolExecutor(max_workers=1) as threads:
        outcome: Outcome = await execute(attempt, definition, jobs.settings.limits, worker, threads)
    await jobs.close()
    print(json.dumps({"outcome": outcome}), file=output, flush=True)


if __name__ == "__main__":
    with os.fdopen(int(sys.argv[3]), "w", encoding="utf-8") as pipe:
        run_loop(run(sys.argv[1], sys.argv[2], pipe))
    os._exit(0)
