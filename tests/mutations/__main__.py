"""Changes the product in many small ways, each of which tests must see: python -m tests.mutations [--only NAME]."""

from __future__ import annotations

import argparse
import random
import signal
import sys
import time

from tests.mutations.running import Copy, Result
from tests.mutations.table import MUTANTS


def main() -> int:
    """Run; 1 where a mutant survives or does not apply."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutations", description=__doc__)
    parser.add_argument("--only", metavar="NAME", action="append", help="this one; may be given several times")
    parser.add_argument("--count", type=int, help="a selection of so many")
    parser.add_argument("--seed", type=int, default=1, help="decides which (1)")
    parser.add_argument("--list", action="store_true", help="print their names")
    given = parser.parse_args()
    # What it has started ends with it.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if unknown := sorted(set(given.only or ()) - MUTANTS.keys()):
        sys.stderr.write(f"no mutant has the name {', '.join(unknown)}; --list names them\n")
        return 2
    names = given.only or sorted(MUTANTS)
    if given.count is not None:
        names = sorted(random.Random(given.seed).sample(names, min(given.count, len(names))))
    if given.list:
        write("\n".join(names))
        return 0
    results = []
    with Copy() as copy:
        for name in names:
            began = time.monotonic()
            result = copy.run(MUTANTS[name])
            results.append(result)
            write(f"{name:<45} {result.what:<10} {time.monotonic() - began:5.1f} s  {result.seen_by}")
    bad = [result for result in results if not result.killed]
    write(f"{len(results)} mutants, {len(results) - len(bad)} seen" + "".join(map(shown, bad)))
    return int(bool(bad))


def shown(result: Result) -> str:
    """Return what is wrong with a mutant."""
    return f"\n{result.name}: {result.what}\n{result.output}"


def write(text: str) -> None:
    """Write a line."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
