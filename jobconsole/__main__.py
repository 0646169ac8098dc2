"""`python -m jobconsole` is the command line."""

import sys

from jobconsole.cli.entry import main

if __name__ == "__main__":
    sys.exit(main())
