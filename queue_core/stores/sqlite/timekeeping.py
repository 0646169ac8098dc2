"""Leases when the machine's clock is set: what counts is the time that passed, which a steady clock tells.

Everybody here has the same machine, and so the same two clocks: the one that people set, in which times are stored, and
the steady one. Whoever touches leases compares both with how they last were. Where the first went further, or less far,
than the second, it was set, or the machine slept; then everything that waits for time to pass is moved along with it.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from queue_core.stores.sqlite.link import Transaction

TOLERANCE = 2.0
"""Seconds that the clocks may differ: more than a time server's gentle corrections, less than any lease."""
NOTED = 60.0
"""Seconds after which both clocks are noted anew; in an hour they drift apart by a second at most."""

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_TIMES = Path("/proc/self/ns/time")

_MOVED = (
    "move_leases",
    "move_retries",
    "move_workers",
    "move_leaders",
    "move_refills",
    "move_unique",
    "move_operations",
)


@cache
def machine() -> str:
    """Return what the steady clock belongs to: this start of this machine; empty where the system does not tell."""
    try:
        # A container can have a steady clock of its own.
        return f"{_BOOT.read_text(encoding='ascii').strip()} {_TIMES.readlink() if _TIMES.is_symlink() else ''}"
    except OSError:
        return ""


def keep_time(transaction: Transaction) -> None:
    """Move what waits for time to pass, if the clock was set since somebody last looked."""
    ((wall, steady, known),) = transaction.rows("claim/clocks")
    here, now, steady_now = machine(), transaction.now, transaction.clock.monotonic()
    jump = 0.0
    if here and known == here and steady_now >= steady:
        jump = (now - wall) - (steady_now - steady)
        if abs(jump) > TOLERANCE:
            for moved in _MOVED:
                transaction.run(f"claim/{moved}", {"seconds": jump})
    if known != here or abs(jump) > TOLERANCE or now - wall > NOTED:
        transaction.run("claim/note_clocks", (now, steady_now, here))
