"""`python -m benchmarks.costs`: a run that is small."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_it_prints_the_costs_of_each_mode_and_the_log_of_each_step() -> None:
    command = [sys.executable, "-m", "benchmarks.costs", "--jobs", "100", "--mode", "postgres+redis", "--profile"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert run.returncode == 0, run.stderr
    assert len(re.findall(r"^postgres\+redis +(?:1|1,000) a call: +[\d.]+ µs a job", run.stdout, re.M)) == 2
    assert run.stdout.count("function calls") == 2
    logged = [int(found.replace(",", "")) for found in re.findall(r": ([\d,]+) bytes of write-ahead log", run.stdout)]
    # What a job is stored with comes to 200 bytes of payload, at least.
    assert len(logged) == 2
    assert min(logged) > 200
