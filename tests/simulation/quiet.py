"""What the workers log of faults that were meant."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def quiet() -> Iterator[None]:
    """Keep the product's log from everything but the simulation's own handler, which looks at errors alone."""
    logger = logging.getLogger("queue_core")
    before = (logger.propagate, logger.level)
    logger.propagate = False
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.propagate = before[0]
        logger.setLevel(before[1])
