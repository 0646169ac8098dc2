"""Every Redis key and channel, through one function that puts the queue into a hash tag.

| key | type | meaning |
|---|---|---|
| `<prefix>{<queue>}:pending` | ZSET id → rank | ready jobs, the best rank first |
| `<prefix>{<queue>}:scheduled` | ZSET id → due ms | hints for the promoter's next wake-up |
| `<prefix>{<queue>}:gen` | string | run id of the server, a random part; missing or foreign = rebuild |
| `<prefix>{<queue>}:eseq` | string | number of the last message of events |
| `<prefix>{<queue>}:waiters` | ZSET id → ms | finished jobs that somebody waits for; expires |
| `<prefix>events` | channel | lifecycle events (queue_core.events) |
| `<prefix>{<queue>}:job:<id>:done` | channel | says that a job has finished |
"""

from __future__ import annotations


class Keys:
    """The keys under one prefix, which ends in a colon or is empty."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self.events = f"{prefix}events"

    def of(self, queue: str, name: str) -> str:
        """Return the key of this name of a queue."""
        return f"{self._prefix}{{{queue}}}:{name}"

    def done_prefix(self, queue: str) -> str:
        """Return what stands before the id in a queue's done channels."""
        return self.of(queue, "job:")

    def queue_of(self, key: str, name: str) -> str:
        """Return the queue of a key that `of` made."""
        return key[len(self._prefix) + 1 : -len(name) - 2]
