"""The workers' parent process: `jobconsole worker run jobconsole.demo.tasks:jobs`, more patient and more polite."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from queue_core.client.logs import setup_logging
from queue_core.worker.options import ServiceOptions
from queue_core.worker.supervisor import supervise

TASKS = "jobconsole.demo.tasks:jobs"
GRACE_SECONDS = 4.0
"""Seconds that running jobs may take at the end before they are given back."""
NICENESS = 5
"""The niceness of the workers: other programs of this machine come first."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run as the workers' parent process."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--processes", type=int, required=True)
    parser.add_argument("--concurrency", type=int, required=True)
    options = parser.parse_args(arguments)
    os.nice(NICENESS)
    setup_logging("text")
    return supervise(TASKS, ServiceOptions(options.processes, options.concurrency, grace=GRACE_SECONDS))


if __name__ == "__main__":
    sys.exit(main())
