"""One benchmark from its options to its report, with nothing left behind."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from jobconsole.bench.ground import open_ground
from jobconsole.bench.measuring import Bench
from jobconsole.bench.options import BenchOptions
from jobconsole.bench.report import Report
from queue_core.worker.process import run_loop


def measure(options: BenchOptions, say: Callable[[str], None]) -> Report:
    """Run a benchmark; `say` is told what is being measured.

    Raises:
        DemoError: a server or a worker cannot be used; the error knows its exit code.
        ConfigurationError: the mode is not available.
    """
    with _ending_signals(), open_ground(options) as ground:
        bench = Bench(options, ground, say)
        run_loop(bench.run())
    assert bench.report is not None
    return bench.report


@contextmanager
def _ending_signals() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end this program as Ctrl+C does: by way of everything that has to be cleaned up."""
    numbers = (signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, signal.default_int_handler) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
