"""`benchmarks/growth.py` and `benchmarks/held_snapshot.py`: runs that are small."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_it_prints_the_ratios_of_each_growth() -> None:
    command = [sys.executable, "benchmarks/growth.py", "--mode", "postgres+redis", "--scale", "0.0002"]
    command += ["--turns", "1", "--jobs", "5000", "--json"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert run.stdout, run.stderr
    assert "Traceback" not in run.stderr, run.stderr
    rows = [json.loads(line) for line in run.stdout.splitlines()]
    assert [row["growth"] for row in rows] == ["history 2,000", "dead 200", "queues 1", "leases 20", "backlog 200"]
    assert all(row["ratio"] > 0 for row in rows)
    missed = [row["growth"] for row in rows if row["ratio"] < 0.9]
    assert run.returncode == bool(missed)
    assert all(growth in run.stderr for growth in missed)


def test_it_prints_the_ratios_beside_a_held_snapshot() -> None:
    command = [sys.executable, "benchmarks/held_snapshot.py", "--mode", "postgres", "--seconds", "2", "--json"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert run.stdout, run.stderr
    (row,) = [json.loads(line) for line in run.stdout.splitlines()]
    assert all(row[name] > 0 for name in ("clean", "held", "ratio", "query ratio"))
