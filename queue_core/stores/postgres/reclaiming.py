"""The parameters of the statement that takes jobs back from lost workers."""

from __future__ import annotations

from typing import Any

from queue_core.losses import CRASHED, EXCEPTION, POISON, POISON_CRASHES
from queue_core.signature import sign


def reclaim_parameters(limit: int) -> dict[str, Any]:
    """Return the parameters of `sweep/reclaim`."""
    poison, title = sign(EXCEPTION, POISON)
    crash, _ = sign(EXCEPTION, CRASHED)
    return {
        "limit": limit,
        "poison": POISON_CRASHES,
        "poison_said": POISON,
        "poison_signature": poison,
        "poison_title": title,
        "crash_said": CRASHED,
        "crash_signature": crash,
        "exception": EXCEPTION,
    }
