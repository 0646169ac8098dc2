"""How long those tests of the console take that could go on for ever: with CONSOLE_LONG their full measure."""

from __future__ import annotations

import os

LONG = bool(os.environ.get("CONSOLE_LONG"))
"""A million events, a minute of keys at each size."""
SEED = int(os.environ.get("CONSOLE_SEED", "1"))
"""Decides what is random; the failure names it."""
