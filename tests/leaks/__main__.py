"""Looks whether anything grows under a mixed load: python -m tests.leaks --minutes 60 --mode postgres+redis."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
import time

from tests.faults.chaos.ground import MODES
from tests.leaks.measure import lines_of, measure


def main() -> int:
    """Run; 1 where something grows."""
    parser = argparse.ArgumentParser(prog="python -m tests.leaks", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--mode", choices=MODES, default=MODES[0])
    parser.add_argument("--rate", type=float, default=100.0, help="jobs a second (100)")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    # What it has started ends with it.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    began = time.monotonic()

    def say(text: str) -> None:
        sys.stderr.write(f"{time.monotonic() - began:8.1f} s  {text}\n")

    series = asyncio.run(measure(given.mode, given.minutes * 60, given.rate, given.seed, say))
    sys.stdout.write("\n".join(lines_of(series)) + "\n")
    return int(any(one.grows for one in series))


if __name__ == "__main__":
    sys.exit(main())
