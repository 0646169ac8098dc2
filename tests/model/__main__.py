"""Explores the model to its end: python -m tests.model --faults 3 --changes 0."""

from __future__ import annotations

import argparse
import sys
import time
from itertools import product

from tests.model import search, traces
from tests.model.explore import explore
from tests.model.model import Jobs

BOTH = ((False, False), (True, False), (True, True))


def main() -> int:
    """Print how many states each kind of jobs has, and the way to what is broken; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.model", description=__doc__)
    parser.add_argument("--faults", type=int, default=3, help="how many there are at most (3)")
    parser.add_argument("--changes", type=int, default=0, help="how often an operator may change something (0)")
    parser.add_argument("--traces", action="store_true", help="choose the traces that are replayed, instead")
    given = parser.parse_args()
    if given.traces:
        choose_traces()
        return 0
    for fails, waits in product(BOTH, BOTH):
        began = time.monotonic()
        found = explore(Jobs(fails, waits), given.faults, given.changes)
        write(f"fails {fails} waits {waits}: {found.states:,} states, {time.monotonic() - began:.0f} s")
        if found.broken:
            write("\n  ".join([f"{found.broken}:", *map(str, found.steps)]))
            return 1
    return 0


def choose_traces() -> None:
    """Write traces that take each pair of steps that can follow each other."""
    found = search.wander(search.WANDERINGS)
    write(f"{search.WANDERINGS:,} random traces: {len(found):,} pairs")
    for one in search.explored():
        found = {pair: search.trace_to(one, pair) for pair in one.pairs} | found
        write(f"{one.jobs}: {len(one.ways):,} places, {len(one.pairs):,} pairs, {len(found):,} in all")
    chosen = []
    for trace, left in search.choose(found):
        chosen.append(trace)
        if len(chosen) % 50 == 0 or not left:
            write(f"{len(chosen)} traces, {left} pairs are left")
    traces.write(search.best(chosen))


def write(text: str) -> None:
    """Write a line."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
