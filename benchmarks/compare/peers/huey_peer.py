"""huey on Redis: one consumer that takes each job off the list before it runs it, and acknowledges nothing."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from huey import RedisHuey

from jobconsole.bench.record import Recorder

CONFIGS = [
    {"worker_type": "thread", "workers": 1},
    {"worker_type": "thread", "workers": 4},
    {"worker_type": "process", "workers": 1},
]

huey = RedisHuey("bench", url=os.environ["PEER_REDIS_URL"])
recorder = Recorder()


@huey.task()
def noop(number: int, sent: float, customer: str, text: str) -> None:
    recorder.note(number, sent)


async def prepare() -> None:
    """There is nothing to make."""


class Client:
    async def open(self) -> None:
        """The storage connects by itself."""

    async def one(self, payload: dict[str, Any]) -> None:
        noop(**payload)

    async def many(self, payloads: Sequence[dict[str, Any]]) -> None:
        """Send one by one: there is no call for lists."""
        for payload in payloads:
            noop(**payload)

    async def left(self) -> int:
        return int(huey.pending_count())

    async def close(self) -> None:
        huey.storage.close()


def work(config: dict[str, Any]) -> None:
    huey.create_consumer(**config, periodic=False).run()
