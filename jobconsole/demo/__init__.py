"""The whole product on this machine's own files: embedded servers, workers, a producer and the console."""

from __future__ import annotations

from jobconsole.demo.options import DemoOptions

__all__ = ["DemoOptions", "run"]


def run(options: DemoOptions) -> int:
    """Run the demo and return its exit code: 0, or 1 when something was lost or does not add up.

    Raises:
        DemoError: it cannot start, or one of its processes has ended by itself; the error knows its exit code.
        KeyboardInterrupt: a second signal came before the end was reached.
    """
    from jobconsole.demo.run import run_demo

    return run_demo(options)
