"""dramatiq on Redis: threads that take messages in small batches and acknowledge each after it has run."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Sequence
from typing import Any

import dramatiq
from dramatiq.brokers.redis import RedisBroker

from jobconsole.bench.record import Recorder

CONFIGS = [{"threads": 8}, {"threads": 16}, {"threads": 32}]

broker = RedisBroker(url=os.environ["PEER_REDIS_URL"])
dramatiq.set_broker(broker)
recorder = Recorder()


@dramatiq.actor
def noop(number: int, sent: float, customer: str, text: str) -> None:
    recorder.note(number, sent)


async def prepare() -> None:
    """There is nothing to make."""


class Client:
    async def open(self) -> None:
        """The broker connects by itself."""

    async def one(self, payload: dict[str, Any]) -> None:
        noop.send(**payload)

    async def many(self, payloads: Sequence[dict[str, Any]]) -> None:
        """Send one by one: there is no call for lists."""
        for payload in payloads:
            noop.send(**payload)

    async def left(self) -> int:
        return int(broker.client.hlen("dramatiq:default.msgs"))

    async def close(self) -> None:
        broker.close()


def work(config: dict[str, int]) -> None:
    stopped = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    worker = dramatiq.Worker(broker, worker_threads=config["threads"])
    worker.start()
    stopped.wait()
    worker.stop()
