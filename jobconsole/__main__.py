"""`python -m jobconsole`, and `jobconsole`, are the command line."""

import signal
import sys


def main() -> int:
    """Run the command line of this process and return its exit code.

    While it is loaded, Ctrl-C ends the process as one without handlers: quietly.
    """
    as_usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if as_usual:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from jobconsole.cli.root import main as run

    if as_usual:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    return run()


if __name__ == "__main__":
    sys.exit(main())
