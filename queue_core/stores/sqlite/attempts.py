"""A running job as the end of its attempt finds it, and the record of an attempt that failed."""

from __future__ import annotations

from typing import Any, NamedTuple

from queue_core.job import Failure
from queue_core.stores.sqlite.link import Transaction
from queue_core.stores.sqlite.standing import standing


class Held(NamedTuple):
    """What ends of attempts need to know of a job; the columns of settle/held and sweep/expired."""

    number: int
    id: str
    queue_id: int
    queue: str
    type: str
    place: str
    priority: int
    seq: int
    run_at: float
    retry_count: int
    crashes: int
    token: int
    ended: str | None
    worker: str | None
    started_at: float | None
    cancel: int
    begun: int
    aged: int | None
    # its ordering key
    key: str | None
    # whether its queue counts its jobs
    counted: int
    # workers that were lost while they ran it
    losses: int

    @property
    def failed(self) -> int:
        """Attempts that have failed, crashed or been lost."""
        return self.retry_count + self.crashes + self.losses

    @property
    def rank(self) -> int:
        """The rank that it has whenever it is ready."""
        return standing(self.priority, self.seq, self.aged)


class Failures:
    """Failed attempts, gathered while a transaction does its work and written at its end."""

    def __init__(self) -> None:
        self._attempts: list[tuple[Any, ...]] = []
        # signature -> its title and its exception
        self._named: dict[str, tuple[str, str]] = {}

    def note(self, job: Held, failure: Failure, number: int, now: float) -> None:
        """Keep why an attempt failed."""
        self._named.setdefault(failure.signature, (failure.title, failure.exception))
        self._attempts.append(
            (
                job.number,
                job.token,
                number,
                failure.kind,
                failure.exception,
                failure.message,
                failure.traceback,
                failure.signature,
                job.worker,
                job.started_at,
                now,
            )
        )

    def write(self, transaction: Transaction) -> None:
        """Add the attempts and the signatures that are new."""
        transaction.run_many("settle/attempt", self._attempts)
        named = [(signature, *said, transaction.now) for signature, said in self._named.items()]
        transaction.run_many("settle/signature", named)
