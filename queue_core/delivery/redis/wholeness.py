"""Whether Redis still holds what it was given: markers that a server which was emptied or replaced does not have."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Iterator, Sequence
from typing import Any

from redis.asyncio import Redis

from queue_core.redis.keys import Keys

AGAIN = 5.0
"""Seconds after which the marker of a queue is read again although the server's own is there: somebody may have removed
it, to have the ready set rebuilt, or have written something else there."""
AT_ONCE = 100
"""Queues looked at in one round trip, and of those that were whole before, in one round."""

_OTHER_KEYS = {"eseq": "string", "waiters": "zset"}

logger = logging.getLogger("queue_core.delivery")


class Wholeness:
    """Markers begin with the run id of the server on which they were written.

    After a restart or a failover the id is another one, after FLUSHALL the marker is gone. One marker stands for the
    server, so that queues about which nothing is doubtful cost nothing; one for each queue says that it was rebuilt.
    """

    def __init__(self, client: Redis, keys: Keys, ready: str) -> None:
        self._client = client
        self._keys = keys
        self._ready = ready
        # the server's marker as last read
        self._marker = ""
        # time.monotonic at which queues were last found whole under this marker, the longest ago first
        self._whole_at: dict[str, float] = {}

    async def doubtful(self, queues: Sequence[str]) -> list[str]:
        """Return those of the queues whose ready sets may have lost jobs since they were declared whole."""
        run = await self._look_at_server()
        now = time.monotonic()
        new = [queue for queue in queues if queue not in self._whole_at]
        asked = set(queues)
        old = [queue for queue, at in self._whole_at.items() if now - at >= AGAIN and queue in asked][:AT_ONCE]
        found: list[str] = []
        for part in _parts([*new, *old]):
            for queue, whole in zip(part, await self._look_at(part, run), strict=True):
                self._whole_at.pop(queue, None)
                if whole:
                    self._whole_at[queue] = now
                else:
                    found.append(queue)
        return found

    async def mark(self, queue: str) -> None:
        """Declare a ready set whole."""
        await self._client.set(self._keys.of(queue, "gen"), await self._new_marker())
        self._whole_at.pop(queue, None)
        self._whole_at[queue] = time.monotonic()

    async def _look_at_server(self) -> str:
        """Return the run id of the server; what was known of queues is forgotten when its marker is another one."""
        commands = self._client.pipeline(transaction=False)
        commands.get(self._keys.generation)
        commands.info("server")
        marker, information = await commands.execute(raise_on_error=False)
        run = str(information["run_id"])
        if not isinstance(marker, str) or marker.partition(":")[0] != run:
            marker = f"{run}:{secrets.token_hex(4)}"
            await self._client.set(self._keys.generation, marker)
        if marker != self._marker:
            self._marker = marker
            self._whole_at.clear()
        return run

    async def _new_marker(self) -> str:
        information = await self._client.info("server")
        return f"{information['run_id']}:{secrets.token_hex(4)}"

    async def _look_at(self, queues: Sequence[str], run: str) -> list[bool]:
        """Tell of each queue whether it is whole; remove what would stop delivery, or stay for ever."""
        names = [self._ready, *_OTHER_KEYS]
        commands = self._client.pipeline(transaction=False)
        for queue in queues:
            commands.get(self._keys.of(queue, "gen"))
            for name in names:
                commands.type(self._keys.of(queue, name))
            commands.get(self._keys.of(queue, "eseq"))
        answers = iter(await commands.execute(raise_on_error=False))
        found: list[bool] = []
        for queue in queues:
            marker = next(answers)
            strangers = [name for name in names if next(answers) not in {_OTHER_KEYS.get(name, "zset"), "none"}]
            number = next(answers)
            if isinstance(number, str) and not number.isdigit():
                strangers.append("eseq")
            await self._remove(queue, strangers)
            of_this_run = isinstance(marker, str) and marker.partition(":")[0] == run
            found.append(of_this_run and self._ready not in strangers)
        return found

    async def _remove(self, queue: str, names: Sequence[str]) -> None:
        if names:
            keys = [self._keys.of(queue, name) for name in names]
            logger.warning("removed what somebody else wrote into Redis: %s", ", ".join(keys))
            await self._client.delete(*keys)


def _parts(queues: Sequence[Any]) -> Iterator[Sequence[Any]]:
    for start in range(0, len(queues), AT_ONCE):
        yield queues[start : start + AT_ONCE]
