"""Ids of jobs: UUIDv7 (RFC 9562), so that ids sort by time of making and index pages stay warm."""

from __future__ import annotations

import os
import random
import time
import uuid

_source = random.Random()
os.register_at_fork(after_in_child=_source.seed)


def new_id() -> str:
    """Return a new UUIDv7 as text: 48 bits of milliseconds, then random bits. The order of jobs never rests on it."""
    value = time.time_ns() // 1_000_000 << 80 | _source.getrandbits(80)
    text = f"{value & ~(0xF << 76) & ~(0x3 << 62) | 0x7 << 76 | 0x2 << 62:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def parse_id(text: str) -> str:
    """Return a job's id in its canonical form.

    Raises:
        ValueError: this is no id.
    """
    try:
        return str(uuid.UUID(text.strip()))
    except ValueError:
        raise ValueError(f"'{text[:60]}' is no job id; ids look like 01976f7e-5d6c-7b5e-8b7a-0c2f4d6e8a90") from None
