"""Asks the person at the terminal before something is done that deserves a second thought."""

from __future__ import annotations

import sys

from jobconsole.cli.failures import Refused, ask


def check_terminal(what: str) -> None:
    """Make sure that there is somebody to ask.

    Raises:
        Refused: standard input is no terminal.
    """
    if not sys.stdin.isatty():
        raise Refused(f"refused to {what} without --yes, since standard input is no terminal to ask at")


def confirm(what: str, typed: str | None = None) -> None:
    """Ask the person at the terminal; with `typed`, that text has to be typed in place of y.

    Raises:
        Refused: the answer is no.
    """
    if typed is None:
        agreed = ask(f"{what}? [y/N] ").lower() in {"y", "yes"}
    else:
        agreed = ask(f"{what}, for good? type {typed} to go on: ") == typed
    if not agreed:
        raise Refused("nothing was done")
