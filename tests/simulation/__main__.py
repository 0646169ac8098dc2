"""Simulates any number of schedules: python -m tests.simulation --schedules 10000 --seed 1 [--trace]."""

from __future__ import annotations

import argparse
import sys
import time

from tests.simulation.mutants import MUTANTS, mutated
from tests.simulation.quiet import quiet
from tests.simulation.schedule import simulate


def main() -> int:
    """Simulate, print what does not hold, and how many schedules a second; 1 where something does not hold."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation")
    parser.add_argument("--schedules", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1, help="of the first one; the others follow")
    parser.add_argument("--trace", action="store_true", help="print all that happens")
    parser.add_argument(
        "--without", choices=sorted(MUTANTS), help="take this out of the product; the first find ends it"
    )
    options = parser.parse_args()
    began, jobs, attempts, refused, faults, wrong = time.process_time(), 0, 0, 0, 0, 0
    with quiet(), mutated(options.without):
        for seed in range(options.seed, options.seed + options.schedules):
            result = simulate(seed)
            if options.trace:
                write("\n".join(result.trace))
            for problem in result.problems:
                write(f"seed {seed}: {problem}")
            jobs, attempts, faults = jobs + result.jobs, attempts + result.attempts, faults + result.faults
            refused, wrong = refused + result.refused, wrong + bool(result.problems)
            if wrong and options.without:
                break
    seconds = time.process_time() - began
    write(
        f"{options.schedules} schedules: {jobs} jobs, {attempts} attempts, {faults} faults, "
        f"{refused} late outcomes refused, {wrong} schedules wrong; {seconds:.0f} s of CPU"
    )
    return int(wrong > 0)


def write(text: str) -> None:
    """Write a line."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
