"""The one place where the errors of Redis become those of delivery."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from redis.exceptions import RedisError

from queue_core.delivery.circuit import Circuit
from queue_core.dispatch import DispatchUnavailable


@asynccontextmanager
async def within(seconds: float | None, circuit: Circuit | None = None) -> AsyncIterator[None]:
    """Turn every failure to reach the server, and the end of the time, into DispatchUnavailable.

    With a circuit, the call is refused at once while the server is taken for lost, and its outcome is noted.
    """
    if circuit is not None and not circuit.allows():
        raise DispatchUnavailable(circuit.reason)
    try:
        async with asyncio.timeout(seconds):
            yield
    except (RedisError, OSError, TimeoutError) as error:
        reason = str(error) or type(error).__name__
        if circuit is not None:
            circuit.failed(reason)
        raise DispatchUnavailable(reason) from error
    if circuit is not None:
        circuit.worked()
