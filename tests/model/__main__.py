"""Explores the model to its end: python -m tests.model --faults 3 --changes 0."""

from __future__ import annotations

import argparse
import sys
import time
from itertools import product

from tests.model.explore import explore
from tests.model.model import Jobs

BOTH = ((False, False), (True, False), (True, True))


def main() -> int:
    """Print how many states each kind of jobs has, and the way to what is broken; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.model", description=__doc__)
    parser.add_argument("--faults", type=int, default=3, help="how many there are at most (3)")
    parser.add_argument("--changes", type=int, default=0, help="how often an operator may change something (0)")
    given = parser.parse_args()
    for fails, waits in product(BOTH, BOTH):
        began = time.monotonic()
        found = explore(Jobs(fails, waits), given.faults, given.changes)
        sys.stdout.write(f"fails {fails} waits {waits}: {found.states:,} states, {time.monotonic() - began:.0f} s\n")
        sys.stdout.flush()
        if found.broken:
            sys.stdout.write("\n  ".join([f"{found.broken}:", *map(str, found.steps)]) + "\n")
            return 1
    return 0


sys.exit(main())
