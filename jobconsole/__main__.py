"""`python -m jobconsole`, and `jobconsole`, are the command line."""

import signal
import sys


def main() -> int:
    """Run the command line of this process and return its exit code.

    While it is loaded, Ctrl-C ends the process as one without handlers: quietly.
    """
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from jobconsole.cli.root import main as run

    signal.signal(signal.SIGINT, before)
    return run()


if __name__ == "__main__":
    sys.exit(main())
