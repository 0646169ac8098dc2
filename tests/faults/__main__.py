"""Random faults for any time, and the thirty that have a name: python -m tests.faults --minutes 60 --seed 1."""

from __future__ import annotations

import argparse
import asyncio
import signal
import subprocess
import sys
import time

from tests.architecture.sources import ROOT
from tests.faults.catalogue import CATALOGUE, find
from tests.faults.chaos.ground import MODES, TOPOLOGIES
from tests.faults.chaos.run import Plan, run
from tests.faults.chaos.strikes import STRIKES
from tests.faults.chaos.table import lines_of


def arguments() -> argparse.ArgumentParser:
    """Return what the command line is read with."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0, help="of faults (60)")
    parser.add_argument("--seed", type=int, default=1, help="decides which, when, and for how long (1)")
    parser.add_argument("--mode", choices=MODES, default=MODES[0])
    parser.add_argument("--redis", choices=TOPOLOGIES, default=TOPOLOGIES[0], help="how Redis is run (single)")
    parser.add_argument("--rate", type=float, default=60.0, help="jobs a second (60)")
    parser.add_argument("--only", metavar="NAME", help="a fault of --list: its tests, and its random faults")
    parser.add_argument("--list", action="store_true", help="print the faults that have a name")
    return parser


def main() -> int:
    """Run; 1 where something was lost or is not explained, or a test fails."""
    given = arguments().parse_args()
    if given.list:
        for number, known in enumerate(CATALOGUE, 1):
            write(f"{number:>2}  {known.name}: {known.what}")
            write(f"    passes when: {known.passes}")
        return 0
    # What it has started ends with it.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if given.only is None:
        return chaos(given, ())
    try:
        known = find(given.only)
    except KeyError:
        sys.stderr.write(f"no fault has the name '{given.only}'; --list names them\n")
        return 2
    failed = subprocess.run([sys.executable, "-m", "pytest", "-q", *tests_of(known.tests)], cwd=ROOT, check=False)
    return int(bool(failed.returncode)) | (chaos(given, known.strikes) if known.strikes and given.minutes else 0)


def tests_of(names: tuple[str, ...]) -> list[str]:
    """Return what pytest is given."""
    return [f"tests/{name}" for name in names]


def chaos(given: argparse.Namespace, only: tuple[str, ...]) -> int:
    """Run random faults, and print the table."""
    assert set(only) <= STRIKES.keys()
    began = time.monotonic()

    def say(text: str) -> None:
        sys.stderr.write(f"{time.monotonic() - began:8.1f} s  {text}\n")

    plan = Plan(given.mode, given.redis, given.minutes, given.seed, given.rate, only=only)
    outcome = asyncio.run(run(plan, say))
    for line in lines_of(outcome):
        write(line)
    return int(bool(outcome.verdict.problems))


def write(text: str) -> None:
    """Write a line."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
