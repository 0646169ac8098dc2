"""The ids of queues, by which their jobs are stored; a queue never changes its id.

But a failover to a server that lacks the last commits loses the row of a queue that was just made, and its id may
then be given to another one. So each write and claim names the queue, too, and ids that differ are read again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from queue_core.errors import StoreRefused
from queue_core.stores.postgres.dialect import text_array
from queue_core.stores.postgres.session.runner import SerialRunner

IdsByQueue = Mapping[str, int]
"""The ids of queues by their names."""

CREATE_TRIES = 5
"""Times that queues are created which are not there: each time others may do so."""
REREAD_SECONDS = 30.0
"""Seconds between two reads of the ids after nothing was found under one."""


QUEUES = "queue_ids/read"
"""The statement that reads every queue's name, id, and whether it is paused."""


def create_queues(names: Sequence[str]) -> tuple[str, dict[str, str]]:
    """Return the statement, with its parameters, that creates queues which do not exist and reads their ids."""
    return "queue_ids/create", {"names": text_array(names)}


class QueueIds:
    """The ids of queues, cached after the first read."""

    def __init__(self) -> None:
        # is called with the queues that this process creates
        self.created: Callable[[Sequence[str]], None] = lambda queues: None
        self._known: dict[str, int] = {}
        # time.monotonic at which all ids were last read
        self._read_at = float("-inf")

    def known(self) -> Mapping[str, int]:
        """Return the ids of the queues that have been read."""
        return self._known

    async def create(self, names: set[str], runner: SerialRunner) -> dict[str, int]:
        """Return the ids of queues after creating those that do not exist; the answer is the caller's own."""
        found = {name: self._known[name] for name in names if name in self._known}
        for _ in range(CREATE_TRIES):
            if not (missing := sorted(names - found.keys())):
                return found
            # Another producer may be creating the same queue at this moment: then it is there the next time.
            rows = await runner.run(*create_queues(missing))
            found.update({name: queue_id for name, queue_id, _ in rows})
            self._known.update(found)
            if new := [name for name, _, created in rows if created]:
                self.created(new)
        raise StoreRefused(
            "postgres", f"it does not show the queue '{missing[0]}', which was just created", passing=True
        )

    async def find(self, queue: str, runner: SerialRunner) -> int | None:
        """Return the id of a queue, or None when there is no such queue."""
        if queue not in self._known:
            await self._read(runner)
        return self._known.get(queue)

    async def doubt(self, runner: SerialRunner) -> None:
        """Read all ids again, if that is some time ago: nothing was found under one."""
        if time.monotonic() - self._read_at >= REREAD_SECONDS:
            await self._read(runner)

    async def _read(self, runner: SerialRunner) -> None:
        rows = await runner.run(QUEUES)
        self._known = {name: queue_id for name, queue_id, _ in rows}
        self._read_at = time.monotonic()

    def remember(self, rows: Iterable[tuple[str, int]]) -> None:
        """Cache names and ids that have been read."""
        self._known.update(rows)

    def forget(self, names: Iterable[str]) -> None:
        """Read these queues again before their ids are used."""
        for name in names:
            self._known.pop(name, None)
