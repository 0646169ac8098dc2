"""Visits all states of the model: python -m tests.model --faults 3 --changes 0."""

from __future__ import annotations

import argparse
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from itertools import product

from tests.model import search, traces
from tests.model.model import Jobs
from tests.model.survey import Surveyed, survey

BOTH = ((False, False), (True, False), (True, True))


def main() -> int:
    """Print how many states each kind of jobs has, and what is broken; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.model", description=__doc__)
    parser.add_argument("--faults", type=int, default=3, help="how many there are at most (3)")
    parser.add_argument("--changes", type=int, default=0, help="how often an operator may change something (0)")
    parser.add_argument("--processes", type=int, default=2, help="how many kinds of jobs are visited at once (2)")
    parser.add_argument("--traces", action="store_true", help="choose the traces that are replayed, instead")
    given = parser.parse_args()
    if given.traces:
        choose_traces()
        return 0
    states = 0
    with ProcessPoolExecutor(given.processes) as pool:
        # Those with the most states first: they end last.
        kinds = reversed(list(product(BOTH, BOTH)))
        running = [pool.submit(surveyed, Jobs(*kind), given.faults, given.changes) for kind in kinds]
        for one in as_completed(running):
            jobs, found, seconds = one.result()
            states += found.states
            write(f"fails {jobs.fails} waits {jobs.waits}: {found.states:,} states, {seconds:.0f} s")
            if found.broken:
                write(f"{found.broken}: {found.step}")
                pool.shutdown(cancel_futures=True)
                return 1
    write(f"{states:,} states in all")
    return 0


def surveyed(jobs: Jobs, faults: int, changes: int) -> tuple[Jobs, Surveyed, float]:
    """Visit the states of one kind of jobs; return it, what was found and how many seconds that took."""
    began = time.monotonic()
    return jobs, survey(jobs, faults, changes), time.monotonic() - began


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
