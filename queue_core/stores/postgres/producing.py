"""What producers ask of the store: to write jobs, and what became of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from queue_core.errors import InvalidJob, TransactionError
from queue_core.job import Final, Inserted, NewJob, weight_of
from queue_core.rules import Rules
from queue_core.stores.postgres.callers import driver_connection, run_on
from queue_core.stores.postgres.gates import make_gates
from queue_core.stores.postgres.inserting import (
    insert_parameters,
    insert_parts,
    insert_ruled,
    inserted,
    is_plain,
    parts_for,
)
from queue_core.stores.postgres.keyed import read_committed
from queue_core.stores.postgres.lane import Lane, LockHeld, QueuesLost
from queue_core.stores.postgres.numbers import Numbers
from queue_core.stores.postgres.plan import carry_out
from queue_core.stores.postgres.ranks import named, spell
from queue_core.stores.postgres.records import final_of, known_ids
from queue_core.stores.postgres.sql import plain_array, text_array


def _told(written: Sequence[Inserted]) -> dict[str, str]:
    """Return what is told of jobs that a caller's transaction commits, maybe long after they took their places."""
    queues: dict[str, list[int]] = {job.queue: [] for job in written}
    for job in written:
        if job.rank is not None:
            queues[job.queue].append(job.rank)
    told = [spell(named(ranks), queue) for queue, ranks in sorted(queues.items()) if ranks]
    return {"queues": text_array(sorted(queues)), "ranks": text_array(told)}


class Producing:
    """See queue_core.store.JobStore for what each method does."""

    def __init__(self, lane: Lane, looks: Lane, numbers: Numbers, rules: Rules) -> None:
        self._lane = lane
        self._looks = looks
        self._numbers = numbers
        self._rules = rules

    async def insert(self, jobs: Sequence[NewJob]) -> list[Inserted]:
        """Write the jobs, all or none, as queued or scheduled, creating their queues; answer in the same order."""
        if not jobs:
            return []
        try:
            return await self._insert(jobs)
        except QueuesLost:
            self._numbers.forget({job.queue for job in jobs})
            return await self._insert(jobs)

    async def _insert(self, jobs: Sequence[NewJob]) -> list[Inserted]:
        numbers = await self._numbers.create({job.queue for job in jobs}, self._lane)
        parts = parts_for(jobs)
        plain = is_plain(jobs, self._rules)
        if plain and len(parts) == 1:
            return inserted(jobs, await self._lane.run("insert/jobs", insert_parameters(jobs, numbers)))
        return await self._lane.carry_out(
            lambda: insert_parts(parts, numbers) if plain else insert_ruled(jobs, numbers, self._rules),
            len(parts),
            weight=weight_of(jobs),
        )

    async def insert_on(self, connection: Any, jobs: Sequence[NewJob]) -> list[Inserted]:
        """Write the jobs in the transaction of a caller's connection; nobody sees them before it commits.

        The unique keys, limits, ordering keys and arrivals that they take are locked until then: others wait.
        """
        if not jobs:
            return []
        return await self.write_on(connection, jobs, await self.prepare(jobs))

    async def prepare(self, jobs: Sequence[NewJob]) -> Mapping[str, int]:
        """Make what a transaction needs to write these jobs, before it locks anything; return the numbers of queues.

        Queues are made apart, since a number remembered here must not be rolled back with the caller's work; and gates,
        so that who does not want to wait for one finds it locked.
        """
        # Looked up each time: a wrong number would end the transaction.
        self._numbers.forget({job.queue for job in jobs})
        numbers = await self._numbers.create({job.queue for job in jobs}, self._lane)
        keyed = {(job.queue, job.ordering_key) for job in jobs if job.ordering_key is not None}
        if keyed:
            with suppress(LockHeld):
                await self._lane.carry_out(lambda: make_gates(keyed), patient=False)
        return numbers

    async def write_on(self, connection: Any, jobs: Sequence[NewJob], numbers: Mapping[str, int]) -> list[Inserted]:
        """Write the jobs in somebody's transaction, for which they were prepared."""
        run = partial(run_on, await driver_connection(connection))
        if is_plain(jobs, self._rules):
            written = await carry_out(insert_parts(parts_for(jobs), numbers, compare=False), run)
        else:
            try:
                await carry_out(read_committed("a job under the rules of a queue"), run)
            except TransactionError as error:
                raise InvalidJob(str(error)) from None
            written = await carry_out(insert_ruled(jobs, numbers, self._rules), run)
        await run("insert/tell", _told(written))
        return written

    async def finals(self, ids: Sequence[str], seconds: float) -> list[Final]:
        """Return what is known about these jobs, unknown ids left out; results for so many seconds after the end."""
        rows = await self._looks.look("worker/finals", {"ids": plain_array(known_ids(ids)), "seconds": seconds})
        return [final_of(row) for row in rows]
